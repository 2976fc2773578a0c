"""Our records against Apache Kafka's own code: its reader, its builder, its down-conversion and its LogValidator.

`RecordsOracle.java` runs them in one Java process. The tests need Java 17 and the jars that `make bench` keeps in
`${XDG_CACHE_HOME:-~/.cache}/tidelog/kafka-3.9.1/libs`; `TIDELOG_KAFKA_LIBS` names another folder.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.records.strategies import NOW_MS, codecs, legacy_codecs, record_lists
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.records.header import TimestampType, read_header
from tidelog.records.legacy import convert_down, iterate_legacy_records
from tidelog.records.record import Record
from tidelog.records.validation import COMPRESSION_TYPES, UNLIMITED_MS, AppendRules, ValidatedRecords, validate

pytestmark = pytest.mark.java

_HERE = Path(__file__).parent
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_LIBS = Path(os.environ.get("TIDELOG_KAFKA_LIBS") or _CACHE / "tidelog" / "kafka-3.9.1" / "libs")
_CODEC_NAMES = {Codec.NONE: "none", Codec.GZIP: "gzip", Codec.SNAPPY: "snappy", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}
_TYPE_NAMES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Oracle:
    """The Java process and its commands."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, *fields: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(str(field) for field in fields) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n").split(" ")

    def build(
        self,
        records: list[Record],
        magic: int,
        codec: Codec,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> bytes:
        level_text = "-" if level is None else str(level)
        arguments = (magic, _CODEC_NAMES[codec], level_text, _TYPE_NAMES[timestamp_type], records[0].offset, NOW_MS)
        (answer,) = self.ask("build", *arguments, -1, -1, -1, "false", *map(_as_text, records))
        return bytes.fromhex(answer)

    def read(self, data: bytes) -> list[Record]:
        status, *records = self.ask("read", data.hex())
        assert status == "ok", records
        return [_from_text(text) for text in records]


def _as_text(record: Record) -> str:
    fields = [str(record.offset), str(record.timestamp), _hex(record.key), _hex(record.value)]
    for key, value in record.headers:
        fields += [key.encode().hex(), _hex(value)]
    return ",".join(fields)


def _from_text(text: str) -> Record:
    offset, timestamp, key, value, *rest = text.split(",")
    headers = [
        (bytes.fromhex(name).decode(), _unhex(content)) for name, content in zip(rest[::2], rest[1::2], strict=True)
    ]
    return Record(int(offset), int(timestamp), _unhex(key), _unhex(value), tuple(headers))


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def _unhex(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java on this machine")
    if not _LIBS.is_dir():
        pytest.skip(f"Kafka's jars are not in {_LIBS}")
    command = [
        java,
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        f"{_LIBS}/*",
        str(_HERE / "RecordsOracle.java"),
    ]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield Oracle(process)
    finally:
        process.communicate()


@few
@given(records=record_lists(base_offset=7), codec=codecs)
def test_kafka_reads_what_we_build(oracle: Oracle, records: list[Record], codec: Codec) -> None:
    assert oracle.read(build_batch(records, base_offset=7, codec=codec)) == records


@few
@given(records=record_lists(base_offset=7), codec=codecs, timestamp_type=st.sampled_from(TimestampType))
def test_we_read_what_kafka_builds(
    oracle: Oracle, records: list[Record], codec: Codec, timestamp_type: TimestampType
) -> None:
    batch = oracle.build(records, 2, codec, timestamp_type=timestamp_type)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        records = [record._replace(timestamp=NOW_MS) for record in records]
    assert list(iterate_records(batch)) == records


@few
@given(records=record_lists(base_offset=3), timestamp_type=st.sampled_from(TimestampType))
def test_uncompressed_batches_are_the_same_to_the_byte(
    oracle: Oracle, records: list[Record], timestamp_type: TimestampType
) -> None:
    ours = build_batch(records, base_offset=3, timestamp_type=timestamp_type, log_append_time=NOW_MS)
    assert oracle.build(records, 2, Codec.NONE, timestamp_type=timestamp_type) == ours


def test_kafka_reads_batches_of_many_blocks(oracle: Oracle) -> None:
    """Snappy blocks hold 32 KiB and LZ4 blocks 64 KiB; Kafka refuses LZ4 blocks that refer to each other."""
    records = [Record(index, index, b"%d" % index, b"%d-" % index * 600) for index in range(100)]
    for codec in Codec:
        assert oracle.read(build_batch(records, codec=codec)) == records
        assert list(iterate_records(oracle.build(records, 2, codec))) == records


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 1), (Codec.LZ4, 17), (Codec.ZSTD, -131072), (Codec.ZSTD, 22)],
)
def test_levels_at_their_bounds_are_readable_both_ways(oracle: Oracle, codec: Codec, level: int) -> None:
    records = [Record(index, index, None, b"%d-" % index * 100) for index in range(20)]
    assert oracle.read(build_batch(records, codec=codec, level=level)) == records
    assert list(iterate_records(oracle.build(records, 2, codec, level))) == records


