"""The checks of an append on the partition's leader, and what they may change.

The usual batch does not come here: where the rules say `stores_as_is` (CreateTime, `compression.type=producer`, no
compaction, no `message.timestamp.before.max.ms`), `Log.append_as_leader` looks at header and checksum alone and writes
base offset and leader epoch into the batch.

`validate` is for everything else. It makes the same checks, raising the error that belongs to each, and goes on: keys
on compacted topics, timestamps record by record, offsets inside the batch, recompression, LogAppendTime, and message
sets of old magics, which become one batch. Records are decoded only where something in them is to be looked at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.records._message_set import message_sizes, read_message_set
from tidelog.records._record import Record, scan_records
from tidelog.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_POSITION,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    assign_offset,
    check_crc,
    iterate_records,
    read_header,
    record_data,
    set_max_timestamp,
)
from tidelog.records.builder import assemble_batch, build_batch
from tidelog.records.compression import DECOMPRESSED_BYTES_MAX, Buffer, Codec, compress
from tidelog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)

UNLIMITED_MS = 2**63 - 1
_BATCH_LENGTH_MIN = HEADER_BYTES - LENGTH_PREFIX_BYTES
_BROKER_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT
_RENUMBERED_MAX = 100_000
"""How many records are written anew one by one; more in one batch, out of order, are nobody's honest work."""
_RECORD_ERRORS_MAX = 1000
"""Where the list of a batch's errors ends: it must not outgrow the batch many times over."""
_NO_KEY = "a record of a compacted topic must have a key"

COMPRESSION_TYPES: dict[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""The values of `compression.type`; None keeps what the producer chose."""


@dataclass(frozen=True, slots=True)
class AppendRules:
    """What a topic asks of appended records; made once from its configuration."""

    codec: Codec | None = None
    """The codec to store with; None keeps the producer's."""
    level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_max_ms: int = UNLIMITED_MS
    after_max_ms: int = UNLIMITED_MS
    is_compacted: bool = False
    max_message_bytes: int = 1048588
    segment_bytes: int = 2**30
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    stores_as_is: bool = field(init=False)
    """Whether a batch needs nothing more once its header and checksum were found right."""

    def __post_init__(self) -> None:
        as_is = self.codec is None and not self.is_compacted and self.before_max_ms == UNLIMITED_MS
        object.__setattr__(self, "stores_as_is", as_is and self.timestamp_type is TimestampType.CREATE_TIME)


class ValidatedRecords(NamedTuple):
    """One batch of magic 2 as it goes into the log, and what the log needs to know of it."""

    records: Buffer
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    """The last offset of the batch with the max timestamp: time indexes point at batches, not at records."""
    record_count: int
    log_append_time: int
    """-1 unless the topic stamps LogAppendTime."""


def validate(
    records: Buffer,
    rules: AppendRules,
    *,
    base_offset: int,
    leader_epoch: int,
    now_ms: int,
    from_client: bool = True,
    only_magic_2: bool = True,
) -> ValidatedRecords:
    """Check the record set of one partition and make it the one batch to append, offsets from `base_offset` on.

    A writable `records` may be changed in place and returned. Coordinators of this broker (`from_client` false) may
    write control batches; Produce below version 3 (`only_magic_2` false) may bring message sets of magic 0 and 1.
    """
    place = _Place(base_offset, leader_epoch, now_ms)
    if len(records) <= MAGIC_POSITION:
        raise InvalidRecordError(f"a partition's records of {len(records)} bytes hold no batch")
    magic = records[MAGIC_POSITION]
    if magic == MAGIC:
        validated = _validate_batch(records, rules, place, from_client)
    elif magic not in (0, 1):
        raise CorruptRecordError(f"records have magic {magic}, which is none of 0, 1 and 2")
    elif only_magic_2:
        raise InvalidRecordError(f"records of magic {magic} in a request whose version allows only magic 2")
    else:
        validated = _convert(records, rules, place)
    size = len(validated.records)
    _check_size(size, rules)
    if size > rules.segment_bytes:
        raise RecordBatchTooLargeError(f"a batch of {size} bytes does not fit segment.bytes={rules.segment_bytes}")
    return validated


class _Place(NamedTuple):
    """Where and when the records are appended."""

    base_offset: int
    leader_epoch: int
    now_ms: int


def _validate_batch(records: Buffer, rules: AppendRules, place: _Place, from_client: bool) -> ValidatedRecords:
    header = read_header(records)
    view = _only_batch(records, header)
    _check_batch(view, header, rules, from_client)
    codec = header.codec
    try:
        # Markers are stored as they are: who reads them must not need a decoder.
        if rules.codec is None or rules.codec is codec or (header.is_control and codec is Codec.NONE):
            return _assign_in_place(view, header, rules, place)
        return _recompress(view, header, rules, rules.codec, place)
    except CorruptRecordError as error:
        # The checksum holds, so these bytes were meant: corruption would have the producer send them again for ever.
        raise InvalidRecordError(str(error)) from error


def _recompress(
    view: memoryview, header: BatchHeader, rules: AppendRules, codec: Codec, place: _Place
) -> ValidatedRecords:
    """Store the records with another codec. Their bytes stay the same, so they are looked at and not taken apart."""
    if header.is_log_append_time:
        # Its records say one time and the batch another, which holds: as CreateTime each must say it itself.
        return _write_anew(view, header, rules, codec, place)
    data = record_data(view, 0, header, rules.decompressed_bytes_max)
    try:
        max_timestamp = _check_records(_entries_of_batch(data, header), header, rules, place.now_ms)
    except _UnevenOffsetsError:
        if header.record_count > _RENUMBERED_MAX:
            raise
        return _write_anew(view, header, rules, codec, place)
    log_append_time = NO_TIMESTAMP
    attributes = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) | codec
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time = place.now_ms
        attributes |= LOG_APPEND_TIME_BIT
    stored = header._replace(
        base_offset=place.base_offset,
        partition_leader_epoch=place.leader_epoch,
        attributes=attributes,
        max_timestamp=max_timestamp,
    )
    batch = assemble_batch(stored, compress(codec, data, rules.level))
    last_offset = stored.last_offset
    return ValidatedRecords(
        batch, place.base_offset, last_offset, max_timestamp, last_offset, header.record_count, log_append_time
    )


