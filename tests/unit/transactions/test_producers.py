"""InitProducerId: who gets a transactional id, with which epoch, and who is fenced by that."""

import pytest

from tests.unit.transactions.world import ID, A, World
from tidelog.coordination import ProducerEpoch
from tidelog.transactions.transaction import EPOCH_MAX
from tidelog.wire.errors import ErrorCode


@pytest.fixture
def world() -> World:
    return World()


def with_epoch(world: World, producer_epoch: int) -> ProducerEpoch:
    """A producer whose epoch has got that far."""
    producer: ProducerEpoch = world.init()
    shard = world.shard
    shard._transactions[ID] = shard._transactions[ID]._replace(producer_epoch=producer_epoch)
    return producer._replace(producer_epoch=producer_epoch)


def test_a_new_id_gets_a_new_producer_id_and_epoch_0(world: World) -> None:
    assert world.init() == ProducerEpoch(1001, 0)
    assert world.init("other") == ProducerEpoch(1002, 0)


def test_asking_again_keeps_the_producer_id_and_raises_the_epoch(world: World) -> None:
    world.init()
    assert world.init() == ProducerEpoch(1001, 1)
    assert world.init() == ProducerEpoch(1001, 2)


def test_the_reply_waits_for_the_record(world: World) -> None:
    world.log.commits_at_once = False
    replies = world.send(lambda shard, now_ms: shard.initialize(ID, 60_000, None, now_ms))
    assert replies == []
    world.log.commit()
    assert replies == [ProducerEpoch(1001, 0)]


def test_the_earlier_producer_is_fenced(world: World) -> None:
    first = world.init()
    world.init()
    assert world.add(first, A) is ErrorCode.PRODUCER_FENCED
    assert world.end(first) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_names_its_epoch_gets_the_next(world: World) -> None:
    first = world.init()
    assert world.init(expected=first) == ProducerEpoch(1001, 1)


def test_a_producer_that_missed_the_answer_may_ask_again(world: World) -> None:
    first = world.init()
    second = world.init(expected=first)
    assert world.init(expected=first) == second
    assert world.init(expected=first) == second


def test_it_may_not_after_another_producer_came(world: World) -> None:
    first = world.init()
    world.init(expected=first)
    world.init()
    assert world.init(expected=first) is ErrorCode.PRODUCER_FENCED


def test_an_epoch_of_the_past_is_fenced(world: World) -> None:
    first = world.init()
    world.init()
    world.init()
    assert world.init(expected=first) is ErrorCode.PRODUCER_FENCED


def test_a_producer_id_of_another_producer_is_fenced(world: World) -> None:
    world.init()
    assert world.init(expected=ProducerEpoch(5, 0)) is ErrorCode.PRODUCER_FENCED


def test_an_id_that_was_forgotten_starts_again_whatever_its_producer_names(world: World) -> None:
    """The producer recovers from an expired id; no other producer can have it."""
    assert world.init(expected=ProducerEpoch(5, 9)) == ProducerEpoch(1001, 0)


def test_an_exhausted_producer_id_is_replaced(world: World) -> None:
    with_epoch(world, EPOCH_MAX - 1)
    assert world.init() == ProducerEpoch(1002, 0)


def test_the_last_epoch_is_given_out(world: World) -> None:
    with_epoch(world, EPOCH_MAX - 2)
    assert world.init() == ProducerEpoch(1001, EPOCH_MAX - 1)


def test_the_answer_to_a_replaced_id_can_be_asked_for_again(world: World) -> None:
    exhausted = with_epoch(world, EPOCH_MAX - 1)
    assert world.init(expected=exhausted) == ProducerEpoch(1002, 0)
    assert world.init(expected=exhausted) == ProducerEpoch(1002, 0)


def test_an_exhausted_id_is_no_way_in_for_its_earlier_producers(world: World) -> None:
    with_epoch(world, EPOCH_MAX - 1)
    assert world.init(expected=ProducerEpoch(1001, 17)) is ErrorCode.PRODUCER_FENCED


def test_fencing_the_last_epoch_leads_to_a_new_producer_id(world: World) -> None:
    exhausted = with_epoch(world, EPOCH_MAX - 1)
    world.add(exhausted, A)
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.transaction().producer_epoch == EPOCH_MAX
    world.write_markers()
    assert world.init() == ProducerEpoch(1002, 0)


def test_an_open_transaction_is_aborted_first_under_an_epoch_that_no_producer_gets(world: World) -> None:
    first = world.begun(A)
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    order = world.orders[0]
    assert (order.producer_epoch, order.is_commit, order.partitions) == (1, False, (A,))
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS, "until the markers are written"
    world.write_markers()
    assert world.init() == ProducerEpoch(first.producer_id, 2)


def test_an_open_transaction_of_its_own_is_aborted_just_as_well(world: World) -> None:
    first = world.begun(A)
    assert world.init(expected=first) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.init(expected=first) is ErrorCode.PRODUCER_FENCED, "its own abort has fenced it, as with Kafka"


def test_a_commit_under_way_is_waited_for(world: World) -> None:
    first = world.begun(A)
    world.end(first)
    assert world.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.init() == ProducerEpoch(1001, 1)


def test_a_refused_record_leaves_everything_as_it_was(world: World) -> None:
    first = world.init()
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refusal = None
    assert world.add(first, A) is ErrorCode.NONE


def test_the_timeout_is_that_of_the_last_producer(world: World) -> None:
    world.init(timeout_ms=1)
    world.init(timeout_ms=9)
    assert world.transaction().timeout_ms == 9