@few
@given(
    records=record_lists(base_offset=5, with_headers=False),
    codec=legacy_codecs,
    magic=st.sampled_from([0, 1]),
    timestamp_type=st.sampled_from(TimestampType),
)
def test_we_read_the_message_sets_kafka_builds(
    oracle: Oracle, records: list[Record], codec: Codec, magic: int, timestamp_type: TimestampType
) -> None:
    message_set = oracle.build(records, magic, codec, timestamp_type=timestamp_type)
    if magic == 0:
        expected = [record._replace(timestamp=-1) for record in records]
    elif timestamp_type is TimestampType.LOG_APPEND_TIME:
        expected = [record._replace(timestamp=NOW_MS) for record in records]
    else:
        expected = records
    assert list(iterate_legacy_records(message_set)) == expected


@few
@given(
    records=record_lists(base_offset=5),
    codec=codecs,
    magic=st.sampled_from([0, 1]),
    first_offset=st.integers(0, 30),
    timestamp_type=st.sampled_from(TimestampType),
)
def test_we_convert_down_as_kafka_does(
    oracle: Oracle, records: list[Record], codec: Codec, magic: int, first_offset: int, timestamp_type: TimestampType
) -> None:
    """Compressed bytes may differ, so compressed sets are compared by what Kafka reads in them."""
    batch = build_batch(records, base_offset=5, codec=codec, timestamp_type=timestamp_type, log_append_time=NOW_MS)
    marker = build_end_transaction_marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=50
    )
    status, *answer = oracle.ask("down", magic, first_offset, (batch + marker).hex())
    if codec is Codec.ZSTD:
        assert status == "error"
        with pytest.raises(UnsupportedCompressionError):
            convert_down(batch + marker, magic, first_offset=first_offset)
        return
    theirs = bytes.fromhex(answer[0])
    ours = convert_down(batch + marker, magic, first_offset=first_offset)
    if codec is Codec.NONE:
        assert ours == theirs
    else:
        assert oracle.read(ours) == oracle.read(theirs)
        timestamp_end = 26 if magic else 18
        assert ours[:8] + ours[16:timestamp_end] == theirs[:8] + theirs[16:timestamp_end]


near_now = st.integers(NOW_MS - 4000, NOW_MS + 4000)
limits_ms = st.sampled_from([UNLIMITED_MS, 3500, 2000])
rule_sets = st.builds(
    AppendRules,
    codec=st.sampled_from(list(COMPRESSION_TYPES.values())),
    timestamp_type=st.sampled_from(TimestampType),
    before_max_ms=limits_ms,
    after_max_ms=limits_ms,
    is_compacted=st.booleans(),
)


def _outcome(
    data: bytes, rules: AppendRules, version: int, from_client: bool
) -> ValidatedRecords | InvalidRecordError | CorruptRecordError:
    try:
        return validate(
            data,
            rules,
            base_offset=1000,
            leader_epoch=7,
            now_ms=NOW_MS,
            from_client=from_client,
            only_magic_2=version >= 3,
        )
    except (InvalidRecordError, CorruptRecordError) as error:
        return error