def _write_anew(
    view: memoryview, header: BatchHeader, rules: AppendRules, codec: Codec, place: _Place
) -> ValidatedRecords:
    """Take the records apart and write each anew."""
    decoded = list(iterate_records(view, limit_bytes=rules.decompressed_bytes_max))
    max_timestamp = _check_records(_entries_of_records(decoded), header, rules, place.now_ms)
    return _rebuild(decoded, header, rules, codec, max_timestamp, place)


def _convert(records: Buffer, rules: AppendRules, place: _Place) -> ValidatedRecords:
    for size in message_sizes(records):
        _check_size(size, rules)
    messages = read_message_set(records, rules.decompressed_bytes_max)
    header = _NO_BATCH._replace(attributes=LOG_APPEND_TIME_BIT if messages.is_log_append_time else 0)
    # Messages outside a wrapper are batches of one each, and the first that fails decides the error of the whole.
    batches = [messages.records] if messages.codec else [[record] for record in messages.records]
    max_timestamp = max(_check_records(_entries_of_records(batch), header, rules, place.now_ms) for batch in batches)
    codec = messages.codec if rules.codec is None else rules.codec
    return _rebuild(messages.records, header, rules, codec, max_timestamp, place)


def _only_batch(records: Buffer, header: BatchHeader) -> memoryview:
    """The batch without incomplete bytes after it, which are dropped as Kafka does; another batch is refused."""
    size = header.size_bytes
    if size < HEADER_BYTES:
        raise CorruptRecordError(f"a batch claims {size} bytes, less than its header")
    view = memoryview(records)
    rest = len(view) - size
    if rest < 0:
        raise InvalidRecordError(f"a partition's records hold only {len(view)} of the {size} bytes of a batch")
    if rest > MAGIC_POSITION:
        next_length = int.from_bytes(view[size + LENGTH_POSITION : size + LENGTH_PREFIX_BYTES], "big", signed=True)
        if next_length + LENGTH_PREFIX_BYTES <= rest:
            raise InvalidRecordError("more than one batch for a partition; there must be exactly one")
    return view[:size]


def _check_batch(view: memoryview, header: BatchHeader, rules: AppendRules, from_client: bool) -> None:
    """What the header tells. The order is Kafka's, so that a batch with two faults gets the same answer."""
    if from_client and header.base_offset != 0:
        raise InvalidRecordError(f"base offset of a producer's batch must be 0, not {header.base_offset}")
    _check_size(header.size_bytes, rules)
    if not check_crc(view, 0, header):
        raise CorruptRecordError(f"a batch of {header.size_bytes} bytes does not match its checksum {header.crc:#010x}")
    if header.attributes & CODEC_MASK > Codec.ZSTD:
        raise UnsupportedCompressionError(f"unknown compression codec {header.attributes & CODEC_MASK}")
    if from_client:
        _check_client_batch(header)


def _check_client_batch(header: BatchHeader) -> None:
    count, offsets = header.record_count, header.last_offset_delta + 1
    if offsets <= 0:
        raise InvalidRecordError(f"a batch with the last offset delta {header.last_offset_delta}")
    if count <= 0:
        raise InvalidRecordError(f"a batch that claims {count} records")
    if count != offsets:
        raise InvalidRecordError(f"a batch claims {count} records but {offsets} offsets")
    if header.is_control:
        raise InvalidRecordError("clients must not write control batches")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            who = f"producer {header.producer_id} with epoch {header.producer_epoch}"
            raise InvalidRecordError(f"{who} wrote sequence {header.base_sequence}; neither may be negative")
    elif header.is_transactional:
        raise InvalidRecordError(f"a transactional batch needs a producer id, not {header.producer_id}")


