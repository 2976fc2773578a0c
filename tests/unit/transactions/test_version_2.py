"""Version 2 of the transaction protocol (KIP-890): every end bumps the epoch, and may be asked for twice."""

import pytest

from tests.unit.transactions.world import ID, A, B, World
from tidelog.coordination import ProducerEpoch
from tidelog.records.batch import iterate_records
from tidelog.transactions.transaction import EPOCH_MAX
from tidelog.wire.errors import ErrorCode

LAST_EPOCH = EPOCH_MAX - 1
"""The last epoch that a producer has."""


@pytest.fixture
def world() -> World:
    world = World()
    world.level = 2
    return world


def begun(world: World, *partitions: tuple[str, int]) -> ProducerEpoch:
    producer = world.init()
    assert isinstance(producer, ProducerEpoch)
    assert world.add_by_writing(producer, *(partitions or (A,))) is ErrorCode.NONE
    return producer


def with_last_epoch(world: World) -> ProducerEpoch:
    """An open transaction of a producer that has no epoch left."""
    producer = begun(world)
    world.shard._transactions[ID] = world.transaction()._replace(producer_epoch=LAST_EPOCH)
    return producer._replace(producer_epoch=LAST_EPOCH)


@pytest.mark.parametrize("is_commit", [True, False])
def test_every_end_bumps_the_epoch_and_the_markers_have_the_new_one(world: World, is_commit: bool) -> None:
    producer = begun(world, A, B)
    following = world.end_and_bump(producer, is_commit)
    assert following == producer._replace(producer_epoch=1)
    order = world.take_order()
    assert (order.producer_id, order.producer_epoch, order.is_commit, order.protocol) == (*following, is_commit, 2)
    for partition in order.partitions:
        world.report(order, partition)
    assert world.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert world.transaction().producer == following
    assert world.add_by_writing(producer, A) is ErrorCode.PRODUCER_FENCED
    assert world.add_by_writing(following, A) is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_is_repeated_is_answered_again_and_never_ends_the_next_transaction(
    world: World, is_commit: bool
) -> None:
    producer = begun(world)
    following = world.end_and_bump(producer, is_commit)
    assert world.end_and_bump(producer, is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end_and_bump(producer, not is_commit) is ErrorCode.INVALID_TXN_STATE
    world.write_markers()
    assert world.end_and_bump(producer, is_commit) == following
    assert world.end_and_bump(producer, not is_commit) is ErrorCode.INVALID_TXN_STATE
    world.add_by_writing(following, B)
    assert world.end_and_bump(producer, is_commit) is ErrorCode.PRODUCER_FENCED
    assert world.state() == "Ongoing"


def test_a_repeated_end_is_known_to_the_next_coordinator_too(world: World) -> None:
    producer = begun(world)
    following = world.end_and_bump(producer)
    world.fail_over()
    assert world.end_and_bump(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    world.fail_over()
    assert world.end_and_bump(producer) == following


def test_while_markers_are_missing_the_next_epoch_has_to_wait(world: World) -> None:
    following = world.end_and_bump(begun(world))
    assert world.add_by_writing(following, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end_and_bump(following) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end_and_bump(following, False) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.add_by_writing(following, A) is ErrorCode.NONE


def test_an_abort_needs_no_open_transaction_and_bumps_the_epoch(world: World) -> None:
    """The producer does not know whether a write that was not answered has begun one."""
    producer = world.init()
    for epoch in range(1, 4):
        before = producer
        producer = world.end_and_bump(before, False)
        assert producer == before._replace(producer_epoch=epoch)
        assert world.state() == "CompleteAbort"
        assert world.end_and_bump(before, False) == producer
    assert not world.orders
    assert len(world.completed) == 3


def test_a_commit_needs_an_open_transaction(world: World) -> None:
    producer = world.init()
    assert world.end_and_bump(producer) is ErrorCode.INVALID_TXN_STATE
    world.add_by_writing(producer, A)
    following = world.end_and_bump(producer)
    world.write_markers()
    assert world.end_and_bump(following) is ErrorCode.INVALID_TXN_STATE
    aborted = world.end_and_bump(following, False)
    assert world.end_and_bump(aborted) is ErrorCode.INVALID_TXN_STATE


def test_an_abort_of_nothing_that_a_crash_interrupted_is_completed(world: World) -> None:
    producer = world.init()
    world.log.commits_at_once = False
    world.send(lambda shard, now_ms: shard.end(ID, producer, False, now_ms, 2))
    assert world.state() == "PrepareAbort"
    world.log.commits_at_once = True
    world.fail_over()
    world.advance(world.settings.retry_backoff_ms)
    assert world.state() == "CompleteAbort"


@pytest.mark.parametrize("fails_over", [False, True])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_producer_without_epochs_gets_another_id(world: World, is_commit: bool, fails_over: bool) -> None:
    producer = with_last_epoch(world)
    following = world.end_and_bump(producer, is_commit)
    assert following == (world.next_producer_id, 0)
    assert following.producer_id != producer.producer_id
    if fails_over:
        world.fail_over()
    assert world.add_by_writing(following, A) is ErrorCode.CONCURRENT_TRANSACTIONS
    order = world.take_order()
    assert (order.producer_id, order.producer_epoch) == (producer.producer_id, EPOCH_MAX)
    assert world.end_and_bump(producer, is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.report(order, A)
    if fails_over:
        world.fail_over()
    assert world.transaction().producer == following
    assert world.end_and_bump(producer, is_commit) == following
    assert world.add_by_writing(following, A) is ErrorCode.NONE
    assert world.end_and_bump(producer, is_commit) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_whose_transaction_timed_out_goes_on_after_an_abort(world: World) -> None:
    producer = world.init(timeout_ms=1000)
    world.add_by_writing(producer, A)
    world.advance(20_000)
    world.write_markers()
    assert world.state() == "CompleteAbort"
    assert world.add_by_writing(producer, B) is ErrorCode.PRODUCER_FENCED
    following = world.end_and_bump(producer, False)
    assert following == producer._replace(producer_epoch=1)
    assert world.add_by_writing(following, B) is ErrorCode.NONE


def test_a_producer_that_another_one_replaced_stays_fenced(world: World) -> None:
    producer = begun(world)
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    successor = world.init()
    assert successor.producer_epoch == 2
    assert world.end_and_bump(producer, False) is ErrorCode.PRODUCER_FENCED
    assert world.add_by_writing(producer, A) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_transaction_without_epochs_leaves_another_id(world: World) -> None:
    with_last_epoch(world)
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.transaction().producer == (world.next_producer_id, 0)
    assert world.init() == (world.next_producer_id, 1)


def test_a_producer_may_change_its_protocol_between_transactions(world: World) -> None:
    producer = world.begun(A)
    assert world.end(producer) is ErrorCode.NONE
    world.write_markers()
    world.add_by_writing(producer, A)
    following = world.end_and_bump(producer)
    world.write_markers()
    assert world.add(following, B) is ErrorCode.NONE
    assert world.end(following, False) is ErrorCode.NONE
    assert world.take_order().protocol == 0
    assert world.transaction().producer == following


def test_a_producer_that_was_replaced_is_not_told_its_successors_commit_is_its_own(world: World) -> None:
    """The successor ends by the older protocol, whose ends bump no epoch: the one before is the fenced producer's."""
    replaced = world.init()
    successor = world.init()
    assert isinstance(replaced, ProducerEpoch)
    assert successor == replaced._replace(producer_epoch=replaced.producer_epoch + 1)
    assert world.add(successor, A) is ErrorCode.NONE
    assert world.end(successor) is ErrorCode.NONE
    assert world.end_and_bump(replaced) is ErrorCode.PRODUCER_FENCED
    world.write_markers()
    assert world.end_and_bump(replaced) is ErrorCode.PRODUCER_FENCED


def test_records_have_the_older_form_until_the_feature_is_raised(world: World) -> None:
    world.level = 0
    world.end_and_bump(begun(world))
    assert {value[:2] for value in _values(world)} == {b"\x00\x00"}
    world.level = 1
    world.write_markers()
    assert _values(world)[-1][:2] == b"\x00\x01"
    world.fail_over()
    assert world.transaction().producer_epoch == 1


def _values(world: World) -> list[bytes]:
    return [
        bytes(each.value) for batch in world.log.batches for each in iterate_records(batch) if each.value is not None
    ]
