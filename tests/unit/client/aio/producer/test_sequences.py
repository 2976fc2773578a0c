"""Idempotence case by case; `tests/property/client` plays all of them against each other."""

import pytest

from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.aio.producer.sequences import EPOCH_MAX, NO_IDENTITY, ProducerIdentity, SequenceTracker
from tidelog.wire.errors import ErrorCode

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN_PRODUCER = ErrorCode.UNKNOWN_PRODUCER_ID


class Desk:
    """A sequence tracker with one partition, and batches sent through it."""

    def __init__(self, *, is_transactional: bool = False, sent: int = 0, acked: int = 0) -> None:
        self.sequence_tracker = SequenceTracker(is_transactional=is_transactional)
        self.sequence_tracker.take_identity(ProducerIdentity(7, 3))
        self.partition = self.sequence_tracker.partition()
        self.batches = [self.send() for _ in range(sent)]
        for batch in self.batches[:acked]:
            self.sequence_tracker.completed(self.partition, batch, batch.state.base_sequence)

    def send(self, records: int = 2) -> ProducerBatch:
        batch = self.new(records)
        self.sequence_tracker.assign(self.partition, batch)
        batch.stamped = batch.state
        return batch

    def new(self, records: int = 2) -> ProducerBatch:
        batch = ProducerBatch("topic", 0, 0, 1000)
        batch.records = [(0, None, b"", ())] * records
        return batch

    def may_send(self, batch: ProducerBatch) -> bool:
        return self.sequence_tracker.may_send(self.partition, batch)

    def may_retry(self, batch: ProducerBatch, code: int, log_start_offset: int = 0) -> bool | None:
        return self.sequence_tracker.may_retry(self.partition, batch, code, log_start_offset)

    @property
    def states(self) -> list[tuple[int, int]]:
        return [(batch.state.producer_epoch, batch.state.base_sequence) for batch in self.partition.in_flight]


def test_sequences_follow_the_records() -> None:
    desk = Desk(sent=3)
    assert [tuple(batch.state) for batch in desk.batches] == [(7, 3, 0), (7, 3, 2), (7, 3, 4)]


def test_sequences_begin_again_after_the_last_number() -> None:
    desk = Desk()
    desk.partition.identity = desk.sequence_tracker.identity
    desk.partition.next = 0x7FFFFFFF
    first, second = desk.send(), desk.send()
    assert (first.state.base_sequence, first.last_sequence, second.state.base_sequence) == (0x7FFFFFFF, 0, 1)
    desk.sequence_tracker.completed(desk.partition, first, 10)
    desk.sequence_tracker.completed(desk.partition, second, 12)
    assert desk.partition.is_next(3)


def test_nothing_is_sent_without_an_identity() -> None:
    sequence_tracker = SequenceTracker(is_transactional=False)
    assert sequence_tracker.needs_identity
    assert not sequence_tracker.may_send(sequence_tracker.partition(), Desk().new())


def test_until_the_first_batch_is_stored_it_is_alone() -> None:
    """A broker that knows nothing of a producer takes any sequence, so a second batch could be stored before it."""
    desk = Desk(sent=1)
    assert not desk.may_send(desk.new())
    desk.sequence_tracker.completed(desk.partition, desk.batches[0], 0)
    desk.send()
    assert desk.may_send(desk.new())


def test_a_retry_goes_only_when_it_is_the_oldest() -> None:
    desk = Desk(sent=3, acked=1)
    assert desk.may_send(desk.batches[1])
    assert not desk.may_send(desk.batches[2])


def test_out_of_order_behind_another_batch_is_retried_as_it_is() -> None:
    desk = Desk(sent=3, acked=1)
    assert desk.may_retry(desk.batches[2], OUT_OF_ORDER) is True
    desk.sequence_tracker.bump_if_needed()
    assert desk.sequence_tracker.identity.epoch == 3


def test_out_of_order_of_the_next_batch_is_a_gap_and_raises_the_epoch() -> None:
    desk = Desk(sent=3, acked=1)
    assert desk.may_retry(desk.batches[1], OUT_OF_ORDER) is True
    desk.sequence_tracker.bump_if_needed()
    assert desk.sequence_tracker.identity == (7, 4)
    assert desk.states == [(4, 0), (4, 2)]
    assert desk.batches[1].was_renumbered


def test_a_refused_batch_leaves_a_gap_that_a_new_epoch_closes() -> None:
    desk = Desk(sent=4, acked=1)
    desk.sequence_tracker.failed(desk.partition, desk.batches[1], ErrorCode.INVALID_RECORD)
    desk.sequence_tracker.bump_if_needed()
    assert desk.states == [(4, 0), (4, 2)]
    assert desk.may_retry(desk.batches[2], OUT_OF_ORDER) is True, "it was refused under its old number"


def test_a_batch_on_the_wire_that_was_stored_under_its_old_number_moves_the_rest_up() -> None:
    desk = Desk(sent=4, acked=1)
    desk.sequence_tracker.failed(desk.partition, desk.batches[1], ErrorCode.INVALID_RECORD)
    desk.sequence_tracker.bump_if_needed()
    desk.sequence_tracker.completed(desk.partition, desk.batches[2], 40)
    assert desk.states == [(4, 0)]


