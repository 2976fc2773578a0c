"""The checks of an append on the partition's leader, and what they may change.

An append has two halves. `prepare` makes every check that does not depend on the log, in Kafka's order and with Kafka's
errors, and converts batches that cannot be stored unchanged (recompression, message sets of old magics, offsets that
are not consecutive). It is a pure function of its arguments and may run on a worker thread. `assign` sets the offsets,
the leader epoch and, for LogAppendTime, the timestamp of the prepared batch; it runs on the thread that owns the log,
in the order of the appends.

Every record of every batch is checked (`scanner.scan`), also in compressed batches: every client can read acknowledged
records. Where Kafka returns UNKNOWN_SERVER_ERROR for a malformed batch, Tidelog returns INVALID_RECORD. Four faults
that Kafka accepts are rejected or corrected, because readers handle them differently: sizes below -1 and timestamps
beyond 64 bits are rejected, a record length that does not match its content is rejected in compressed batches too, and
offsets inside an uncompressed batch that are not consecutive are renumbered.

`Log.append_as_leader` makes the same checks in a few lines for the usual batch: short, and stored unchanged.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.records._message_set import read_message_set
from tidelog.records.batch import iterate_extents
from tidelog.records.builder import build_batch
from tidelog.records.compression import DECOMPRESSED_BYTES_MAX, Buffer, Codec, compress, decompress_to_buffer
from tidelog.records.delayed import LOOP_RECORDS_MAX, DelayRules, Waiting, has_delay_headers, split
from tidelog.records.errors import (
    CorruptRecordError,
    ExpansionError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.records.header import (
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
    assemble_batch,
    assign_offset,
    check_crc,
    read_header,
    set_max_timestamp,
)
from tidelog.records.record import Record, decode_records
from tidelog.records.scanner import HAS_SPEEDUPS, RECORD_BYTES_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN, Fault, scan

UNLIMITED_MS = 2**63 - 1
_REBUILT_RECORDS_MAX = 100_000
"""Most records of one batch that are decoded and encoded one by one; only faulty or very old clients need it."""
_RECORD_ERRORS_MAX = 1000
"""Most errors in the list of a batch: the list must not be many times larger than the batch."""
_ANY_NUMBER = 2**62
_NO_KEY = "a record of a compacted topic must have a key"

# Limits of the work that `prepare` does on the event loop: at most a few milliseconds, whatever the bytes. A worker
# thread does longer work.
RECORDS_AT_ONCE_MAX = 100_000 if HAS_SPEEDUPS else 2_000
HEADERS_AT_ONCE_MAX = RECORDS_AT_ONCE_MAX
"""Limited as well, because a header may take only two bytes."""
_LOOP_COMPRESSED_BYTES_MAX = 16 << 10
_LOOP_DECOMPRESSED_BYTES_MAX = 512 << 10
_LOOP_RECOMPRESSED_BYTES_MAX = 8 << 10
_LOOP_REBUILT_RECORDS_MAX = 400
_LOOP_MESSAGE_SET_BYTES_MAX = 8 << 10

COMPRESSION_TYPES: dict[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""The values of `compression.type`; None keeps the producer's codec."""


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The rules of a topic for appended records; made once from its configuration."""

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
    delay: DelayRules | None = None
    """The rules for delayed records; None where headers ask for no delay."""
    stores_as_is: bool = field(init=False)
    """Whether an uncompressed batch that passed every check needs nothing but its offsets."""

    def __post_init__(self) -> None:
        as_is = self.codec in (None, Codec.NONE) and self.timestamp_type is TimestampType.CREATE_TIME
        object.__setattr__(self, "stores_as_is", as_is)


class ValidatedRecords(NamedTuple):
    """One batch of magic 2 as it is appended, and its properties that the log needs."""

    records: Buffer
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    """The last offset of the batch with the max timestamp: time indexes point at batches, not at records."""
    record_count: int
    log_append_time: int
    """-1 unless the topic stamps LogAppendTime."""


class TooMuchWorkError(Exception):
    """Preparing the records would block the event loop for too long; a worker thread must do it."""


class PreparedRecords(NamedTuple):
    """A batch that passed every check, in a writable buffer, as it is stored except for the fields of `assign`."""

    batch: bytearray | memoryview
    header: BatchHeader
    max_timestamp: int
    waiting: Waiting | None = None
    """The delayed records that were taken out of the batch."""
    is_converted: bool = False
    """Whether the batch was encoded again: from an older format, or with another codec."""
    conversion_ns: int = 0
    """How long that took, for the caller to note."""


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
    """Both halves of an append: `prepare`, then `assign` with offsets from `base_offset` on."""
    prepared = prepare(records, rules, now_ms, from_client=from_client, only_magic_2=only_magic_2)
    return assign(prepared, rules, base_offset, leader_epoch, now_ms)


def prepare(
    records: Buffer,
    rules: AppendRules,
    now_ms: int,
    *,
    from_client: bool = True,
    only_magic_2: bool = True,
    on_loop: bool = False,
) -> PreparedRecords:
    """Check the record set of one partition and return the batch to append.

    A writable `records` is reused for the result if it need not change. Coordinators of this broker (`from_client`
    false) may write control batches; Produce below version 3 (`only_magic_2` false) may have message sets of magic 0
    and 1. With `on_loop`, TooMuchWorkError is raised before any work of more than a few milliseconds.
    """
    if len(records) <= MAGIC_POSITION:
        raise InvalidRecordError(f"a partition's records of {len(records)} bytes have no batch")
    preparation = _Preparation(rules, now_ms, on_loop)
    magic = records[MAGIC_POSITION]
    if magic == MAGIC:
        prepared = preparation.prepare_batch(records, from_client)
    elif magic not in (0, 1):
        raise CorruptRecordError(f"records have magic {magic}, not 0, 1 or 2")
    elif only_magic_2:
        raise InvalidRecordError(f"records of magic {magic} in a request whose version allows only magic 2")
    else:
        prepared = preparation.convert(records)
    if rules.delay is not None and from_client:
        prepared = preparation.split(prepared, rules.delay)
    size = len(prepared.batch)
    _check_size(size, rules)
    if size > rules.segment_bytes:
        raise RecordBatchTooLargeError(f"a batch of {size} bytes does not fit segment.bytes={rules.segment_bytes}")
    return prepared


def short_content(codec: int, batch: memoryview) -> Buffer | None:
    """The decompressed records of a short batch; None if it is not short or cannot be decompressed."""
    if len(batch) > _LOOP_COMPRESSED_BYTES_MAX + HEADER_BYTES:
        return None
    try:
        return decompress_to_buffer(codec, batch[HEADER_BYTES:], _LOOP_DECOMPRESSED_BYTES_MAX)
    except CorruptRecordError:
        return None


def assign(
    prepared: PreparedRecords, rules: AppendRules, base_offset: int, leader_epoch: int, now_ms: int
) -> ValidatedRecords:
    """Write offsets, leader epoch and timestamp type into a prepared batch."""
    batch, header, max_timestamp, *_ = prepared
    log_append_time = NO_TIMESTAMP
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = log_append_time = now_ms
    assign_offset(batch, 0, header, base_offset, leader_epoch)
    set_max_timestamp(batch, 0, header, rules.timestamp_type, max_timestamp)
    last_offset = base_offset + header.last_offset_delta
    return ValidatedRecords(
        batch, base_offset, last_offset, max_timestamp, last_offset, header.record_count, log_append_time
    )


class _UnevenOffsetsError(InvalidRecordError):
    """The offsets inside a batch are not consecutive."""


class _Preparation:
    """The preparation of one record set."""

    __slots__ = ("_earliest", "_latest", "_now_ms", "_on_loop", "_rules")

    def __init__(self, rules: AppendRules, now_ms: int, on_loop: bool) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._on_loop = on_loop
        if rules.timestamp_type is TimestampType.CREATE_TIME:
            self._earliest = max(now_ms - rules.before_max_ms, TIMESTAMP_MIN)
            self._latest = min(now_ms + rules.after_max_ms, TIMESTAMP_MAX)
        else:
            self._earliest, self._latest = TIMESTAMP_MIN, TIMESTAMP_MAX

    def prepare_batch(self, records: Buffer, from_client: bool) -> PreparedRecords:
        header = read_header(records)
        view = _only_batch(records, header)
        rules = self._rules
        _check_batch(view, header, rules, from_client)
        codec = header.codec
        # Markers are stored as they are, so that reading them needs no decoder.
        keeps_codec = rules.codec is None or rules.codec is codec or (header.is_control and codec is Codec.NONE)
        try:
            data = self._content(view, header)
            if keeps_codec:
                return self._keep(view, data, header)
            return self._recompress(data, header, rules.codec or Codec.NONE)
        except CorruptRecordError as error:
            # The checksum is right, so the producer sent these bytes: it would retry CORRUPT_MESSAGE for ever.
            raise InvalidRecordError(str(error)) from error

    def convert(self, records: Buffer) -> PreparedRecords:
        """Convert a message set of magic 0 or 1 to a batch."""
        rules = self._rules
        if len(records) > _LOOP_MESSAGE_SET_BYTES_MAX:
            self._leave_loop()
        for message in iterate_extents(records):
            _check_size(message.end - message.position, rules)
        limit_bytes = _LOOP_MESSAGE_SET_BYTES_MAX if self._on_loop else rules.decompressed_bytes_max
        try:
            messages = read_message_set(records, min(limit_bytes, rules.decompressed_bytes_max), _REBUILT_RECORDS_MAX)
        except ExpansionError as error:
            self._leave_loop()
            raise InvalidRecordError(str(error)) from error
        header = _NO_BATCH._replace(attributes=LOG_APPEND_TIME_BIT if messages.is_log_append_time else 0)
        # Messages outside a wrapper are batches of one each, and the first that fails decides the error of the set.
        batches = [messages.records] if messages.codec else [[record] for record in messages.records]
        max_timestamp = max(self._check_decoded(batch, header) for batch in batches)
        codec = messages.codec if rules.codec is None else rules.codec
        return self._build(messages.records, header, codec, max_timestamp)

    def split(self, prepared: PreparedRecords, rules: DelayRules) -> PreparedRecords:
        """Take the delayed records out of a batch that passed every check."""
        header = prepared.header
        content = self._content(memoryview(prepared.batch), header)
        if not has_delay_headers(content):
            return prepared
        if header.record_count > LOOP_RECORDS_MAX:
            self._leave_loop()
        level = self._rules.level if self._rules.codec is header.codec else None
        parts = split(header, content, rules, self._now_ms, level)
        if parts is None:
            return prepared
        rest = read_header(parts.batch)
        max_timestamp = rest.max_timestamp if rest.record_count else prepared.max_timestamp
        return PreparedRecords(bytearray(parts.batch), rest, max_timestamp, parts.waiting, prepared.is_converted)

    def _leave_loop(self) -> None:
        if self._on_loop:
            raise TooMuchWorkError

    def _content(self, view: memoryview, header: BatchHeader) -> Buffer:
        """The encoded records of a batch, decompressed within the limit."""
        data = view[HEADER_BYTES:]
        codec = header.codec
        if codec is Codec.NONE:
            return data
        limit_bytes = self._rules.decompressed_bytes_max
        if header.record_count * RECORD_BYTES_MIN > limit_bytes:
            raise InvalidRecordError(f"{header.record_count} records cannot fit the {limit_bytes} bytes of a batch")
        if self._on_loop:
            if len(data) > _LOOP_COMPRESSED_BYTES_MAX:
                raise TooMuchWorkError
            limit_bytes = min(limit_bytes, _LOOP_DECOMPRESSED_BYTES_MAX)
        try:
            return decompress_to_buffer(codec, data, limit_bytes)
        except ExpansionError:
            self._leave_loop()
            raise

    def _keep(self, view: memoryview, data: Buffer, header: BatchHeader) -> PreparedRecords:
        """Keep the batch unchanged."""
        try:
            max_timestamp = self._check_data(data, header)
        except _UnevenOffsetsError:
            if header.codec is not Codec.NONE or header.record_count > _REBUILT_RECORDS_MAX:
                raise
            return self._rebuild(data, header, Codec.NONE)
        batch: bytearray | memoryview = bytearray(view) if view.readonly else view
        return PreparedRecords(batch, header, max_timestamp)

    def _recompress(self, data: Buffer, header: BatchHeader, codec: Codec) -> PreparedRecords:
        """Store the records with another codec. Their bytes stay the same, so they are checked and not decoded."""
        if codec is not Codec.NONE and len(data) > _LOOP_RECOMPRESSED_BYTES_MAX:
            self._leave_loop()
        if header.is_log_append_time:
            # The batch has one timestamp for all its records; with CreateTime each record must have it.
            return self._rebuild(data, header, codec)
        try:
            max_timestamp = self._check_data(data, header)
        except _UnevenOffsetsError:
            if header.record_count > _REBUILT_RECORDS_MAX:
                raise
            return self._rebuild(data, header, codec)
        attributes = header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) | codec
        stored = header._replace(attributes=attributes, max_timestamp=max_timestamp)
        return _prepared(assemble_batch(stored, compress(codec, data, self._rules.level)), max_timestamp)

    def _rebuild(self, data: Buffer, header: BatchHeader, codec: Codec) -> PreparedRecords:
        """Decode the records and encode each again."""
        count = header.record_count
        if count > _LOOP_REBUILT_RECORDS_MAX:
            self._leave_loop()
        if count > _REBUILT_RECORDS_MAX:
            raise InvalidRecordError(
                f"the {count} records of a batch must be encoded again, which is limited to {_REBUILT_RECORDS_MAX}"
            )
        log_append_time = header.max_timestamp if header.is_log_append_time else None
        decoded = list(decode_records(bytes(data), count, 0, header.base_timestamp, log_append_time))
        return self._build(decoded, header, codec, self._check_decoded(decoded, header))

    def _build(self, records: list[Record], header: BatchHeader, codec: Codec, max_timestamp: int) -> PreparedRecords:
        """Encode records with consecutive offsets, keeping the producer's identity."""
        rules = self._rules
        batch = build_batch(
            [record._replace(offset=offset) for offset, record in enumerate(records)],
            codec=codec,
            level=rules.level if rules.codec is codec else None,
            timestamp_type=rules.timestamp_type,
            log_append_time=self._now_ms,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        return _prepared(batch, max_timestamp)

    def _check_data(self, data: Buffer, header: BatchHeader) -> int:
        """Check the encoded records of a batch; returns the largest timestamp."""
        count = header.record_count
        if min(count, len(data) // RECORD_BYTES_MIN) > RECORDS_AT_ONCE_MAX:
            self._leave_loop()
        needs_key = self._rules.is_compacted
        earliest, latest = self._earliest, self._latest
        if header.is_log_append_time:
            self._check_claimed_time(data, header)
            earliest, latest = TIMESTAMP_MIN, TIMESTAMP_MAX
        errors: list[tuple[int, str]] = []
        has_time_error = False
        position = index = 0
        max_timestamp = NO_TIMESTAMP
        headers_max = HEADERS_AT_ONCE_MAX if self._on_loop else _ANY_NUMBER
        while len(errors) < _RECORD_ERRORS_MAX:
            position, index, max_timestamp, fault = scan(
                *(data, position, index, count, header.base_timestamp),
                *(earliest, latest, needs_key, max_timestamp, headers_max),
            )
            if fault == Fault.NONE:
                break
            if fault == Fault.MANY_HEADERS:
                raise TooMuchWorkError
            if fault == Fault.NO_KEY:
                errors.append((index, _NO_KEY))
            elif fault != Fault.TIMESTAMP_OUT_OF_RANGE:
                raise _bad_record(data, header, position, index, fault)
            position, index, timestamp = _pass_over(data, header, position, index)
            max_timestamp = max(max_timestamp, timestamp)
            if fault == Fault.TIMESTAMP_OUT_OF_RANGE:
                has_time_error = True
                errors.append((index - 1, self._time_problem(timestamp)))
        else:
            raise _refusal(errors, has_time_error)
        if position != len(data):
            raise InvalidRecordError(f"{len(data) - position} bytes are left after the {count} records of a batch")
        if errors:
            raise _refusal(errors, has_time_error)
        return max(header.max_timestamp, NO_TIMESTAMP) if header.is_log_append_time else max_timestamp

    def _check_claimed_time(self, data: Buffer, header: BatchHeader) -> None:
        """A producer set the timestamp type LogAppendTime: the batch has one timestamp for all its records."""
        problem = self._claim_problem(header.max_timestamp)
        if problem is None:
            return
        errors = []
        position = 0
        for index in range(min(header.record_count, _RECORD_ERRORS_MAX)):
            _, _, _, fault = scan(
                *(data, position, index, index + 1, 0),
                *(TIMESTAMP_MIN, TIMESTAMP_MAX, self._rules.is_compacted, 0, _ANY_NUMBER),
            )
            if fault not in (Fault.NONE, Fault.NO_KEY):
                raise _bad_record(data, header, position, index, fault)
            position, _, _ = _pass_over(data, header, position, index)
            errors.append((index, _NO_KEY if fault == Fault.NO_KEY else problem))
        raise _refusal(errors, any(text == problem for _, text in errors))

    def _claim_problem(self, timestamp: int) -> str | None:
        if self._rules.timestamp_type is not TimestampType.CREATE_TIME or timestamp == NO_TIMESTAMP:
            return "a producer must not set the timestamp type LogAppendTime"
        return None if self._earliest <= timestamp <= self._latest else self._time_problem(timestamp)

    def _time_problem(self, timestamp: int) -> str:
        return f"timestamp {timestamp} is not within [{self._earliest}, {self._latest}]"

    def _check_decoded(self, records: list[Record], header: BatchHeader) -> int:
        """The same for decoded records, whose offsets will be renumbered."""
        checks_time = self._rules.timestamp_type is TimestampType.CREATE_TIME
        needs_key = self._rules.is_compacted
        max_timestamp = NO_TIMESTAMP
        errors: list[tuple[int, str]] = []
        has_time_error = False
        for index, (_, timestamp, key, _, _) in enumerate(records):
            if not TIMESTAMP_MIN <= timestamp <= TIMESTAMP_MAX:
                raise InvalidRecordError(f"record {index} has the timestamp {timestamp}, which does not fit 64 bits")
            max_timestamp = max(max_timestamp, timestamp)
            if needs_key and key is None:
                errors.append((index, _NO_KEY))
            elif checks_time and timestamp != NO_TIMESTAMP:
                if not self._earliest <= timestamp <= self._latest:
                    has_time_error = True
                    errors.append((index, self._time_problem(timestamp)))
            elif header.is_log_append_time:
                has_time_error = True
                errors.append((index, "a producer must not set the timestamp type LogAppendTime"))
            if len(errors) == _RECORD_ERRORS_MAX:
                break
        if errors:
            raise _refusal(errors, has_time_error)
        return max_timestamp


def _pass_over(data: Buffer, header: BatchHeader, position: int, index: int) -> tuple[int, int, int]:
    """Skip one whole record: where the next begins, its index, and the timestamp of this one."""
    position, index, timestamp, _ = scan(
        *(data, position, index, index + 1, header.base_timestamp),
        *(TIMESTAMP_MIN, TIMESTAMP_MAX, False, TIMESTAMP_MIN, _ANY_NUMBER),
    )
    return position, index, timestamp


_FAULTS = {
    Fault.CUT_OFF: "is cut off",
    Fault.MALFORMED: "has a length, size or count that does not fit",
    Fault.UNEVEN_OFFSET: "has an offset delta that is not its index in the batch",
}


def _bad_record(data: Buffer, header: BatchHeader, position: int, index: int, fault: int) -> InvalidRecordError:
    where = f"record {index} of {header.record_count}, at byte {position} of {len(data)},"
    problem = _FAULTS[Fault(fault)]
    kind = _UnevenOffsetsError if fault == Fault.UNEVEN_OFFSET else InvalidRecordError
    return kind(f"{where} {problem}", ((index, problem),) if fault == Fault.UNEVEN_OFFSET else ())


def _refusal(errors: list[tuple[int, str]], has_time_error: bool) -> InvalidRecordError:
    first = "; ".join(f"record {index}: {problem}" for index, problem in errors[:3])
    kind = InvalidTimestampError if has_time_error else InvalidRecordError
    return kind(f"{len(errors)} records rejected, starting with {first}", tuple(errors))


def _prepared(batch: bytes, max_timestamp: int) -> PreparedRecords:
    return PreparedRecords(bytearray(batch), read_header(batch), max_timestamp, is_converted=True)


def _only_batch(records: Buffer, header: BatchHeader) -> memoryview:
    """The batch without incomplete bytes after it, which are dropped as in Kafka; a second batch is rejected."""
    size = header.size_bytes
    if size < HEADER_BYTES:
        raise CorruptRecordError(f"a batch claims {size} bytes, less than its header")
    view = memoryview(records)
    rest = len(view) - size
    if rest < 0:
        raise InvalidRecordError(f"a partition's records have only {len(view)} of the {size} bytes of a batch")
    if rest > MAGIC_POSITION:
        next_length = int.from_bytes(view[size + LENGTH_POSITION : size + LENGTH_PREFIX_BYTES], "big", signed=True)
        if next_length + LENGTH_PREFIX_BYTES <= rest:
            raise InvalidRecordError("more than one batch for a partition; there must be exactly one")
    return view[:size]


def _check_batch(view: memoryview, header: BatchHeader, rules: AppendRules, from_client: bool) -> None:
    """Check the header. The order is Kafka's, so that a batch with two faults gets the same error."""
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
        raise InvalidRecordError(f"a batch has the last offset delta {header.last_offset_delta}")
    if count <= 0:
        raise InvalidRecordError(f"a batch claims {count} records")
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


_NO_BATCH = BatchHeader(0, 0, -1, 0, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0)
"""In place of the header that message sets of old magics do not have."""
