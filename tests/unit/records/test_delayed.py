"""Delayed records: the headers, and a producer's batch in two."""

from typing import Any

import pytest

from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.delayed import (
    DelayRules,
    build_delivery,
    encode_floor,
    is_about_delayed,
    is_change,
    is_floor,
    key_of,
    parse_change,
    parse_delay_ms,
    parse_floor,
    unpack_entry,
)
from tidelog.records.errors import InvalidRecordError
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.records.validation import AppendRules, PreparedRecords, TooMuchWorkError, prepare

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
RULES = AppendRules(delay=DelayRules(366 * DAY_MS, 1_000_000))


def _record(offset: int, *headers: tuple[str, bytes | None]) -> Record:
    return Record(offset, NOW_MS + offset, b"k%d" % offset, b"v%d" % offset, headers)


def _prepared(*records: Record, rules: AppendRules = RULES, on_loop: bool = False, **options: Any) -> PreparedRecords:
    return prepare(bytearray(build_batch(records, **options)), rules, NOW_MS, on_loop=on_loop)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [(b"0", 0), (b"10", 10), (b"10ms", 10), (b"10s", 10_000), (b"5m", 300_000), (b"2h", 7_200_000), (b"1d", DAY_MS)],
)
def test_delays_are_numbers_with_a_unit(text: bytes, milliseconds: int) -> None:
    assert parse_delay_ms(text) == milliseconds


@pytest.mark.parametrize("text", [b"", b"-1", b"1.5s", b"1 s", b"s", b"1w", b"\xff\x00", b"9" * 30])
def test_other_delays_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="tidelog-delay"):
        parse_delay_ms(text)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_rest_of_a_batch_keeps_offsets_sequences_and_codec(codec: Codec) -> None:
    prepared = _prepared(
        _record(0), _record(1, ("tidelog-delay", b"5s")), _record(2), codec=codec, producer_id=7, producer_epoch=0,
        base_sequence=40,
    )  # fmt: skip
    header = prepared.header
    assert (header.last_offset_delta, header.record_count, header.last_sequence) == (2, 2, 42)
    assert header.codec is codec
    assert [record.offset for record in iterate_records(prepared.batch)] == [0, 2]
    assert prepared.max_timestamp == NOW_MS + 2


def test_a_batch_of_delayed_records_leaves_an_empty_one() -> None:
    prepared = _prepared(_record(0, ("tidelog-delay", b"5s")), codec=Codec.GZIP)
    assert (prepared.header.record_count, prepared.header.codec, len(prepared.batch)) == (0, Codec.NONE, 61)
    assert prepared.waiting is not None
    (batch,) = prepared.waiting.encode(10, 99, NOW_MS)
    assert read_header(batch).is_control
    change = parse_change(batch)
    assert (change.lead, change.crc, change.producer_id) == (1, 99, -1)
    entry = unpack_entry(change.added[0])
    assert (entry.deliver_at_ms, entry.id, entry.location) == (NOW_MS + 5000, 11, 10)


def test_delayed_records_fill_as_many_control_batches_as_they_need() -> None:
    rules = AppendRules(delay=DelayRules(DAY_MS, 500))
    records = [Record(slot, NOW_MS, None, b"x" * 90, (("tidelog-delay", b"5"),)) for slot in range(9)]
    waiting = _prepared(*records, rules=rules).waiting
    assert waiting is not None
    batches = waiting.encode(100, 1, NOW_MS)
    assert len(batches) == waiting.batch_count > 1
    assert max(map(len, batches)) <= 500
    changes = [parse_change(batch) for batch in batches]
    assert [change.lead for change in changes] == list(range(len(batches), 0, -1))
    ids = [unpack_entry(entry).id for change in changes for entry in change.added]
    assert ids == [100 + len(batches) + slot for slot in range(9)]


def test_in_a_transaction_a_delay_is_kept_until_the_commit_and_a_time_is_not() -> None:
    prepared = _prepared(
        _record(0, ("tidelog-delay", b"5s")), _record(1, ("tidelog-deliver-at", b"%d" % (NOW_MS + 9))),
        producer_id=7, producer_epoch=3, base_sequence=0, is_transactional=True,
    )  # fmt: skip
    assert prepared.waiting is not None
    change = parse_change(prepared.waiting.encode(0, 1, NOW_MS)[0])
    assert (change.producer_id, change.producer_epoch) == (7, 3)
    assert [unpack_entry(entry).deliver_at_ms for entry in change.added] == [-5000, NOW_MS + 9]


@pytest.mark.parametrize(
    "headers",
    [
        (("tidelog-delay", b"367d"),),
        (("tidelog-deliver-at", b"%d" % (NOW_MS + 367 * DAY_MS)),),
        (("tidelog-deliver-at", b"tomorrow"),),
        (("tidelog-delay", None),),
        (("tidelog-delay", b"1s"), ("tidelog-deliver-at", b"1")),
    ],
)
def test_a_record_at_fault_is_named_with_its_index(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    with pytest.raises(InvalidRecordError) as caught:
        _prepared(_record(0), _record(1, *headers))
    assert [index for index, _ in caught.value.record_errors] == [1]


def test_too_long_a_delay_names_the_setting() -> None:
    with pytest.raises(InvalidRecordError, match=r"tidelog\.delay\.max\.ms"):
        _prepared(_record(0, ("tidelog-delay", b"367d")))


def test_a_record_that_cannot_wait_uncompressed_names_the_setting() -> None:
    rules = AppendRules(delay=DelayRules(DAY_MS, 1000))
    with pytest.raises(InvalidRecordError, match=r"max\.message\.bytes"):
        _prepared(Record(0, NOW_MS, None, b"x" * 2000, (("tidelog-delay", b"5"),)), rules=rules, codec=Codec.GZIP)


def test_a_time_that_has_passed_is_no_delay() -> None:
    headers = (("tidelog-deliver-at", b"%d" % NOW_MS), ("tidelog-deliver-at", b"5"))
    assert _prepared(_record(0, *headers)).waiting is None


def test_many_records_are_split_on_a_thread() -> None:
    records = [_record(slot, ("tidelog-delay", b"5")) for slot in range(500)]
    with pytest.raises(TooMuchWorkError):
        _prepared(*records, on_loop=True)


def test_a_delivery_has_the_due_times_and_the_records_as_they_were() -> None:
    prepared = _prepared(_record(0, ("a", b"b"), ("tidelog-delay", b"5s")))
    assert prepared.waiting is not None
    tail = prepared.waiting.chunks[0][0].tail
    assert key_of(tail) == b"k0"
    first, second = iterate_records(build_delivery([(NOW_MS, tail), (NOW_MS + 300, tail)]))
    assert first == Record(0, NOW_MS, b"k0", b"v0", (("a", b"b"), ("tidelog-delay", b"5s")))
    assert (second.offset, second.timestamp) == (1, NOW_MS + 300)


def test_a_floor_is_a_control_batch_of_its_own_kind() -> None:
    batch = encode_floor(640, base_offset=700, timestamp=NOW_MS)
    header = read_header(batch)
    assert (is_floor(batch, header), is_change(batch, header)) == (True, False)
    assert is_about_delayed(b"before" + batch, header, 6)
    assert parse_floor(batch) == 640
    data = build_batch([_record(0)])
    assert not is_about_delayed(data, read_header(data), 0)
