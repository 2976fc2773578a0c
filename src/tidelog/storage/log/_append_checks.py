"""The checks of batches before an append that do not depend on the state of the log.

`AppendLimits` has the limits of a topic's configuration. `prepare_append` checks the records of a producer,
`fetched_batches` those that a follower fetched from its leader.
"""

from time import perf_counter_ns
from typing import Final

from tidelog.config import LogConfig
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.control import EndTransactionMarker, parse_end_transaction_marker
from tidelog.records.delayed import DelayRules
from tidelog.records.errors import (
    CorruptRecordError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    BatchHeader,
    TimestampType,
    check_crc,
)
from tidelog.records.validation import COMPRESSION_TYPES, AppendRules, PreparedRecords, prepare
from tidelog.storage.errors import AppendOffsetError
from tidelog.wire.errors import ApiError, ErrorCode

_EXPANDED_BYTES_MAX: Final = 64 << 20
_EXPANSION_MAX: Final = 8
"""How far a batch may expand when decompressed; only a compression bomb expands further."""
_TIME_SPAN_MS_MAX: Final = 2**62
"""Added to the time of day, this still fits 64 bits; batches beyond it take the long way."""
_REFUSALS: Final = (CorruptRecordError, RecordTooLargeError, RecordBatchTooLargeError, UnsupportedCompressionError)
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
_CREATE_TIME: Final = TimestampType.CREATE_TIME
_LEVELS: Final = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}


class AppendLimits:
    """The limits of a topic's configuration: the rules, and the numbers that a usual batch is compared with."""

    __slots__ = (
        "batch_bytes_max",
        "keeps_codec",
        "needs_key",
        "rules",
        "segment_bytes",
        "stores_as_is",
        "stores_own",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, config: LogConfig) -> None:
        self.rules = rules = _rules_of(config)
        # Delayed records are taken out of their batch, which takes the long way.
        self.stores_as_is = rules.stores_as_is and rules.delay is None
        self.keeps_codec = rules.codec is None
        self.stores_own = rules.codec is None and rules.timestamp_type is _CREATE_TIME
        """Whether every batch that this broker has built itself is stored as it is."""
        self.needs_key = rules.is_compacted
        self.segment_bytes = config.segment_bytes
        self.batch_bytes_max = min(config.max_message_bytes, config.segment_bytes)
        self.timestamp_before_max_ms = min(config.message_timestamp_before_max_ms, _TIME_SPAN_MS_MAX)
        self.timestamp_after_max_ms = min(config.message_timestamp_after_max_ms, _TIME_SPAN_MS_MAX)

    def stores_as_built(self, attributes: int) -> bool:
        """Whether a batch of these attributes that this broker has built itself is stored as it is."""
        rules = self.rules
        return rules.timestamp_type is _CREATE_TIME and (
            rules.codec is None or attributes & CODEC_MASK == rules.codec or attributes & CONTROL_BIT != 0
        )


def _rules_of(config: LogConfig) -> AppendRules:
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
        delay=DelayRules(config.tidelog_delay_max_ms, min(config.max_message_bytes, config.segment_bytes))
        if config.tidelog_delay_enable
        else None,
    )


def prepare_append(
    name: str,
    records: memoryview,
    rules: AppendRules,
    now_ms: int,
    *,
    from_client: bool = True,
    on_loop: bool = False,
) -> PreparedRecords:
    """The first half of an append to the log of that name. It does not use the log: any thread may run it.

    Raises ApiError; with `on_loop`, TooMuchWorkError for records that would block the event loop.
    """
    began_ns = perf_counter_ns()
    try:
        prepared = prepare(records, rules, now_ms, from_client=from_client, only_magic_2=False, on_loop=on_loop)
    except _REFUSALS as error:
        raise ApiError(error.code, f"{name}: {error}") from error
    if not prepared.is_converted:
        return prepared
    return prepared._replace(conversion_ns=perf_counter_ns() - began_ns)


def fetched_batches(name: str, records: memoryview, next_offset: int) -> list[tuple[memoryview, BatchHeader]]:
    """The whole batches that a follower fetched, checked; an incomplete one at the end is left out.

    Offsets and leader epochs are the leader's. They must continue the log at `next_offset`, though compaction may have
    left gaps: AppendOffsetError otherwise. ApiError for corrupt bytes.
    """
    batches = []
    try:
        for position, header in iterate_batches(records):
            if not check_crc(records, position, header):
                raise CorruptRecordError(f"the batch at offset {header.base_offset} has a checksum that does not match")
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise AppendOffsetError(name, header.base_offset, header.last_offset, next_offset)
            batches.append((records[position : position + header.size_bytes], header))
            next_offset = header.next_offset
    except CorruptRecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{name}: {error}") from error
    return batches


def marker_of(header: BatchHeader, batch: memoryview) -> tuple[EndTransactionMarker, int] | None:
    """The marker in a control batch and its timestamp; None for any other batch."""
    if not header.is_control or header.producer_id < 0:
        return None
    for record in iterate_records(batch):
        return parse_end_transaction_marker(record), record.timestamp
    return None
