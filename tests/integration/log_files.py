"""A partition's files seen from outside: nothing of `tidelog.storage` takes part, so that it cannot vouch for itself.

The walk is strict: from the first byte to the last, every batch must be whole, have a correct checksum and continue the
offsets of the one before. What is found is what a broker may serve.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")


class FoundBatch(NamedTuple):
    """One batch of a log file."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    codec: int
    producer_id: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # not the method of a tuple
    path: Path
    position: int
    size_bytes: int

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.position)
            return file.read(self.size_bytes)


def segments(directory: Path) -> list[Path]:
    """The log files of a partition, in order of their base offsets."""
    return sorted(directory.glob("*.log"))


def walk_partition(directory: Path) -> list[FoundBatch]:
    """Every batch of a partition. AssertionError at the first byte that does not belong to one."""
    found: list[FoundBatch] = []
    for path in segments(directory):
        batches = walk_segment(path)
        if batches:
            assert batches[0].base_offset >= int(path.stem), f"{path} holds offsets below its name"
            if found:
                assert batches[0].base_offset == found[-1].last_offset + 1, f"a gap before {path}"
        found += batches
    return found


def walk_segment(path: Path) -> list[FoundBatch]:
    """Every batch of one log file."""
    data = path.read_bytes()
    found: list[FoundBatch] = []
    position = 0
    while position < len(data):
        batch = _read(path, data, position)
        if found:
            assert batch.base_offset == found[-1].last_offset + 1, f"{path} at {position}: {found[-1]} then {batch}"
        found.append(batch)
        position += batch.size_bytes
    return found


def _read(path: Path, data: bytes, position: int) -> FoundBatch:
    assert len(data) - position >= _HEADER.size, f"{path} ends within a header at byte {position}"
    header = _HEADER.unpack_from(data, position)
    base, length, epoch, magic, crc, attributes, delta, _, _, producer_id, _, sequence, count = header
    end = position + 12 + length
    assert magic == 2, f"{path} at {position}: magic {magic}"
    assert end <= len(data), f"{path} at {position}: a batch of {length + 12} bytes in {len(data) - position}"
    assert crc32c.crc32c(data[position + 21 : end]) == crc, f"{path} at {position}: wrong checksum"
    return FoundBatch(
        base, base + delta, epoch, attributes & 7, producer_id, sequence, count, path, position, length + 12
    )
