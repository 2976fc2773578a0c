"""Building record batches of magic 2: one call for a list of records, a class for one record after another.

Used by producers (a batch grows until it is full), by compaction and conversion (records keep their offsets), by the
coordinators for their own topics, and for the markers that end transactions.
"""

from collections.abc import Iterable, Sequence

from tidelog.records.compression import Codec, compress
from tidelog.records.control import CONTROL_KEY, CONTROL_VERSION, END_TRANSACTION_VALUE, ControlType
from tidelog.records.header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    assemble_batch,
)
from tidelog.records.record import Record, encode_record

RECORD_OVERHEAD_BYTES_MAX = 36
"""Length 5, attributes 1, timestamp 10, offset 5, two sizes and the header count 5 each."""


class BatchBuilder:
    """A batch that grows record by record."""

    __slots__ = (
        "_base_timestamp",
        "_codec",
        "_delete_horizon_ms",
        "_last_offset_delta",
        "_level",
        "_max_timestamp",
        "_parts",
        "record_count",
    )

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self._codec = codec
        self._level = level
        self._delete_horizon_ms = delete_horizon_ms
        self._base_timestamp = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset_delta = -1
        self._parts: list[bytes] = []
        self.record_count = 0

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        offset_delta: int | None = None,
    ) -> int:
        """Add a record and return its offset delta: the next one, unless `offset_delta` skips some."""
        if offset_delta is None:
            offset_delta = self._last_offset_delta + 1
        elif offset_delta <= self._last_offset_delta:
            raise ValueError(f"offset delta {offset_delta} does not follow {self._last_offset_delta}")
        if not self.record_count and self._delete_horizon_ms is None:
            self._base_timestamp = timestamp
        self._parts.append(encode_record(timestamp - self._base_timestamp, offset_delta, key, value, headers))
        self._last_offset_delta = offset_delta
        self.record_count += 1
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return offset_delta

    def build(
        self,
        *,
        base_offset: int = 0,
        last_offset: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        partition_leader_epoch: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> bytes:
        """The finished batch. `last_offset` may lie beyond the last record, as it does after compaction."""
        payload = b"".join(self._parts)
        if self._codec and self.record_count:
            payload = compress(self._codec, payload, self._level)
        is_log_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
        attributes = (
            self._codec
            | (LOG_APPEND_TIME_BIT if is_log_append_time else 0)
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
            | (0 if self._delete_horizon_ms is None else DELETE_HORIZON_BIT)
        )
        header: BatchHeader = tuple.__new__(
            BatchHeader,
            (
                base_offset,
                HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload),
                partition_leader_epoch,
                MAGIC,
                0,
                attributes,
                self._last_offset_delta if last_offset is None else last_offset - base_offset,
                self._base_timestamp,
                log_append_time if is_log_append_time else self._max_timestamp,
                producer_id,
                producer_epoch,
                base_sequence,
                self.record_count,
            ),
        )
        return assemble_batch(header, payload)


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """A batch of `records`, whose offsets must rise from `base_offset` on.

    Without records the batch keeps only its offset range, up to `last_offset`, and its producer's state: compaction
    leaves such batches.
    """
    builder = BatchBuilder(codec=codec, level=level, delete_horizon_ms=delete_horizon_ms)
    append = builder.append
    for offset, timestamp, key, value, headers in records:
        append(timestamp, key, value, headers, offset - base_offset)
    return builder.build(
        base_offset=base_offset,
        last_offset=last_offset,
        timestamp_type=timestamp_type,
        log_append_time=log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def build_end_transaction_marker(
    *,
    is_commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction in one partition."""
    key = CONTROL_KEY.pack(CONTROL_VERSION, ControlType.COMMIT if is_commit else ControlType.ABORT)
    value = END_TRANSACTION_VALUE.pack(CONTROL_VERSION, coordinator_epoch)
    return build_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )
