"""The `.snapshot` file: the producers of a log as they were before a given offset, in Kafka's format.

    version int16 (1), CRC-32C uint32 of all that follows, count int32, then for each producer
    id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
    coordinator epoch int32, first offset of the open transaction int64 (-1 for none)

`ProducerStateManager` writes and reads it; `tidelog log dump` reads it.
"""

import os
from collections.abc import Iterable
from struct import Struct, error
from typing import Final, NamedTuple

from tidelog.records.checksum import crc32c
from tidelog.storage._pools import open_descriptor, read_whole
from tidelog.storage.errors import CorruptSnapshotError
from tidelog.storage.replacing import write_all

_VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_CHECKED_FROM: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")
_COUNT: Final = Struct(">i")


class SnapshotEntry(NamedTuple):
    """One producer of a snapshot. Only its last batch is kept, so only that one is a known duplicate afterwards."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """The content of a snapshot file."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(_VERSION, crc32c(body), len(packed))[:_CHECKED_FROM] + body


def decode_snapshot(data: bytes, path: str) -> list[SnapshotEntry]:
    """The entries of a snapshot file. CorruptSnapshotError when it is not one; `path` is for its message."""
    try:
        version, checksum, count = _HEADER.unpack_from(data)
    except error:
        raise CorruptSnapshotError(f"producer snapshot {path} has only {len(data)} bytes") from None
    if version != _VERSION:
        raise CorruptSnapshotError(f"producer snapshot {path} has the unknown version {version}")
    actual = crc32c(data[_CHECKED_FROM:])
    if actual != checksum:
        raise CorruptSnapshotError(f"producer snapshot {path}: checksum {checksum} stored, {actual} computed")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"producer snapshot {path} claims {count} producers in {len(data)} bytes")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def write_snapshot(path: str, entries: Iterable[SnapshotEntry], *, sync: bool) -> None:
    """Write a snapshot file; with `sync`, down to the disk."""
    fd = open_descriptor(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        write_all(fd, encode_snapshot(entries), 0)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def read_snapshot(path: str) -> list[SnapshotEntry]:
    """Read a snapshot file."""
    return decode_snapshot(read_whole(path), path)
