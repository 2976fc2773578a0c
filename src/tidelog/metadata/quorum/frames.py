"""How records of metadata stand in their log: the frame of a value, batches of them, and transactions.

    value   frame version varint (1) | kind varint | version of the kind varint | the record

Records have no keys. Batches of control records, which the quorum writes for itself, are passed over. A transaction may
span batches; what it holds takes effect together, at its end. As in Kafka, a kind or a version that is not known here
is an error: who passes over a record no longer knows the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.metadata.errors import StoreError
from tidelog.metadata.quorum.records import (
    RECORDS,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.wire.errors import WireError
from tidelog.wire.primitives import Buffer, decode_uvarint, encode_uvarint
from tidelog.wire.schema import Message

FRAME_VERSION: Final = 1


class MetadataRecordError(StoreError):
    """A record of the metadata log that cannot be read, or that contradicts the ones before it."""


class LogEntry(NamedTuple):
    """A record and where it stands."""

    offset: int
    record: Message


class Batch(NamedTuple):
    """The records of one batch; none for a batch of control records."""

    entries: tuple[LogEntry, ...]
    last_offset: int
    leader_epoch: int
    timestamp_ms: int


def encode_value(record: Message, version: int) -> bytes:
    """The value of a record in the log."""
    head = encode_uvarint(FRAME_VERSION) + encode_uvarint(record.api_key) + encode_uvarint(version)
    return head + record.encode(version)


def decode_value(value: bytes) -> Message:
    """The record of a value. Raises `MetadataRecordError`."""
    try:
        frame, position = decode_uvarint(value, 0)
        if frame != FRAME_VERSION:
            raise MetadataRecordError(f"a record of the metadata has a frame of version {frame}, not {FRAME_VERSION}")
        kind, position = decode_uvarint(value, position)
        version, position = decode_uvarint(value, position)
        found = RECORDS.get(kind)
        if found is None:
            raise MetadataRecordError(f"the metadata has a record of the unknown kind {kind}: {_REMEDY}")
        first, last = found.versions
        if not first <= version <= last:
            raise MetadataRecordError(
                f"the metadata has a {found.__name__} of version {version}, and {first} to {last} are known: {_REMEDY}"
            )
        return found.decode(value, version, position)
    except (WireError, IndexError) as error:
        raise MetadataRecordError(f"a record of the metadata cannot be read: {error}") from error


_REMEDY: Final = "start a newer version of Tidelog, or lower metadata.version"


def decode_batches(data: Buffer) -> Iterator[Batch]:
    """The whole batches of `data`, in order; one that is cut off ends it."""
    for position, header in iterate_batches(data):
        entries: tuple[LogEntry, ...] = ()
        if not header.is_control:
            entries = tuple(
                LogEntry(record.offset, decode_value(record.value or b"")) for record in iterate_records(data, position)
            )
        yield Batch(entries, header.last_offset, header.partition_leader_epoch, header.max_timestamp)


class Transactions:
    """Holds the records of a transaction back until it ends."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[LogEntry] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._held is not None

    def take(self, entry: LogEntry) -> tuple[LogEntry, ...]:
        """The records that take effect with this one."""
        kind = type(entry.record)
        if kind is BeginTransactionRecord:
            if self._held is not None:
                raise MetadataRecordError(f"at offset {entry.offset} a transaction begins inside another")
            self._held = []
            return ()
        if kind is EndTransactionRecord or kind is AbortTransactionRecord:
            if self._held is None:
                raise MetadataRecordError(f"at offset {entry.offset} a transaction ends that never began")
            held, self._held = self._held, None
            return tuple(held) if kind is EndTransactionRecord else ()
        if self._held is None:
            return (entry,)
        self._held.append(entry)
        return ()
