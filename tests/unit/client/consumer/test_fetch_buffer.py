import pytest

from tests.unit.client.consumer.batches import batch
from tests.unit.present import present
from tidelog.client.aio.consumer.completed_fetch import CompletedFetch, Decoding
from tidelog.client.aio.consumer.fetch_buffer import FetchBuffer
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.partition_state import Position
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.errors import ApiError
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Reader:
    """A subscription to two partitions at offset 0, and its buffer."""

    def __init__(self):
        self.subscription = SubscriptionState(EARLIEST)
        self.subscription.assign([T0, T1])
        for state in self.subscription:
            state.seek(Position(0))
        self.buffer = FetchBuffer(self.subscription)

    def add(self, partition, first, count=3):
        return self.buffer.add(CompletedFetch(partition, first, batch(first, count), Decoding()))

    def state(self, partition=T0):
        return self.subscription.state_of(partition)

    def take(self, limit=99):
        records = self.buffer.take(limit)
        return None if records is None else [(record.partition, record.offset) for record in records]


def test_records_are_returned_in_order_of_arrival_and_positions_follow():
    reader = Reader()
    reader.add(T1, 0)
    reader.add(T0, 0)
    assert reader.take(4) == [(1, 0), (1, 1), (1, 2), (0, 0)]
    assert reader.state(T1).position == Position(3, 0)
    assert reader.state(T0).position == Position(1, 0)
    assert reader.take() == [(0, 1), (0, 2)]
    assert reader.take() is None


def test_what_to_commit_after_processing_comes_with_the_records():
    reader = Reader()
    reader.add(T0, 0)
    assert present(reader.buffer.take(2)).next_offsets == {T0: OffsetAndMetadata(2, "", 0)}


def test_two_fetches_are_kept_ahead_and_no_more():
    reader = Reader()
    assert reader.buffer.next_offset(reader.state()) == 0
    assert reader.add(T0, 0)
    assert reader.buffer.next_offset(reader.state()) == 3
    assert reader.add(T0, 3)
    assert reader.buffer.next_offset(reader.state()) is None
    reader.take(3)
    assert reader.buffer.next_offset(reader.state()) == 6


def test_a_fetch_from_elsewhere_is_not_taken_in():
    reader = Reader()
    assert not reader.add(T0, 7)
    assert not reader.add(TopicPartition("gone", 0), 0)


def test_after_a_seek_what_was_fetched_is_dropped():
    reader = Reader()
    reader.add(T0, 0)
    reader.add(T0, 3)
    reader.state().seek(Position(3))
    assert reader.take() is None
    assert len(reader.buffer) == 0
    assert reader.buffer.next_offset(reader.state()) == 3


def test_the_next_fetch_after_a_seek_begins_there_even_before_anybody_polls():
    reader = Reader()
    reader.add(T0, 0)
    reader.state().seek(Position(50))
    assert reader.buffer.next_offset(reader.state()) == 50


def test_a_paused_partition_keeps_its_records():
    reader = Reader()
    reader.add(T0, 0)
    reader.add(T1, 0)
    reader.state(T0).is_paused = True
    assert reader.take() == [(1, 0), (1, 1), (1, 2)]
    reader.state(T0).is_paused = False
    assert reader.take() == [(0, 0), (0, 1), (0, 2)]


def test_what_is_no_longer_assigned_is_dropped():
    reader = Reader()
    reader.add(T0, 0)
    reader.subscription.assign([T1])
    reader.buffer.drop_unassigned()
    assert len(reader.buffer) == 0


def test_an_error_waits_until_the_records_before_it_are_out_and_is_raised_once():
    reader = Reader()
    reader.add(T1, 0)
    refusal = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    reader.buffer.add(CompletedFetch.failed(T0, 0, refusal))
    assert len(reader.take()) == 3
    with pytest.raises(ApiError):
        reader.take()
    assert reader.take() is None
    assert reader.buffer.next_offset(reader.state()) == 0, "so it is asked again"


def test_whole_batches_move_positions_too():
    reader = Reader()
    reader.add(T0, 0)
    reader.add(T1, 0)
    assert [(each.partition, each.next_offset) for each in reader.buffer.take_batches()] == [(0, 3), (1, 3)]
    assert reader.state(T0).position == Position(3, 0)
    assert reader.take() is None


def test_an_error_waits_until_the_batches_before_it_are_out_and_is_raised_once():
    reader = Reader()
    reader.add(T1, 0)
    reader.buffer.add(CompletedFetch.failed(T0, 0, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")))
    assert [each.partition for each in reader.buffer.take_batches()] == [1]
    with pytest.raises(ApiError):
        reader.buffer.take_batches()
    assert reader.buffer.take_batches() == []
