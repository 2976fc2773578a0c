"""What a crash may leave in a partition's directory, beyond what any acknowledgement covered.

Each mishap takes the directory and a source of randomness. None of them touches a byte of an acknowledged batch, so
recovery must bring everything back. Used between a kill and the next start.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

from tests.integration.log_files import segments
from tests.integration.raw_client import batch_of


def nothing(directory: Path, source: random.Random) -> None:
    """Only the kill itself."""


def torn_batch(directory: Path, source: random.Random) -> None:
    """A write that got half-way: a whole header, then less than it promises."""
    batch = _next_batch(directory, source.randbytes(300))
    _add(directory, bytes(batch[: source.randrange(1, len(batch))]))


def garbage(directory: Path, source: random.Random) -> None:
    """Bytes of something else, as after a lost block."""
    _add(directory, source.randbytes(source.randrange(1, 500)))


def zeros(directory: Path, source: random.Random) -> None:
    """A file that was made longer before its blocks were written."""
    _add(directory, bytes(source.randrange(1, 5000)))


def damaged_batch(directory: Path, source: random.Random) -> None:
    """A whole batch with a wrong bit, followed by a sound one that must not survive it."""
    batch = _next_batch(directory, source.randbytes(100))
    batch[source.randrange(21, len(batch))] ^= 1 << source.randrange(8)
    _add(directory, bytes(batch + _next_batch(directory, b"after the damage", ahead=1)))


def lost_indexes(directory: Path, source: random.Random) -> None:
    """Some indexes never reached the disk."""
    for path in _files(directory, ".index", ".timeindex"):
        if source.random() < 0.5:
            path.unlink()


def broken_index(directory: Path, source: random.Random) -> None:
    """An index full of nonsense."""
    path = source.choice(_files(directory, ".index", ".timeindex"))
    path.write_bytes(source.randbytes(source.randrange(200)))


def broken_snapshot(directory: Path, source: random.Random) -> None:
    """The newest producer snapshot is cut off or has a wrong bit."""
    snapshots = _files(directory, ".snapshot")
    if not snapshots:
        return
    data = bytearray(snapshots[-1].read_bytes())
    if source.random() < 0.5:
        del data[source.randrange(len(data)) :]
    else:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    snapshots[-1].write_bytes(data)


def lost_snapshots(directory: Path, source: random.Random) -> None:
    """No producer snapshot is left: the state of producers is in the log."""
    for path in _files(directory, ".snapshot"):
        path.unlink()


def lost_leader_epochs(directory: Path, source: random.Random) -> None:
    """The checkpoint of leader epochs is missing or empty."""
    path = directory / "leader-epoch-checkpoint"
    if source.random() < 0.5:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(b"")


def lost_recovery_points(directory: Path, source: random.Random) -> None:
    """The checkpoint that says what was synced is missing or cut off: everything has to be read."""
    path = directory.parent / "recovery-point-offset-checkpoint"
    if source.random() < 0.5:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(b"0\n7\nrolling")


def _next_batch(directory: Path, value: bytes, ahead: int = 0) -> bytearray:
    """A batch that would continue the log, or come `ahead` offsets later: only its bytes can give it away."""
    batch = bytearray(batch_of([value]))
    _, next_offset = _end_of_batches(segments(directory)[-1])
    batch[:8] = (next_offset + ahead).to_bytes(8, "big")
    return batch


def _add(directory: Path, data: bytes) -> None:
    """Put bytes after the last batch of the active segment, which in a preallocated file is not at its end."""
    path = segments(directory)[-1]
    end, _ = _end_of_batches(path)
    with path.open("r+b") as file:
        file.seek(end)
        file.write(data)


def _end_of_batches(path: Path) -> tuple[int, int]:
    """Where the whole batches of a file end, and the offset after them."""
    content = path.read_bytes()
    position, next_offset = 0, int(path.stem)
    while position + 61 <= len(content):
        base_offset, length = struct.unpack_from(">qi", content, position)
        (last_delta,) = struct.unpack_from(">i", content, position + 23)
        if length <= 0 or position + 12 + length > len(content):
            break
        position += 12 + length
        next_offset = base_offset + last_delta + 1
    return position, next_offset


def _files(directory: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in suffixes)


MISHAPS: dict[str, Callable[[Path, random.Random], None]] = {
    mishap.__name__: mishap
    for mishap in (
        nothing,
        torn_batch,
        garbage,
        zeros,
        damaged_batch,
        lost_indexes,
        broken_index,
        broken_snapshot,
        lost_snapshots,
        lost_leader_epochs,
        lost_recovery_points,
    )
}
