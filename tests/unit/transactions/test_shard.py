"""A transaction from its first partition to its end, and everything that can come in between."""

import pytest

from tests.unit.transactions.world import ID, A, B, C, World
from tidelog.coordination import ProducerEpoch
from tidelog.transactions import TransactionSettings
from tidelog.wire.errors import ApiError, ErrorCode

STRANGER = ProducerEpoch(1, 0)


@pytest.fixture
def world() -> World:
    return World()


# --- partitions ---


def test_the_first_partition_begins_the_transaction(world: World) -> None:
    producer = world.init()
    world.clock.advance(5)
    assert world.add(producer, A) is ErrorCode.NONE
    transaction = world.transaction()
    assert world.state() == "Ongoing"
    assert transaction.start_ms == transaction.updated_ms == world.clock.wall_ms()


def test_more_partitions_do_not_begin_it_again(world: World) -> None:
    producer = world.begun(A)
    began_ms = world.transaction().start_ms
    world.clock.advance(5)
    world.add(producer, B, C)
    assert world.transaction().partitions == {A, B, C}
    assert world.transaction().start_ms == began_ms


def test_a_partition_that_is_in_it_already_costs_no_record(world: World) -> None:
    producer = world.begun(A, B)
    before = len(world.log.batches)
    assert world.add(producer, B) is ErrorCode.NONE
    assert len(world.log.batches) == before


