"""Appends that do not take the straight way through `Log.append_as_leader`.

These are batches to be checked record by record or changed (`tidelog.records.validation`), batches of coordinators with
their transaction markers, batches that will be refused, and what followers fetch. The order is that of Kafka's
`UnifiedLog.append`: check, assign offsets, check the producer, roll, account, stage.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.config import LogConfig
from tidelog.records.batch import iterate_records
from tidelog.records.control import EndTransactionMarker, parse_end_transaction_marker
from tidelog.records.errors import (
    CorruptRecordError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    check_crc,
    read_header,
)
from tidelog.records.validation import COMPRESSION_TYPES, AppendRules, PreparedRecords, assign, prepare
from tidelog.storage._recall import recall_batches
from tidelog.storage.errors import AppendOffsetError
from tidelog.storage.producers.state import BatchMetadata
from tidelog.storage.producers.verification import VerificationGuard
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.storage.types import AppendOrigin, LogAppendInfo
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.storage.log import Log

_EXPANDED_BYTES_MAX: Final = 64 << 20
_EXPANSION_MAX: Final = 8
"""How far a batch may expand: producers limit it before compression, too, bombs do not."""
_new = tuple.__new__
_SEQUENCE_MASK: Final = 0x7FFF_FFFF
_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_unpack_header: Final = Struct(">qiibIhiqqqhii").unpack_from
_CREATE_TIME: Final = TimestampType.CREATE_TIME
_REFUSALS: Final = (CorruptRecordError, RecordTooLargeError, RecordBatchTooLargeError, UnsupportedCompressionError)
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
_LEVELS: Final = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}


def rules_of(config: LogConfig) -> AppendRules:
    """What a topic's configuration asks of the records appended to it."""
    level = _LEVELS.get(config.compression_type)
    return AppendRules(
        codec=COMPRESSION_TYPES[config.compression_type],
        level=getattr(config, level) if level else None,
        timestamp_type=_TIMESTAMP_TYPES[config.message_timestamp_type],
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        is_compacted="compact" in config.cleanup_policy,
        max_message_bytes=config.max_message_bytes,
        segment_bytes=config.segment_bytes,
        decompressed_bytes_max=max(_EXPANDED_BYTES_MAX, _EXPANSION_MAX * config.max_message_bytes),
    )


def append_checked(
    log: "Log",
    records: memoryview,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin,
    guard: VerificationGuard | None = None,
) -> LogAppendInfo:
    """Append after checking everything that there is to check; what `Log.append_as_leader` does in the other cases.

    Raises TooMuchWorkError when a client's records would hold the event loop.
    """
    log.check_usable()
    is_client = origin is AppendOrigin.CLIENT
    prepared = prepare_append(log.name, records, log.rules, now_ms, from_client=is_client, on_loop=is_client)
    return append_prepared(log, prepared, leader_epoch, now_ms, origin, guard)


def prepare_append(
    name: str,
    records: memoryview,
    rules: AppendRules,
    now_ms: int,
    *,
    from_client: bool = True,
    on_loop: bool = False,
) -> PreparedRecords:
    """The first half of an append to the log of that name. It touches nothing of the log: any thread may run it."""
    try:
        return prepare(records, rules, now_ms, from_client=from_client, only_magic_2=False, on_loop=on_loop)
    except _REFUSALS as error:
        raise ApiError(error.code, f"{name}: {error}") from error


def append_prepared(
    log: "Log",
    prepared: PreparedRecords,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin,
    guard: VerificationGuard | None = None,
) -> LogAppendInfo:
    """The second half: the log as it is now gives the batch its offsets and checks its producer."""
    log.check_usable()
    first_offset = log.log_end_offset
    validated = assign(prepared, log.rules, first_offset, leader_epoch, now_ms)
    batch = memoryview(validated.records)
    header = read_header(batch)
    if header.producer_id >= 0:
        duplicate = check_producer(log, header, origin, guard)
        if duplicate is not None:
            return duplicate
    marker = _marker_of(log, header, batch, origin)
    log.roll_if_due(validated.max_timestamp, validated.last_offset, len(batch), now_ms)
    log.leader_epochs.assign(leader_epoch, first_offset)
    _account(log, header, marker, now_ms)
    log.stage(batch, validated.last_offset + 1)
    return LogAppendInfo(
        first_offset,
        validated.last_offset,
        validated.max_timestamp,
        validated.log_append_time,
        log.log_start_offset,
        validated.record_count,
        len(batch),
        False,
    )


def append_own(log: "Log", records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin) -> LogAppendInfo:
    """Append a batch that this broker has just built, a coordinator's or a marker: there is little to be checked.

    Whatever the topic's configuration would change about it takes the long way.
    """
    log.check_usable()
    size = len(records)
    rules = log.rules
    if size < HEADER_BYTES:
        return append_checked(log, records, leader_epoch, now_ms, origin)
    built = _unpack_header(records)
    _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, _, _, count = built
    if (
        length + LENGTH_PREFIX_BYTES != size
        or size > rules.max_message_bytes
        or size > rules.segment_bytes
        or rules.timestamp_type is not _CREATE_TIME
        or not (rules.codec is None or attributes & CODEC_MASK == rules.codec or attributes & CONTROL_BIT)
    ):
        return append_checked(log, records, leader_epoch, now_ms, origin)
    first_offset = log.log_end_offset
    last_offset = first_offset + delta
    header: BatchHeader | None = None
    if producer_id >= 0:
        header = _new(BatchHeader, (first_offset, length, leader_epoch, *built[3:]))
        check_producer(log, header, origin, None)
        marker = _marker_of(log, header, records, origin)
    segment = log.roll_if_due(max_timestamp, last_offset, size, now_ms)
    if leader_epoch != log.leader_epochs.latest_epoch:
        log.leader_epochs.assign(leader_epoch, first_offset)
    _OFFSET_LENGTH_EPOCH.pack_into(records, 0, first_offset, length, leader_epoch)
    if header is not None:
        _account(log, header, marker, now_ms)
    else:
        try:
            segment.append(last_offset, max_timestamp, size, now_ms)
        except OSError as error:
            raise log.fail(error) from error
    log.stage(records, last_offset + 1)
    return _new(
        LogAppendInfo,
        (first_offset, last_offset, max_timestamp, NO_TIMESTAMP, log.log_start_offset, count, size, False),
    )