def _check_size(size: int, rules: AppendRules) -> None:
    if size > rules.max_message_bytes:
        raise RecordTooLargeError(f"a batch of {size} bytes is larger than max.message.bytes={rules.max_message_bytes}")


def _assign_in_place(view: memoryview, header: BatchHeader, rules: AppendRules, place: _Place) -> ValidatedRecords:
    """Keep the batch; write what the broker decides into its header."""
    max_timestamp = header.max_timestamp
    if _must_scan(header, rules, place.now_ms):
        data = record_data(view, 0, header, rules.decompressed_bytes_max)
        max_timestamp = _check_records(_entries_of_batch(data, header), header, rules, place.now_ms)
    log_append_time = NO_TIMESTAMP
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time = place.now_ms
    batch: bytearray | memoryview = bytearray(view) if view.readonly else view
    assign_offset(batch, 0, header, place.base_offset, place.leader_epoch)
    set_max_timestamp(batch, 0, header, rules.timestamp_type, max_timestamp)
    last_offset = place.base_offset + header.last_offset_delta
    return ValidatedRecords(
        batch, place.base_offset, last_offset, max_timestamp, last_offset, header.record_count, log_append_time
    )


def _must_scan(header: BatchHeader, rules: AppendRules, now_ms: int) -> bool:
    """Whether the header cannot vouch for the records: keys are asked for, or a timestamp may be out of range."""
    if rules.is_compacted or header.is_log_append_time:
        return True
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return False
    return rules.before_max_ms != UNLIMITED_MS or header.max_timestamp - now_ms > rules.after_max_ms


class _UnevenOffsetsError(InvalidRecordError):
    """The offsets inside a batch do not count up one by one."""


def _entries_of_batch(data: bytes, header: BatchHeader) -> Iterator[tuple[int, bool]]:
    """Timestamp and presence of a key, record by record, for a batch whose offsets must count up from its first."""
    base_timestamp = header.base_timestamp
    log_append_time = header.max_timestamp if header.is_log_append_time else None
    for index, (offset_delta, timestamp_delta, key_bytes, _) in enumerate(scan_records(data, header.record_count)):
        if offset_delta != index:
            problem = f"has offset delta {offset_delta} where {index} is next"
            raise _UnevenOffsetsError(f"record {index} {problem}", ((index, problem),))
        yield (base_timestamp + timestamp_delta if log_append_time is None else log_append_time), key_bytes >= 0


def _entries_of_records(records: list[Record]) -> Iterator[tuple[int, bool]]:
    return ((record.timestamp, record.key is not None) for record in records)


def _check_records(entries: Iterable[tuple[int, bool]], header: BatchHeader, rules: AppendRules, now_ms: int) -> int:
    """Check timestamp and presence of a key, record by record; returns the largest timestamp."""
    must_have_key = rules.is_compacted
    checks_time = rules.timestamp_type is TimestampType.CREATE_TIME
    is_log_append_time = header.is_log_append_time
    earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
    max_timestamp = NO_TIMESTAMP
    errors: list[tuple[int, str]] = []
    has_time_error = False
    for index, (timestamp, has_key) in enumerate(entries):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if must_have_key and not has_key:
            errors.append((index, _NO_KEY))
        elif checks_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                has_time_error = True
                errors.append((index, f"timestamp {timestamp} is not within [{earliest}, {latest}]"))
        elif is_log_append_time:
            has_time_error = True
            errors.append((index, "a producer must not set the timestamp type LogAppendTime"))
        if len(errors) == _RECORD_ERRORS_MAX:
            break
    if errors:
        raise _refusal(errors, has_time_error)
    return max_timestamp


def _refusal(errors: list[tuple[int, str]], has_time_error: bool) -> InvalidRecordError:
    first = "; ".join(f"record {index}: {problem}" for index, problem in errors[:3])
    kind = InvalidTimestampError if has_time_error else InvalidRecordError
    return kind(f"{len(errors)} records refused, starting with {first}", tuple(errors))


def _rebuild(
    records: list[Record], header: BatchHeader, rules: AppendRules, codec: Codec, max_timestamp: int, place: _Place
) -> ValidatedRecords:
    """Write the records anew, offsets counted up, keeping the producer's identity."""
    log_append_time = NO_TIMESTAMP
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time = place.now_ms
    base_offset = place.base_offset
    batch = build_batch(
        [record._replace(offset=offset) for offset, record in enumerate(records, base_offset)],
        base_offset=base_offset,
        codec=codec,
        level=rules.level if rules.codec is codec else None,
        timestamp_type=rules.timestamp_type,
        log_append_time=log_append_time,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        partition_leader_epoch=place.leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    last_offset = base_offset + len(records) - 1
    return ValidatedRecords(batch, base_offset, last_offset, max_timestamp, last_offset, len(records), log_append_time)


_NO_BATCH = BatchHeader(0, 0, -1, 0, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0)
"""Stands for the header that message sets of old magics do not have."""