def test_an_unknown_id_and_a_strange_producer_id_are_no_mapping(world: World) -> None:
    assert world.add(STRANGER, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.init()
    assert world.add(STRANGER, A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(STRANGER) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_epoch_from_the_future_is_fenced_too(world: World) -> None:
    producer = world.begun(A)
    assert world.end(producer._replace(producer_epoch=9)) is ErrorCode.PRODUCER_FENCED


def test_no_partition_joins_a_transaction_that_is_being_ended(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    assert world.add(producer, B) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.add(producer, A) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_the_next_transaction_begins_without_the_partitions_of_the_last(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    world.write_markers()
    world.add(producer, B)
    assert world.transaction().partitions == {B}


# --- verification ---


def test_verification_distinguishes_partitions_of_the_transaction_from_others(world: World) -> None:
    producer = world.begun(A)
    assert world.shard.verify(ID, producer, (A, B)) == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("is_commit", [True, False])
def test_verification_of_a_transaction_that_is_being_ended_is_to_be_repeated(world: World, is_commit: bool) -> None:
    producer = world.begun(A)
    world.end(producer, is_commit)
    with pytest.raises(ApiError) as refused:
        world.shard.verify(ID, producer, (A,))
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_after_the_end_nothing_is_verified_any_more(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    world.write_markers()
    assert world.shard.verify(ID, producer, (A,)) == {A: ErrorCode.TRANSACTION_ABORTABLE}


def test_a_fenced_producer_is_not_verified(world: World) -> None:
    producer = world.begun(A)
    world.init()
    with pytest.raises(ApiError) as refused:
        world.shard.verify(ID, producer, (A,))
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


# --- two phases ---


@pytest.mark.parametrize(("is_commit", "prepared", "complete"), [
    (True, "PrepareCommit", "CompleteCommit"),
    (False, "PrepareAbort", "CompleteAbort"),
])  # fmt: skip
def test_the_outcome_is_decided_then_marked_then_complete(
    world: World, is_commit: bool, prepared: str, complete: str
) -> None:
    producer = world.begun(A, B)
    assert world.end(producer, is_commit) is ErrorCode.NONE
    assert world.state() == prepared
    order = world.take_order()
    assert (order.producer_id, order.producer_epoch, order.is_commit) == (*producer, is_commit)
    assert order.partitions == (A, B)
    world.report(order, A)
    assert world.state() == prepared, "one partition does not know yet"
    world.report(order, B)
    assert world.state() == complete
    assert world.transaction().partitions == frozenset()
    assert [entry.state.value for entry in world.completed] == [complete]


def test_no_marker_and_no_answer_goes_out_before_the_decision_is_committed(world: World) -> None:
    producer = world.begun(A)
    world.log.commits_at_once = False
    replies = world.send(lambda shard, now_ms: shard.end(ID, producer, True, now_ms))
    assert (replies, world.orders) == ([], [])
    world.log.commit()
    assert replies == [producer]
    assert world.orders[0].partitions == (A,)


def test_a_decision_that_the_log_refuses_was_none(world: World) -> None:
    producer = world.begun(A)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.end(producer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.advance(10_000)
    assert (world.state(), world.orders) == ("Ongoing", [])
    world.log.refusal = None
    assert world.end(producer, False) is ErrorCode.NONE, "it may even be another"


def test_a_decision_of_unknown_fate_is_written_again_until_it_is_known(world: World) -> None:
    """It is in the log, so it may survive: going back to Ongoing could end the transaction both ways."""
    producer = world.begun(A)
    world.log.commits_at_once = False
    replies = world.send(lambda shard, now_ms: shard.end(ID, producer, True, now_ms))
    world.log.commit(ErrorCode.REQUEST_TIMED_OUT)
    assert [reply.code for reply in replies] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (world.state(), world.orders) == ("PrepareCommit", [])
    world.advance(world.settings.retry_backoff_ms)
    world.log.commit()
    assert world.take_order().is_commit


def test_ending_it_again_the_same_way_is_no_error(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    assert world.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    assert world.end(producer) is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", [True, False])
def test_ending_it_the_other_way_is_an_error(world: World, is_commit: bool) -> None:
    producer = world.begun(A)
    world.end(producer, is_commit)
    assert world.end(producer, not is_commit) is ErrorCode.INVALID_TXN_STATE
    world.write_markers()
    assert world.end(producer, not is_commit) is ErrorCode.INVALID_TXN_STATE


def test_there_is_nothing_to_end_before_the_first_partition(world: World) -> None:
    producer = world.init()
    assert world.end(producer, True) is ErrorCode.INVALID_TXN_STATE
    assert world.end(producer, False) is ErrorCode.INVALID_TXN_STATE


# --- markers ---


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_marker_that_cannot_be_written_is_tried_until_it_can(world: World, code: ErrorCode) -> None:
    producer = world.begun(A, B)
    world.end(producer)
    order = world.take_order()
    world.report(order, A)
    world.report(order, B, code)
    for _ in range(3):
        assert world.orders == []
        world.advance(world.settings.retry_backoff_ms)
        again = world.take_order()
        assert again.partitions == (B,), "the other has its marker"
        world.report(again, B, code)
    world.advance(world.settings.retry_backoff_ms)
    world.report(world.take_order(), B)
    assert world.state() == "CompleteCommit"


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_coordinator_that_has_been_replaced_leaves_the_end_to_the_next(world: World, code: ErrorCode) -> None:
    producer = world.begun(A, B)
    world.end(producer)
    order = world.take_order()
    world.report(order, A, code)
    world.report(order, B)
    world.advance(60_000)
    assert (world.state(), world.orders) == ("PrepareCommit", [])


def test_a_log_without_transactions_needs_no_marker(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    world.report(world.take_order(), A, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    assert world.state() == "CompleteCommit"


def test_news_of_markers_of_an_earlier_transaction_is_ignored(world: World) -> None:
    producer = world.begun(A)
    world.end(producer, False)
    late = world.take_order()
    world.report(late, A)
    world.add(producer, A)
    world.end(producer, True)
    world.report(late, A)
    assert world.state() == "PrepareCommit"


def test_a_completion_that_the_log_refuses_is_written_again(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.write_markers()
    world.advance(world.settings.retry_backoff_ms)
    assert world.state() == "PrepareCommit"
    world.log.refusal = None
    world.advance(world.settings.retry_backoff_ms)
    assert world.state() == "CompleteCommit"
    assert world.orders == [], "the markers are there"


# --- the next life ---


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_was_decided_is_carried_out_by_the_coordinator_that_loads_the_log(world: World, is_commit: bool) -> None:
    producer = world.begun(A, B)
    world.end(producer, is_commit)
    world.report(world.take_order(), A)
    world.fail_over()
    order = world.orders[0]
    assert order.partitions == (A, B), "which of them were written is not known"
    assert (order.is_commit, order.coordinator_epoch) == (is_commit, 1)
    world.write_markers()
    assert world.state() == ("CompleteCommit" if is_commit else "CompleteAbort")


def test_an_open_transaction_stays_open_over_a_fail_over(world: World) -> None:
    producer = world.begun(A)
    world.fail_over()
    assert world.orders == []
    assert world.add(producer, B) is ErrorCode.NONE
    assert world.end(producer) is ErrorCode.NONE
    assert world.take_order().partitions == (A, B)


def test_an_open_transaction_times_out_after_a_fail_over_too(world: World) -> None:
    world.begun(A, timeout_ms=1_000)
    world.fail_over()
    world.advance(20_000)
    assert world.state() == "PrepareAbort"


def test_a_record_that_cannot_be_read_is_passed_over(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.shard.replay(b"\x00\x00\x00\x01x", b"\x00\x00", -1, -1)
    assert world.shard.get("x") is None
    assert "is skipped" in caplog.text


def test_markers_of_a_partition_that_was_given_up_are_ignored(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    order = world.take_order()
    world.runtime.unload(0)
    world.report(order, A)
    world.load()
    assert world.state() == "PrepareCommit"


# --- time ---


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(world: World) -> None:
    producer = world.begun(A, timeout_ms=15_000)
    world.advance(10_000)
    assert world.state() == "Ongoing"
    world.advance(10_000)
    assert world.state() == "PrepareAbort"
    assert world.end(producer) is ErrorCode.PRODUCER_FENCED
    world.write_markers()
    assert world.state() == "CompleteAbort"
    assert world.add(producer, A) is ErrorCode.PRODUCER_FENCED
    assert world.init() == ProducerEpoch(producer.producer_id, 2)


def test_the_timeout_counts_from_the_first_partition(world: World) -> None:
    producer = world.init(timeout_ms=1_000)
    world.advance(60_000)
    world.add(producer, A)
    assert world.state() == "Ongoing"
    world.advance(10_000)
    assert world.state() == "PrepareAbort"


def test_a_transaction_that_ends_in_time_is_left_alone(world: World) -> None:
    producer = world.begun(A, timeout_ms=1_000)
    world.end(producer)
    world.write_markers()
    world.advance(100_000)
    assert world.state() == "CompleteCommit"


def test_without_open_transactions_nothing_is_searched(world: World) -> None:
    producer = world.begun(A)
    world.end(producer)
    world.write_markers()
    world.advance(10_000)
    assert len(world.timer) == 1, "only the search for unused ids, once an hour"


def test_the_search_goes_on_after_a_refusal(world: World) -> None:
    world.begun(A, timeout_ms=1_000)
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(10_000)
    assert world.state() == "Ongoing"
    world.log.refusal = None
    world.advance(10_000)
    assert world.state() == "PrepareAbort"


def test_very_many_late_transactions_are_aborted_in_pieces(world: World) -> None:
    for number in range(1_100):
        name = f"t{number}"
        producer = world.init(name, timeout_ms=1)
        world.add(producer, A, transactional_id=name)
    before = len(world.log.batches)
    world.advance(10_000)
    for _ in range(3):
        world.advance(1)
    assert {world.state(f"t{number}") for number in range(1_100)} == {"PrepareAbort"}
    assert len(world.log.batches) - before == 3


def test_an_unused_id_is_forgotten() -> None:
    world = World(TransactionSettings(id_expiration_ms=86_400_000))
    world.init()
    producer = world.init("kept")
    world.add(producer, A, transactional_id="kept")
    for _ in range(25):
        world.advance(3_600_000)
    assert world.shard.get(ID) is None
    assert world.shard.get("kept") is not None, "its transaction was open, and then aborted, in the meantime"
    world.load()
    assert world.shard.get(ID) is None
    assert world.init() == ProducerEpoch(1003, 0)


def test_ids_are_forgotten_although_the_log_refused_once() -> None:
    world = World(TransactionSettings(id_expiration_ms=1))
    world.init()
    world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(3_600_000)
    assert world.shard.get(ID) is not None
    world.log.refusal = None
    world.advance(3_600_000)
    assert world.shard.get(ID) is None
