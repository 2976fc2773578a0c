"""Dead letters: which topics may have them, their batches and headers, and finding those that are there."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.sharing.dead_letters import (
    EXHAUSTED,
    DeadLetterRules,
    LetterBatch,
    Origin,
    letter_batches,
    offsets_written,
    records_of,
    refusal_of,
)
from tidelog.sharing.partition import Letter

ORIGIN = Origin("invoices", "orders", 3)
LETTER = Letter(10, 14, 5, False, 0, False)


def batches(originals: dict[int, Record], written: set[int], bytes_max: int) -> list[LetterBatch]:
    return list(letter_batches(LETTER, ORIGIN, originals, written, 1_000, bytes_max))


def records(batch: LetterBatch) -> list[Record]:
    return list(iterate_records(batch.records))


@pytest.mark.parametrize(
    ("rules", "exists", "is_enabled", "text"),
    [
        (DeadLetterRules(topic="__dlq"), True, True, "internal"),
        (DeadLetterRules(topic="orders", name_prefix="dlq."), True, True, "name.prefix"),
        (DeadLetterRules(topic="dlq.a", name_prefix="dlq."), True, False, "group.enable"),
        (DeadLetterRules(topic="dlq.a"), False, False, "auto.create"),
    ],
)
def test_a_topic_that_cannot_have_dead_letters_is_refused(
    rules: DeadLetterRules, exists: bool, is_enabled: bool, text: str
) -> None:
    assert text in (refusal_of(rules, exists=exists, is_enabled=is_enabled) or "")


def test_a_topic_that_is_enabled_or_may_be_created_is_taken() -> None:
    assert refusal_of(DeadLetterRules(topic="dlq.a", name_prefix="dlq."), exists=True, is_enabled=True) is None
    assert refusal_of(DeadLetterRules(topic="a", may_create=True), exists=False, is_enabled=False) is None


def test_a_letter_has_the_origin_and_what_there_is_of_its_record() -> None:
    (batch,) = batches({11: Record(11, 5, b"k", b"v", (("own", b"1"),))}, set(), 10_000)
    found = records(batch)
    assert [(each.key, each.value, each.timestamp) for each in found] == [
        (b"k", b"v", 1_000) if each == 1 else (None, None, 1_000) for each in range(5)
    ]
    assert dict(found[1].headers) == {
        "__dlq.errors.topic": b"orders",
        "__dlq.errors.partition": b"3",
        "__dlq.errors.offset": b"11",
        "__dlq.errors.group": b"invoices",
        "__dlq.errors.delivery.count": b"5",
        "__dlq.errors.message": EXHAUSTED.encode(),
    }


@pytest.mark.parametrize("bytes_max", [100, 700, 900, 100_000])
@pytest.mark.parametrize("written", [set(), {10}, {12, 13}, {14}, {10, 11, 12, 13, 14}])
def test_batches_keep_to_the_size_and_cover_every_offset_once(bytes_max: int, written: set[int]) -> None:
    found = batches({offset: Record(offset, 0, None, b"x" * 100) for offset in range(10, 15)}, written, bytes_max)
    assert [found[0].first_offset, found[-1].last_offset] == [10, 14]
    assert all(before.last_offset + 1 == after.first_offset for before, after in pairwise(found))
    assert all(each.record_count <= 1 or len(each.records) <= bytes_max for each in found)
    data = b"".join(each.records for each in found)
    assert sorted(offsets_written(data, ORIGIN)) == sorted(set(range(10, 15)) - written)


def test_letters_of_others_and_other_records_are_not_taken_for_ours() -> None:
    (batch,) = batches({}, set(), 10_000)
    assert list(offsets_written(batch.records, ORIGIN._replace(partition=4))) == []
    assert list(offsets_written(batch.records, ORIGIN._replace(group_id="other"))) == []
    strange = build_batch([Record(0, 0, b"k", b"v", (("__dlq.errors.offset", b"x"),))])
    assert list(offsets_written(strange, ORIGIN)) == []


def test_the_records_of_a_range_are_found_in_their_batches() -> None:
    data = build_batch([Record(offset, 0, None, b"%d" % offset) for offset in range(5, 9)], base_offset=5)
    data += build_batch([Record(offset, 0, None, b"%d" % offset) for offset in range(9, 12)], base_offset=9)
    assert [each.offset for each in records_of(data, 7, 9)] == [7, 8, 9]
    assert len(list(iterate_batches(data))) == 2
