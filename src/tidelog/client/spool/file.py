"""The file of a spool: records in the order in which they came, until a broker has acknowledged them.

Each record is a batch of Kafka's format in `records.log`, with a checksum; a first header says where it goes. `sent`
holds the offset up to which all records are acknowledged. A crash may leave half a batch at the end of the log, which
is cut off when it is opened: `append` had not returned. It may also lose the last change of `sent`; records are then
sent once more. With `fsync` an append returns when the disk has the record; without, when the operating system has it,
which survives the end of the process and not that of the machine.

One process at a time: the directory is locked. Not safe to share between threads.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.client.errors import ClientError, IllegalState
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import check_crc
from tidelog.records.record import Record
from tidelog.storage.replacing import sync_path, write_all, write_atomically

_DESTINATION: Final = "tidelog-spool"
_REWRITE_BYTES_MIN: Final = 1 << 20

Lane = tuple[str, int | None, bytes | None]
"""Topic, partition and key: records that agree in these are sent one after another."""


class SpoolFull(ClientError):  # noqa: N818 - it says what happened
    """The spool has reached its limit."""


class Spooled(NamedTuple):
    """A record and where it goes. The partition is None where the key, or the producer, decides."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    @property
    def lane(self) -> Lane | None:
        """What it has to be in order with; None for a record without partition and key."""
        return None if self.partition is None and self.key is None else (self.topic, self.partition, self.key)


class _Place(NamedTuple):
    """Where a record lies in the log."""

    position: int
    size_bytes: int
    lane: Lane | None


class SpoolFile:
    """The records of one directory."""

    def __init__(self, directory: str | os.PathLike[str], *, bytes_max: int, fsync: bool) -> None:
        """Open or make the directory. Raises IllegalState while another process has it."""
        self._home = Path(directory)
        self._bytes_max = bytes_max
        self._fsync = fsync
        self._home.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise IllegalState(f"the spool {self._home} is used by another process") from None
        self._places: dict[int, _Place] = {}
        """The records that are not acknowledged, by offset."""
        self._lanes: dict[Lane | None, int] = {}
        self._log = os.open(self._log_path, os.O_RDWR | os.O_CREAT, 0o600)
        if fsync:
            sync_path(str(self._home))
        self._sent = self._read_sent()
        self._next = self._sent
        self._end = 0
        self._recover()

    @property
    def _log_path(self) -> Path:
        return self._home / "records.log"

    def __len__(self) -> int:
        return len(self._places)

    @property
    def size_bytes(self) -> int:
        """The size of the log."""
        return self._end

    def holds(self, lane: Lane | None) -> bool:
        """Whether a record of `lane` waits."""
        return lane in self._lanes

    def append(self, record: Spooled) -> int:
        """Keep a record behind all others; returns its offset. Raises SpoolFull."""
        destination = json.dumps({"topic": record.topic, "partition": record.partition}).encode()
        headers = ((_DESTINATION, destination), *record.headers)
        kept = Record(self._next, record.timestamp_ms, record.key, record.value, headers)
        batch = build_batch([kept], base_offset=self._next)
        if self._end + len(batch) > self._bytes_max:
            raise SpoolFull(f"the spool {self._home} has {self._end} bytes; raise bytes_max={self._bytes_max}")
        try:
            self._write(batch)
        except OSError:
            os.ftruncate(self._log, self._end)  # half a batch would hide those that come after it
            raise
        offset = self._next
        self._enter(offset, _Place(self._end, len(batch), record.lane))
        self._end += len(batch)
        self._next += 1
        return offset

    def first(self, limit: int, taken: Collection[int] = ()) -> list[tuple[int, Spooled]]:
        """The oldest records that may be sent at once, without `taken`: of each lane only its first."""
        found: list[tuple[int, Spooled]] = []
        lanes = {self._places[offset].lane for offset in taken if offset in self._places}
        for offset, place in self._places.items():
            if len(found) >= limit:
                break
            if offset in taken or (place.lane is not None and place.lane in lanes):
                continue
            lanes.add(place.lane)
            found.append((offset, self._read(place)))
        return found

    def acknowledge(self, offsets: Iterable[int]) -> None:
        """A broker has these records: forget them."""
        for offset in offsets:
            place = self._places.pop(offset, None)
            if place is not None:
                self._lanes[place.lane] -= 1
                if not self._lanes[place.lane]:
                    del self._lanes[place.lane]
        first = next(iter(self._places), self._next)
        if first > self._sent:
            self._sent = first
            self._replace("sent", str(first).encode())
            self._shrink()

    def close(self) -> None:
        """Close the files; the records stay."""
        os.close(self._log)
        os.close(self._lock)

    def _enter(self, offset: int, place: _Place) -> None:
        self._places[offset] = place
        self._lanes[place.lane] = self._lanes.get(place.lane, 0) + 1

    def _write(self, batch: bytes) -> None:
        write_all(self._log, batch, self._end)
        if self._fsync:
            os.fdatasync(self._log)

    def _read(self, place: _Place) -> Spooled:
        (record,) = iterate_records(os.pread(self._log, place.size_bytes, place.position))
        return _spooled(record)

    def _read_sent(self) -> int:
        try:
            return int((self._home / "sent").read_text())
        except FileNotFoundError:
            return 0

    def _recover(self) -> None:
        """Find the records that wait; cut off what a crash has left behind the last whole one."""
        data = os.pread(self._log, os.fstat(self._log).st_size, 0)
        try:
            for position, header in iterate_batches(data):
                if not check_crc(data, position, header):
                    break
                self._end = position + header.size_bytes
                self._next = max(self._next, header.base_offset + 1)
                if header.base_offset >= self._sent:
                    (record,) = iterate_records(data, position)
                    self._enter(header.base_offset, _Place(position, header.size_bytes, _spooled(record).lane))
        except CorruptRecordError:
            pass  # what is before it is whole
        if self._end < len(data):
            os.ftruncate(self._log, self._end)

    def _shrink(self) -> None:
        """Drop acknowledged records from the log: all of it, or the front once that is half of it."""
        front = next((place.position for place in self._places.values()), self._end)
        if not front or (self._places and (front < _REWRITE_BYTES_MIN or front < self._end // 2)):
            return
        # `sent` is on the disk before: whatever part of this a crash leaves, no record is lost.
        self._replace("records.log", os.pread(self._log, self._end - front, front))
        os.close(self._log)
        self._log = os.open(self._log_path, os.O_RDWR)
        self._end -= front
        self._places = {
            offset: place._replace(position=place.position - front) for offset, place in self._places.items()
        }

    def _replace(self, name: str, data: bytes) -> None:
        write_atomically(str(self._home / name), data, is_synced=self._fsync)


def _spooled(record: Record) -> Spooled:
    (_, destination), *headers = record.headers
    where = json.loads(destination or b"{}")
    return Spooled(where["topic"], where["partition"], record.key, record.value, tuple(headers), record.timestamp)