def _compare_validation(oracle: Oracle, data: bytes, rules: AppendRules, version: int, from_client: bool) -> None:
    codec_name = next(name for name, codec in COMPRESSION_TYPES.items() if codec is rules.codec)
    status, *answer = oracle.ask(
        "validate",
        version,
        "none" if codec_name == "uncompressed" else codec_name,
        "-",
        str(rules.is_compacted).lower(),
        _TYPE_NAMES[rules.timestamp_type],
        rules.before_max_ms,
        rules.after_max_ms,
        1000,
        7,
        NOW_MS,
        "CLIENT" if from_client else "COORDINATOR",
        data.hex(),
    )
    outcome = _outcome(data, rules, version, from_client)
    if isinstance(outcome, ValueError):
        assert status == "error", outcome
        assert outcome.code.name == answer[0]
        if isinstance(outcome, InvalidRecordError) and version >= 3:
            assert ",".join(str(index) for index, _ in outcome.record_errors) == answer[1]
        return
    assert status == "ok", answer
    assert outcome.max_timestamp == int(answer[0])
    ours, theirs = bytes(outcome.records), bytes.fromhex(answer[1])
    assert oracle.read(ours) == oracle.read(theirs)
    header = read_header(ours)
    assert header._replace(crc=0, batch_length=0) == read_header(theirs)._replace(crc=0, batch_length=0)
    assert (outcome.first_offset, outcome.last_offset) == (1000, header.last_offset)
    assert outcome.record_count == header.record_count


@settings(few, max_examples=60)
@given(records=record_lists(times=near_now), codec=codecs, rules=rule_sets, claims_append_time=st.booleans())
def test_we_validate_batches_as_kafka_does(
    oracle: Oracle, records: list[Record], codec: Codec, rules: AppendRules, claims_append_time: bool
) -> None:
    timestamp_type = TimestampType.LOG_APPEND_TIME if claims_append_time else TimestampType.CREATE_TIME
    batch = build_batch(records, codec=codec, timestamp_type=timestamp_type, log_append_time=NOW_MS - 3000)
    _compare_validation(oracle, batch, rules, 9, from_client=True)


@few
@given(
    records=record_lists(times=near_now, with_headers=False),
    codec=legacy_codecs,
    magic=st.sampled_from([0, 1]),
    rules=rule_sets,
    timestamp_type=st.sampled_from(TimestampType),
)
def test_we_validate_message_sets_as_kafka_does(
    oracle: Oracle, records: list[Record], codec: Codec, magic: int, rules: AppendRules, timestamp_type: TimestampType
) -> None:
    message_set = oracle.build(records, magic, codec, timestamp_type=timestamp_type)
    _compare_validation(oracle, message_set, rules, 2, from_client=True)


@few
@given(records=record_lists(times=near_now, max_size=3), change=st.data(), from_client=st.booleans())
def test_faulty_headers_get_kafkas_answer(
    oracle: Oracle, records: list[Record], change: st.DataObject, from_client: bool
) -> None:
    """One field of the header is wrong, the checksum right."""
    faults = {
        "base_offset": change.draw(st.integers(0, 2)),
        "last_offset": change.draw(st.integers(-3, 5)),
        "is_control": change.draw(st.booleans()),
        "base_sequence": change.draw(st.integers(-2, 1)),
    }
    name = change.draw(st.sampled_from(sorted(faults)))
    if name == "base_offset":
        moved = [record._replace(offset=record.offset + faults[name]) for record in records]
        batch = build_batch(moved, base_offset=faults[name])
    elif name == "base_sequence":
        batch = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=faults[name])
    elif name == "last_offset" and from_client:
        batch = build_batch(records, last_offset=faults[name])
    else:
        is_control = bool(faults["is_control"])
        batch = build_batch(records, is_control=is_control, producer_id=5, producer_epoch=0, base_sequence=0)
    _compare_validation(oracle, batch, AppendRules(), 9, from_client)
