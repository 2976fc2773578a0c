"""The records of one partition in one Fetch response, until `poll` has returned all of them.

Batches are looked at one after another as they are needed: their checksum is checked, aborted ones and markers are
passed over, and records are decoded as many as the caller wants. `next_offset` is where the position of the partition
belongs once what was taken so far is returned.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tidelog.client.aio.consumer.aborted import AbortedFilter
from tidelog.client.aio.consumer.errors import CorruptRecords, DeserializationFailed
from tidelog.client.aio.consumer.types import ConsumerRecord, FetchedBatches
from tidelog.client.serialization import Deserialize
from tidelog.client.types import TopicPartition
from tidelog.records.batch import iterate_batches, iterate_extents
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import (
    LEGACY_ATTRIBUTES_POSITION,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    TimestampType,
    check_crc,
    read_header,
    read_length,
)
from tidelog.records.legacy import iterate_legacy_records
from tidelog.records.rows import RowReader
from tidelog.wire.primitives import Buffer


class Decoding(NamedTuple):
    """How records are made of bytes; the same for all fetches of a consumer."""

    check_crcs: bool = True
    key: Deserialize | None = None
    value: Deserialize | None = None

    @property
    def is_plain(self) -> bool:
        """Whether keys and values stay bytes."""
        return self.key is None and self.value is None


class CompletedFetch:
    """Record batches of one partition and how far they have been taken."""

    __slots__ = (
        "_aborted",
        "_data",
        "_decoding",
        "_end",
        "_error",
        "_last",
        "_position",
        "_reader",
        "_rows",
        "end_offset",
        "next_epoch",
        "next_offset",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        fetch_offset: int,
        data: Buffer,
        decoding: Decoding,
        aborted: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.next_offset = fetch_offset
        self.next_epoch = -1
        self._data = data
        self._decoding = decoding
        self._aborted = None if aborted is None else AbortedFilter(aborted)
        self._position = 0
        self._reader: tuple[RowReader, BatchHeader] | None = None
        self._rows: deque[ConsumerRecord[Any, Any]] = deque()
        """Decoded and not taken: records of an old format, or those from one that a deserializer refused on."""
        self._error: Exception | None = None
        self._last, self._end, self.end_offset = 0, 0, fetch_offset
        try:
            self._last, self._end, self.end_offset = _whole_batches(data, fetch_offset)
        except CorruptRecordError as error:
            self._error = CorruptRecords(topic_partition, fetch_offset, error)

    @classmethod
    def failed(cls, topic_partition: TopicPartition, fetch_offset: int, error: Exception) -> "CompletedFetch":
        """A fetch that brought an error, for the caller of `poll` to see."""
        fetch = cls(topic_partition, fetch_offset, b"", Decoding())
        fetch._error = error
        return fetch

    @property
    def size_bytes(self) -> int:
        """The bytes of whole batches that the fetch brought."""
        return self._end

    @property
    def is_failed(self) -> bool:
        """Whether `take` will raise the broker's error; a later fetch may succeed."""
        return self._error is not None and not self._end

    @property
    def is_done(self) -> bool:
        """Whether neither records nor an error are left."""
        return self._position >= self._end and self._reader is None and not self._rows and self._error is None

    def take(self, limit: int) -> list[ConsumerRecord[Any, Any]]:
        """Up to `limit` more records, fewer only at the end.

        Raises CorruptRecords or DeserializationFailed when the very next record is at fault, again and again: the
        position cannot move past it but by a seek.
        """
        if self._error is not None:
            raise self._error
        rows: list[ConsumerRecord[Any, Any]] = []
        try:
            self._read(rows, limit)
        except CorruptRecordError as error:
            self._error = CorruptRecords(self.topic_partition, rows[-1].offset + 1 if rows else self.next_offset, error)
            if not rows:
                raise self._error from error
        return rows if self._decoding.is_plain or not rows else self._deserialized(rows)

    def put_back(self, rows: Sequence[ConsumerRecord[Any, Any]]) -> None:
        """Records that `take` returned last and that are not wanted yet: the next call returns them first."""
        self._rows.extendleft(reversed(rows))
        if rows:
            self.next_offset = rows[0].offset

    def take_batches(self) -> FetchedBatches:
        """All that is left, as whole batches. Raises what the fetch failed with, as `take` does."""
        if self._error is not None:
            raise self._error
        topic, partition = self.topic_partition
        view = memoryview(self._data)
        start = self._position
        if self._reader is not None:
            start -= self._reader[1].size_bytes
        try:
            self._check_all(start)
        except CorruptRecordError as error:
            raise CorruptRecords(self.topic_partition, self.next_offset, error) from error
        aborted = () if self._aborted is None else self._aborted.remaining()
        taken = FetchedBatches(
            topic, partition, view[start : self._end], self.next_offset, self.end_offset, tuple(aborted)
        )
        self._reader = None
        self._rows.clear()
        self._position = self._end
        self.next_offset = self.end_offset
        self.next_epoch = read_header(self._data, self._last).partition_leader_epoch
        return taken

    def _read(self, rows: list[ConsumerRecord[Any, Any]], limit: int) -> None:
        while len(rows) < limit:
            if self._rows:
                rows.append(self._rows.popleft())
                self.next_offset = rows[-1].offset + 1
            elif self._reader is not None:
                reader, header = self._reader
                reader.read(rows, limit - len(rows))
                if reader.is_done:
                    self._reader = None
                    self.next_offset = header.next_offset
                else:
                    self.next_offset = rows[-1].offset + 1
            elif self._position < self._end:
                self._open_batch()
            else:
                return

    def _open_batch(self) -> None:
        """Look at the next batch: make it readable, or pass over it."""
        data, position = self._data, self._position
        length = read_length(data, position)
        after = position + LENGTH_PREFIX_BYTES + length
        if data[position + MAGIC_POSITION] < MAGIC:
            self._open_old_format(memoryview(data)[position:after])
            self._position = after
            return
        header = read_header(data, position)
        self._check_crc(position, header)
        self._position = after
        if self._is_hidden(header):
            self.next_offset = max(self.next_offset, header.next_offset)
            return
        self.next_epoch = header.partition_leader_epoch
        topic, partition = self.topic_partition
        reader = RowReader(data, position, header, ConsumerRecord, topic, partition, from_offset=self.next_offset)
        self._reader = (reader, header)

    def _is_hidden(self, header: BatchHeader) -> bool:
        """Whether the batch is hidden from the application: aborted, or a marker."""
        if header.next_offset <= self.next_offset:
            return True
        if header.is_control:
            if self._aborted is not None:
                self._aborted.pass_marker(header)
            return True
        return self._aborted is not None and self._aborted.covers(header)

    def _open_old_format(self, message: memoryview) -> None:
        """Decode a message of magic 0 or 1, which may be a wrapper of many."""
        topic, partition = self.topic_partition
        # The attributes follow the magic; bit 3 is the timestamp type in magic 1 and unused in magic 0.
        is_append_time = message[MAGIC_POSITION] == 1 and message[LEGACY_ATTRIBUTES_POSITION] & LOG_APPEND_TIME_BIT
        kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        for offset, timestamp, key, value, headers in iterate_legacy_records(message):
            if offset >= self.next_offset:
                self._rows.append(ConsumerRecord(topic, partition, offset, timestamp, key, value, headers, kind, -1))

    def _deserialized(self, rows: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """The rows with deserialized keys and values; those from the first failure on are kept back."""
        made: list[ConsumerRecord[Any, Any]] = []
        for index, row in enumerate(rows):
            try:
                made.append(deserialize(row, self._decoding))
            except DeserializationFailed:
                self.put_back(rows[index:])
                if not made:
                    raise
                break
        return made

    def _check_crc(self, position: int, header: BatchHeader) -> None:
        if self._decoding.check_crcs and not check_crc(self._data, position, header):
            raise CorruptRecordError(f"the batch at offset {header.base_offset} fails its CRC")

    def _check_all(self, start: int) -> None:
        for position, header in iterate_batches(memoryview(self._data)[: self._end], start):
            self._check_crc(position, header)


def deserialize(
    row: ConsumerRecord[Any, Any], decoding: Decoding, advice: str | None = None
) -> ConsumerRecord[Any, Any]:
    """The record with deserialized key and value. Raises DeserializationFailed, with `advice`."""
    topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch = row
    part = "key"
    try:
        if decoding.key is not None and key is not None:
            key = decoding.key(topic, key, headers)
        part = "value"
        if decoding.value is not None and value is not None:
            value = decoding.value(topic, value, headers)
    except Exception as error:
        raise DeserializationFailed(TopicPartition(topic, partition), offset, part, error, advice) from error
    fields = (topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch)
    return tuple.__new__(ConsumerRecord, fields)  # half the time that the class itself takes


def _whole_batches(data: Buffer, fetch_offset: int) -> tuple[int, int, int]:
    """Where the last whole batch begins, where it ends, and the offset after it. Brokers may cut off what follows.

    Raises CorruptRecordError where not even the first batch is whole.
    """
    last = None
    try:
        for extent in iterate_extents(data):
            last = extent
    except CorruptRecordError:
        if last is None:
            raise
    if last is None:
        return 0, 0, fetch_offset
    return last.position, last.end, max(last.last_offset + 1, fetch_offset)