def test_new_batches_wait_while_the_old_epoch_is_under_way() -> None:
    desk = Desk(sent=2, acked=1)
    other = desk.sequence_tracker.partition()
    desk.sequence_tracker.failed(other, desk.new(), 0)
    desk.sequence_tracker.identity = ProducerIdentity(7, 4)
    assert not desk.may_send(desk.new())
    desk.sequence_tracker.completed(desk.partition, desk.batches[1], 2)
    new = desk.new()
    assert desk.may_send(new)
    desk.sequence_tracker.assign(desk.partition, new)
    assert tuple(new.state) == (7, 4, 0)


def test_a_batch_given_up_unanswered_holds_back_the_rest_until_it_is_known() -> None:
    desk = Desk(sent=3, acked=1)
    desk.sequence_tracker.given_up_unanswered(desk.partition, desk.batches[1])
    assert not desk.may_send(desk.new())
    desk.sequence_tracker.completed(desk.partition, desk.batches[2], 4)
    desk.sequence_tracker.bump_if_needed()
    assert desk.may_send(desk.new()), "the one behind it was taken, so it was stored"
    assert desk.sequence_tracker.identity.epoch == 3


def test_if_the_outcome_is_unknown_the_epoch_is_raised() -> None:
    desk = Desk(sent=2, acked=1)
    desk.sequence_tracker.given_up_unanswered(desk.partition, desk.batches[1])
    desk.sequence_tracker.bump_if_needed()
    assert desk.sequence_tracker.identity.epoch == 4
    assert desk.may_send(desk.new())


def test_an_unknown_producer_whose_records_were_deleted_goes_on() -> None:
    desk = Desk(sent=2, acked=1)
    assert desk.may_retry(desk.batches[1], UNKNOWN_PRODUCER, log_start_offset=100) is True
    desk.sequence_tracker.bump_if_needed()
    assert desk.states == [(4, 0)]


def test_an_unknown_producer_without_a_log_start_is_asked_again() -> None:
    desk = Desk(sent=2, acked=1)
    assert desk.may_retry(desk.batches[1], UNKNOWN_PRODUCER, log_start_offset=-1) is True
    desk.sequence_tracker.bump_if_needed()
    assert desk.sequence_tracker.identity.epoch == 3


def test_after_the_last_epoch_comes_another_producer_id() -> None:
    desk = Desk(sent=2, acked=1)
    desk.sequence_tracker.identity = desk.partition.identity = ProducerIdentity(7, EPOCH_MAX)
    desk.sequence_tracker.failed(desk.partition, desk.batches[1], ErrorCode.INVALID_RECORD)
    desk.sequence_tracker.bump_if_needed()
    assert (desk.sequence_tracker.identity, desk.sequence_tracker.needs_identity) == (NO_IDENTITY, True)
    desk.sequence_tracker.take_identity(ProducerIdentity(8, 0))
    new = desk.send()
    assert new.state[:1] == (8,)
    assert new.state.base_sequence == 0


def test_other_codes_are_left_to_the_table() -> None:
    assert Desk(sent=1).may_retry(Desk(sent=1).batches[0], ErrorCode.NOT_LEADER_OR_FOLLOWER) is None


class TestTransactional:
    """The epoch is raised by the coordinator, after the abort."""

    def test_a_gap_closes_by_moving_up(self) -> None:
        desk = Desk(is_transactional=True, sent=4, acked=1)
        desk.sequence_tracker.failed(desk.partition, desk.batches[1], ErrorCode.INVALID_RECORD)
        assert desk.states == [(3, 2), (3, 4)]
        assert desk.partition.next == 6

    def test_a_real_gap_fails_the_batch(self) -> None:
        desk = Desk(is_transactional=True, sent=2, acked=1)
        assert desk.may_retry(desk.batches[1], OUT_OF_ORDER) is None
        desk.sequence_tracker.failed(desk.partition, desk.batches[1], OUT_OF_ORDER)
        assert desk.sequence_tracker.needs_epoch_bump

    def test_records_lost_from_sight_must_be_aborted(self) -> None:
        desk = Desk(is_transactional=True, sent=2, acked=1)
        desk.sequence_tracker.given_up_unanswered(desk.partition, desk.batches[1])
        desk.sequence_tracker.bump_if_needed()
        assert desk.sequence_tracker.lost_track
        assert desk.sequence_tracker.needs_epoch_bump
        desk.sequence_tracker.take_identity(ProducerIdentity(7, 4))
        assert not desk.sequence_tracker.lost_track
        assert desk.send().state == (7, 4, 0)

    @pytest.mark.parametrize("log_start_offset", [0, 100])
    def test_an_unknown_producer_goes_on_only_if_nothing_was_lost(self, log_start_offset: int) -> None:
        desk = Desk(is_transactional=True, sent=2, acked=1)
        expected = True if log_start_offset == 100 else None
        assert desk.may_retry(desk.batches[1], UNKNOWN_PRODUCER, log_start_offset) is expected
        if expected:
            assert desk.states == [(3, 0)]
