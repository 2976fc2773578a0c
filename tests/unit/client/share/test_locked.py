import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.client.consumer.batches import batch, marker
from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.consumer.errors import CorruptRecords, DeserializationFailed
from tidelog.client.aio.share.locked import LockedRange, LockedRecords
from tidelog.client.aio.share.types import GAP, RELEASED, Origin
from tidelog.client.types import TopicPartition

ORIGIN = Origin(1, (b"t" * 16, 0), TopicPartition("t", 0))


def locked(*parts: bytes, ranges: list[tuple[int, int, int]], value: Callable[..., Any] | None = None) -> LockedRecords:
    found = [LockedRange(*each) for each in ranges]
    return LockedRecords(ORIGIN, b"".join(parts), found, 1_000, Decoding(value=value))


def test_only_locked_records_are_taken_with_their_delivery_counts() -> None:
    records, acks, error = locked(batch(0, 10), ranges=[(2, 3, 1), (6, 6, 4)]).take(99)
    assert [(each.offset, each.delivery_count) for each in records] == [(2, 1), (3, 1), (6, 4)]
    assert (acks, error) == ({}, None)


def test_they_come_as_many_as_wanted_and_the_rest_later() -> None:
    one = locked(batch(0, 4), batch(4, 4), ranges=[(0, 7, 1)])
    assert [each.offset for each in one.take(3).records] == [0, 1, 2]
    assert not one.is_done
    assert [each.offset for each in one.take(99).records] == [3, 4, 5, 6, 7]
    assert one.is_done


def test_offsets_without_a_record_are_gaps() -> None:
    """Compaction has removed 2 and 3, and what was behind 5; 6 is a marker."""
    records, acks, _ = locked(batch(0, 2), batch(4, 2), marker(6, 5, commit=True), ranges=[(0, 6, 1)]).take(99)
    assert [each.offset for each in records] == [0, 1, 4, 5]
    assert acks == {2: GAP, 3: GAP, 6: GAP}


def test_what_the_answer_does_not_reach_is_released_and_no_gap() -> None:
    """A gap is archived: a record that was cut off would be lost."""
    records, acks, _ = locked(batch(0, 2), batch(2, 2)[:-1], ranges=[(0, 3, 1)]).take(99)
    assert [each.offset for each in records] == [0, 1]
    assert acks == {2: RELEASED, 3: RELEASED}


def test_a_corrupt_batch_is_released_and_reported_after_the_records_before_it() -> None:
    torn = bytearray(batch(2, 2))
    torn[-1] ^= 0xFF
    one = locked(batch(0, 2), bytes(torn), ranges=[(0, 3, 1)])
    assert [each.offset for each in one.take(2).records] == [0, 1]
    records, acks, error = one.take(99)
    assert records == []
    assert acks == {2: RELEASED, 3: RELEASED}
    assert isinstance(error, CorruptRecords)
    assert one.is_done


def test_a_record_that_cannot_be_deserialized_ends_a_part_and_does_not_stop_the_rest() -> None:
    def refuse(data: bytes) -> bytes:
        if data == b"v1":
            raise json.JSONDecodeError("no", "", 0)
        return data

    one = locked(batch(0, 3), ranges=[(0, 2, 1)], value=lambda _topic, data, _headers: refuse(data))
    records, acks, error = one.take(99)
    assert [each.offset for each in records] == [0]
    assert acks == {}
    assert isinstance(error, DeserializationFailed)
    assert error.offset == 1
    with pytest.raises(DeserializationFailed, match="acknowledge_offset"):
        raise error
    assert [each.offset for each in one.take(99).records] == [2]
    assert one.is_done