def check_producer(
    log: "Log", header: BatchHeader, origin: AppendOrigin, guard: VerificationGuard | None
) -> LogAppendInfo | None:
    """Refuse a batch that is out of order, or say what is already there if it is a client's retry, or None."""
    state = log.producer_state
    entry = state.producers.get(header[9])
    if (
        entry is not None
        and header[11] == (entry.last_sequence + 1) & _SEQUENCE_MASK
        and header[10] == entry.producer_epoch
        and (header[5] & TRANSACTIONAL_BIT if entry.transaction_first_offset >= 0 else guard is None)
    ):
        return None
    if state.is_recall_due and entry is not None:
        recall_batches(log)
    duplicate = state.check(header, origin)
    if duplicate is not None:
        return _already_there(log, header, duplicate)
    if guard is not None and header.is_transactional:
        state.check_verified(header, guard)
    return None


def _already_there(log: "Log", header: BatchHeader, duplicate: BatchMetadata) -> LogAppendInfo:
    """The answer to a retry: the offsets that the batch got the first time. Kafka gives its timestamp along, too."""
    return LogAppendInfo(
        duplicate.first_offset,
        duplicate.last_offset,
        duplicate.timestamp,
        duplicate.timestamp,
        log.log_start_offset,
        header.record_count,
        header.size_bytes,
        True,
    )


def append_as_follower(log: "Log", records: bytes | bytearray | memoryview, now_ms: int) -> LogAppendInfo:
    """Stage batches fetched from the leader, offsets and epochs as they are; an incomplete last batch is left out.

    Raises AppendOffsetError when the offsets do not continue the log, and ApiError for corrupt bytes.
    """
    log.check_usable()
    records = memoryview(records)
    batches = _fetched_batches(log, records)
    first_offset = last_offset = -1
    max_timestamp = NO_TIMESTAMP
    record_count = size_bytes = 0
    for position, header in batches:
        size = header.size_bytes
        batch = records[position : position + size]
        marker = _marker_of(log, header, batch, AppendOrigin.REPLICATION)
        if log.active_segment.should_roll(
            header.max_timestamp, header.last_offset, size, log.config.segment_bytes, now_ms
        ):
            log.roll(now_ms, header.base_offset)
        log.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        _account(log, header, marker, now_ms)
        log.stage(batch, header.next_offset)
        if first_offset < 0:
            first_offset = header.base_offset
        last_offset = header.last_offset
        max_timestamp = max(max_timestamp, header.max_timestamp)
        record_count += header.record_count
        size_bytes += size
    return LogAppendInfo(
        first_offset, last_offset, max_timestamp, NO_TIMESTAMP, log.log_start_offset, record_count, size_bytes, False
    )


def _fetched_batches(log: "Log", records: memoryview) -> list[tuple[int, BatchHeader]]:
    """All whole batches, checked before the first of them is appended."""
    batches = []
    position = 0
    next_offset = log.log_end_offset
    while position + LENGTH_PREFIX_BYTES < len(records):
        try:
            header = read_header(records, position)
        except CorruptRecordError:
            break
        if header.magic != 2 or header.size_bytes < HEADER_BYTES:
            raise _corrupt(log, header, f"magic {header.magic} and length {header.batch_length}")
        if position + header.size_bytes > len(records):
            break
        if not check_crc(records, position, header):
            raise _corrupt(log, header, "a checksum that does not match")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise AppendOffsetError(log.name, header.base_offset, header.last_offset, next_offset)
        batches.append((position, header))
        next_offset = header.next_offset
        position += header.size_bytes
    return batches


def _corrupt(log: "Log", header: BatchHeader, problem: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{log.name}: the batch at offset {header.base_offset} has {problem}")


def _marker_of(
    log: "Log", header: BatchHeader, batch: memoryview, origin: AppendOrigin
) -> tuple[EndTransactionMarker, int] | None:
    """The marker in a control batch and its timestamp, once it is known that its coordinator may write it."""
    if not header.is_control or header.producer_id < 0:
        return None
    for record in iterate_records(batch):
        marker = parse_end_transaction_marker(record)
        log.producer_state.check_marker(header, marker.coordinator_epoch, origin)
        return marker, record.timestamp
    return None


def _account(log: "Log", header: BatchHeader, marker: tuple[EndTransactionMarker, int] | None, now_ms: int) -> None:
    """Note a batch in the active segment, in its indexes and with its producer."""
    segment = log.active_segment
    state = log.producer_state
    try:
        segment.append(header.last_offset, header.max_timestamp, header.size_bytes, now_ms)
        if header.producer_id < 0:
            return
        if not header.is_control:
            state.update(header, header.base_offset)
        elif marker is not None:
            end, timestamp = marker
            completed = state.end_transaction(
                header, header.last_offset, timestamp, end.coordinator_epoch, is_commit=end.is_commit
            )
            if completed is not None:
                if completed.is_aborted:
                    producer_id, first_offset, last_offset, _ = completed
                    last_stable_offset = state.last_stable_offset(completed)
                    segment.transaction_index.append(
                        AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
                    )
                state.complete(completed)
    except OSError as error:
        raise log.fail(error) from error
