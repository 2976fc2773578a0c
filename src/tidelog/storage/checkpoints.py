"""Kafka's offset checkpoint files: one offset for each partition of a log directory.

`recovery-point-offset-checkpoint`, `replication-offset-checkpoint`, `log-start-offset-checkpoint` and
`cleaner-offset-checkpoint` share one text format: a version line (`0`), a line with the number of entries, then one
line `topic partition offset` for each. `LogManager` writes them; `tidelog log dump` reads them.

A file is replaced as a whole: written to a temporary file, synced, renamed, and the rename synced, so that a crash
leaves either the old file or the new one. Reading is strict, except that a file cut off before its count is empty, as
in Kafka (its cleaner creates an empty file and may never write to it).
"""

import os
from collections.abc import Mapping
from typing import Final

from tidelog.storage.errors import StorageError
from tidelog.storage.replacing import Replacements, write_atomically
from tidelog.wire.partitions import PartitionKey

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"

OFFSET_CHECKPOINT_FILES: Final = (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, CLEANER_OFFSET_FILE)

_VERSION: Final = 0
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


class CheckpointError(StorageError):
    """A checkpoint file is malformed. The message names the file and the line."""


class OffsetCheckpointFile:
    """One offset checkpoint file of one log directory. A missing file reads as empty."""

    __slots__ = ("path",)

    def __init__(self, directory: str, name: str) -> None:
        self.path = os.path.join(directory, name)

    def read(self) -> dict[PartitionKey, int]:
        """The offsets in the file. CheckpointError when it is malformed, OSError when it cannot be read."""
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return {}
        return parse_offset_checkpoint(data, self.path)

    def write(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Replace the file. OSError means that the directory is failing."""
        write_atomically(self.path, format_offset_checkpoint(offsets))

    def write_with(self, offsets: Mapping[PartitionKey, int], replacements: Replacements) -> None:
        """Replace the file together with others."""
        replacements.add(self.path, format_offset_checkpoint(offsets))


def format_offset_checkpoint(offsets: Mapping[PartitionKey, int]) -> bytes:
    lines = [f"{_VERSION}\n{len(offsets)}\n"]
    lines += [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return "".join(lines).encode()


def parse_offset_checkpoint(data: bytes, path: str) -> dict[PartitionKey, int]:
    """The offsets in `data`; `path` is only for the message of the CheckpointError."""
    lines = checkpoint_lines(data, path, _VERSION)
    offsets: dict[PartitionKey, int] = {}
    for number, line in lines:
        fields = line.split()
        if len(fields) != 3:
            raise _malformed(path, number, line, "expected `topic partition offset`")
        partition = _integer(fields[1], _INT32_MAX)
        offset = _integer(fields[2], _INT64_MAX)
        if partition is None or partition < 0:
            raise _malformed(path, number, line, f"{fields[1]!r} is not a partition number")
        if offset is None:
            raise _malformed(path, number, line, f"{fields[2]!r} is not an offset")
        offsets[fields[0], partition] = offset
    return offsets


def checkpoint_lines(data: bytes, path: str, version: int) -> list[tuple[int, str]]:
    """The entry lines, with their numbers, of any of Kafka's checkpoint files; version and count are checked here."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"checkpoint file {path} is not text: byte {error.start} is not UTF-8") from error
    # Not splitlines(): it also splits at separators that Kafka takes for part of a line.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if not text:
        return []
    if _integer(lines[0], _INT32_MAX) != version:
        raise _malformed(path, 1, lines[0], f"expected version {version}")
    if len(lines) == 1:
        return []
    count = _integer(lines[1], _INT32_MAX)
    if count is None or count < 0:
        raise _malformed(path, 2, lines[1], "expected the number of entries")
    entries = list(enumerate(lines[2:], 3))
    if len(entries) != count:
        raise CheckpointError(f"checkpoint file {path} claims {count} entries on line 2 and has {len(entries)}")
    return entries


def _integer(text: str, limit: int) -> int | None:
    """`text` as Java's parseInt and parseLong read it; int() alone would also take `1_0` and surrounding spaces."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 20:
        return None
    value = int(text)
    return value if -limit - 1 <= value <= limit else None


def _malformed(path: str, number: int, line: str, why: str) -> CheckpointError:
    shown = line if len(line) <= 80 else line[:77] + "..."
    return CheckpointError(f"malformed line {number} of checkpoint file {path}: {shown!r} ({why})")
