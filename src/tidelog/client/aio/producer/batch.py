"""A batch on its way: records of one partition that travel, succeed and fail together.

    open     records are added by the accumulator
    sealed   encoded, in the queue or in flight; its producer state may be changed before a retry
    done     acknowledged or failed; deliveries get the result and callbacks are called, in the order of records

Records are kept as tuples and encoded all at once when the batch is drained. The sender of a record has a `Delivery`,
which is only this batch and an index: a future is created only if a caller waits.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tidelog.client.errors import ApiError
from tidelog.records.batch import iterate_records
from tidelog.records.bulk import BulkRecord, assemble_batch
from tidelog.records.compression import Codec
from tidelog.records.header import read_header, stamp_producer

_log = logging.getLogger("tidelog.client.producer")

_registering = threading.Lock()
"""Held while a callback is added to a batch, or a batch becomes done: they may be in different threads."""

NO_OFFSET = -1
NO_TIMESTAMP = -1


class RecordMetadata(NamedTuple):
    """Where a record was stored. `offset` is -1 if it is unknown: acks=0, or an old duplicate."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class ProducerState(NamedTuple):
    """The fields by which a broker identifies and orders the batches of a producer."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


NO_PRODUCER = ProducerState()

DeliveryCallback = Callable[[RecordMetadata | None, Exception | None], object]


class ProducerBatch:
    """One batch. The accumulator and the sender are its only callers; deliveries read its outcome."""

    # fmt: off
    __slots__ = (
        "attempts", "base_offset", "buffer", "callbacks", "codec", "created_ms", "encoded_bytes", "error",
        "has_one_timestamp", "is_done", "is_transactional", "last_attempt_ms", "leader_epoch", "level", "limit_bytes",
        "log_append_time_ms", "most_bytes", "partition", "parts", "raw_bytes", "record_count", "records",
        "reserved_bytes", "size_bytes", "stamped", "state", "timestamps", "topic", "watchers",
    )
    # fmt: on

    def __init__(
        self,
        topic: str,
        partition: int,
        created_ms: int,
        limit_bytes: int,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.created_ms = created_ms
        self.limit_bytes = limit_bytes
        """How large it may get now; `most_bytes` is how large at most, if there is the memory."""
        self.most_bytes = limit_bytes
        self.codec = codec
        self.level = level
        self.records: list[BulkRecord] = []
        self.size_bytes = 0
        """What the records will take before compression; an estimate until the batch is sealed."""
        self.reserved_bytes = 0
        """What the buffer pool was charged with for this batch."""
        self.record_count = 0
        """Filled in when the batch is sealed."""
        self.attempts = 0
        self.last_attempt_ms = created_ms
        self.leader_epoch = -1
        """The epoch of the leader it was last sent to."""
        self.state = NO_PRODUCER
        self.is_transactional = False
        self.buffer: bytearray | memoryview | None = None
        self.encoded_bytes = 0
        self.raw_bytes = 0
        self.stamped = NO_PRODUCER
        self.has_one_timestamp = False
        self.timestamps: int | list[int] = NO_TIMESTAMP
        self.is_done = False
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.error: Exception | None = None
        self.parts: list[ProducerBatch] | None = None
        """The smaller batches that took this one's place, if it was too large for its topic."""
        self.callbacks: list[tuple[int, DeliveryCallback]] | None = None
        self.watchers: list[Callable[[ProducerBatch], object]] | None = None

    def __repr__(self) -> str:
        where = f"{self.topic}-{self.partition}"
        return f"ProducerBatch({where}, {self.count} records, {self.state}, {self.attempts} attempts)"

    # Growing and sealing.

    @property
    def is_sealed(self) -> bool:
        """Whether it is encoded, and takes no more records."""
        return self.record_count > 0

    @property
    def count(self) -> int:
        """How many records it has."""
        return self.record_count or len(self.records)

    @property
    def has_sequence(self) -> bool:
        """Whether its place in the producer's sequence is fixed."""
        return self.state.base_sequence >= 0

    @property
    def was_renumbered(self) -> bool:
        """Whether its sequence or epoch were changed since it was last sent."""
        return self.stamped != self.state

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record."""
        return next_sequence(self.state.base_sequence, self.count - 1)

    def seal(self, buffer_of: Callable[[int], bytearray]) -> None:
        """Encode, into a buffer that `buffer_of` lends for so many bytes."""
        self.record_count = len(self.records)
        self.buffer, self.encoded_bytes, self.raw_bytes, self.has_one_timestamp = assemble_batch(
            self.records,
            buffer_of,
            codec=self.codec,
            level=self.level,
            producer_id=self.state.producer_id,
            producer_epoch=self.state.producer_epoch,
            base_sequence=self.state.base_sequence,
            is_transactional=self.is_transactional,
        )
        self.stamped = self.state

    def seal_prebuilt(self, data: bytes | bytearray | memoryview, record_count: int) -> None:
        """Take a whole encoded batch instead of records. A view that can be written to becomes the batch's own."""
        self.buffer = data if isinstance(data, memoryview) and not data.readonly else bytearray(data)
        self.encoded_bytes = self.raw_bytes = self.size_bytes = len(self.buffer)
        self.record_count = record_count
        self.timestamps = read_header(self.buffer).max_timestamp

    def encoded(self) -> memoryview:
        """The bytes to send, under the producer state that the batch has now."""
        assert self.buffer is not None, f"{self} was sent before it was sealed"
        if self.stamped != self.state:
            stamp_producer(self.buffer, self.encoded_bytes, *self.state, self.is_transactional)
            self.stamped = self.state
        return memoryview(self.buffer)[: self.encoded_bytes]

    def split(self, limit_bytes: int) -> list["ProducerBatch"]:
        """Halve it, or cut it to `limit_bytes` before compression: open batches in its stead, in order.

        Sequences are carried over, so that what was refused whole is accepted in parts.
        """
        records = self._all_records()
        parts: list[ProducerBatch] = []
        sequence = self.state.base_sequence
        limit = min(limit_bytes, max(self.raw_bytes // 2, 1))
        for record in records:
            part = parts[-1] if parts else None
            size = estimated_bytes(record)
            if part is None or (part.records and part.size_bytes + size > limit):
                part = ProducerBatch(self.topic, self.partition, self.created_ms, limit, self.codec, self.level)
                part.is_transactional = self.is_transactional
                parts.append(part)
            part.records.append(record)
            part.size_bytes += size
        for part in parts:
            if sequence >= 0:
                part.state = self.state._replace(base_sequence=sequence)
                sequence = next_sequence(sequence, len(part.records))
        return parts

    def _all_records(self) -> Sequence[BulkRecord]:
        if self.records:
            return self.records
        assert self.buffer is not None
        return [
            (record.timestamp, record.key, record.value, record.headers)
            for record in iterate_records(bytes(self.buffer[: self.encoded_bytes]))
        ]

    # The outcome.

    def complete(self, base_offset: int, log_append_time_ms: int = NO_TIMESTAMP) -> None:
        """The broker has it."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()

    def fail(self, error: Exception) -> None:
        """It will not be sent any more."""
        self.error = error
        self._finish()

    def divide(self, parts: list["ProducerBatch"]) -> None:
        """Its records have moved to `parts`; it is done when all of them are."""
        self.parts = parts
        self.records = []
        for part in parts:
            part.watch(self._part_finished)

    def _part_finished(self, _part: "ProducerBatch") -> None:
        assert self.parts is not None
        if all(part.is_done for part in self.parts):
            self._finish()

    def watch(self, watcher: Callable[["ProducerBatch"], object]) -> None:
        """Call `watcher` when the batch is done; at once if it is."""
        with _registering:
            if not self.is_done:
                self.watchers = [*(self.watchers or ()), watcher]
                return
        watcher(self)

    def add_callback(self, index: int, callback: DeliveryCallback) -> None:
        """Call `callback` with the outcome of one record; at once if it is known."""
        with _registering:
            if not self.is_done:
                if self.callbacks is None:
                    self.callbacks = []
                self.callbacks.append((index, callback))
                return
        self._call(index, callback)

    def metadata_of(self, index: int) -> RecordMetadata:
        """Where the record of this index is. The batch, or the part of it with this record, must not have failed."""
        if self.parts is not None:
            part, index = self._part_of(index)
            return part.metadata_of(index)
        offset = NO_OFFSET if self.base_offset < 0 else self.base_offset + index
        timestamp = self.log_append_time_ms
        if timestamp < 0:
            timestamps = self.timestamps
            timestamp = timestamps if isinstance(timestamps, int) else timestamps[index]
        return RecordMetadata(self.topic, self.partition, offset, timestamp)

    def error_of(self, index: int) -> Exception | None:
        """Why the record of this index was not stored; None if it was."""
        if self.parts is not None:
            part, index = self._part_of(index)
            return part.error_of(index)
        if self.error is None or not isinstance(self.error, RecordsRefusedError):
            return self.error
        return self.error.of_record(index)

    def attempts_of(self, index: int) -> int:
        """How often the record of this index was sent."""
        if self.parts is not None:
            part, index = self._part_of(index)
            return self.attempts + 1 + part.attempts_of(index)
        return self.attempts + (1 if self.is_sealed else 0)

    def _part_of(self, index: int) -> tuple["ProducerBatch", int]:
        assert self.parts is not None
        for part in self.parts:
            if index < part.count:
                return part, index
            index -= part.count
        raise IndexError(index)

    def _finish(self) -> None:
        records, self.records = self.records, []
        if records:
            # Deliveries may be kept for long; the records themselves must not be.
            self.timestamps = records[0][0] if self.has_one_timestamp else [record[0] for record in records]
            self.record_count = len(records)
        with _registering:
            self.is_done = True
            callbacks, self.callbacks = self.callbacks, None
            watchers, self.watchers = self.watchers, None
        for index, callback in callbacks or ():
            self._call(index, callback)
        for watcher in watchers or ():
            watcher(self)

    def _call(self, index: int, callback: DeliveryCallback) -> None:
        error = self.error_of(index)
        try:
            callback(None if error is not None else self.metadata_of(index), error)
        except Exception:  # noqa: BLE001 - code of the application; logged
            _log.exception("a delivery callback of %s-%d failed", self.topic, self.partition)


class RecordsRefusedError(ApiError):
    """A batch that was refused because of single records (KIP-467); the others were not stored either."""

    def __init__(self, cause: ApiError, reasons: dict[int, str | None]) -> None:
        super().__init__(cause.code, cause.message)
        self.reasons = reasons

    def of_record(self, index: int) -> ApiError:
        """The error for one record."""
        if index in self.reasons:
            return ApiError(self.code, self.reasons[index] or self.message)
        return ApiError(self.code, f"rejected because of other records in its batch: {self.message or self.code.text}")


def estimated_bytes(record: BulkRecord) -> int:
    """What a record will take before compression, roughly; never far too little."""
    _, key, value, headers = record
    size = 13 + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 6 + 3 * len(name) + (len(content) if content else 0)
    return size


def next_sequence(sequence: int, count: int) -> int:
    """The sequence `count` records later. After 2^31 - 1 comes 0."""
    return sequence + count & 0x7FFFFFFF
