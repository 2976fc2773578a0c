"""What operators ask: which transactions there are, what they hold, and an end to those that hang."""

from typing import Any

import pytest

from tests.compat.transactions.protocol import Producer, Rpc, until
from tidelog.wire.errors import ErrorCode


@pytest.fixture
def producer(rpc: Rpc, name: str) -> Producer:
    return rpc.start(name)


def test_a_transaction_is_described(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    found = rpc.describe(producer.transactional_id)
    assert found.error_code == ErrorCode.NONE
    assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == producer[1:]
    assert found.transaction_start_time_ms > 0
    assert [(entry.topic, entry.partitions) for entry in found.topics] == [(topic, [0])]


def test_an_id_without_a_transaction_has_no_start(rpc: Rpc, producer: Producer) -> None:
    found = rpc.describe(producer.transactional_id)
    assert (found.transaction_state, found.transaction_start_time_ms, found.topics) == ("Empty", -1, [])


def test_an_unknown_id_is_not_found_and_an_empty_one_is_invalid(rpc: Rpc, producer: Producer) -> None:
    assert rpc.describe("unknown").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert rpc.describe("").error_code == ErrorCode.INVALID_REQUEST


def names(answer: object) -> set[str]:
    return {entry.transactional_id for entry in answer.transaction_states}  # type: ignore[attr-defined]


def test_transactions_are_listed_by_state_and_producer(rpc: Rpc, name: str, topic: str) -> None:
    idle, open_ = rpc.start(f"{name}-idle"), rpc.start(f"{name}-open")
    rpc.begin(open_, (topic, 0))
    both = {idle.transactional_id, open_.transactional_id}
    assert names(rpc.list()) >= both
    assert names(rpc.list(state_filters=["Ongoing"])) & both == {open_.transactional_id}
    assert names(rpc.list(state_filters=["Empty", "Ongoing"])) >= both
    assert names(rpc.list(producer_id_filters=[idle.producer_id])) == {idle.transactional_id}
    assert names(rpc.list(producer_id_filters=[idle.producer_id], state_filters=["Ongoing"])) == set()
    assert names(rpc.list(version=0, producer_id_filters=[open_.producer_id])) == {open_.transactional_id}
    rpc.finish(open_, False)


def test_transactions_are_listed_by_age(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    mine: dict[str, Any] = {"producer_id_filters": [producer.producer_id]}
    assert names(rpc.list(duration_filter=3_600_000, **mine)) == set()
    until(lambda: names(rpc.list(duration_filter=50, **mine)) == {producer.transactional_id})


def test_a_state_that_does_not_exist_is_said_to_be_unknown(rpc: Rpc, producer: Producer) -> None:
    answer = rpc.list(state_filters=["Nonsense", "Empty"])
    assert answer.error_code == ErrorCode.NONE
    assert answer.unknown_state_filters == ["Nonsense"]
    assert producer.transactional_id in names(answer)


def test_the_producers_of_a_partition_are_described(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"a", b"b"], producer)
    (found,) = rpc.producers(topic)
    assert (found.producer_id, found.producer_epoch) == producer[1:]
    assert (found.last_sequence, found.current_txn_start_offset) == (1, 0)
    rpc.finish(producer, True)
    (found,) = rpc.producers(topic)
    assert found.current_txn_start_offset == -1


def test_a_transaction_is_ended_by_hand(rpc: Rpc, producer: Producer, topic: str) -> None:
    """What `kafka-transactions.sh abort` does with a transaction that hangs."""
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    assert rpc.write_marker(producer, (topic, 0), False) is ErrorCode.NONE
    assert rpc.fetch(topic).last_stable_offset == 2
    assert rpc.read(topic) == []


def test_a_marker_of_an_earlier_coordinator_is_refused(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    assert rpc.write_marker(producer, (topic, 0), True, coordinator_epoch=5) is ErrorCode.NONE
    code = rpc.write_marker(producer, (topic, 0), True, coordinator_epoch=4)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_of_an_earlier_epoch_is_refused(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    second = rpc.start(producer.transactional_id)
    assert second.epoch > producer.epoch
    assert rpc.write_marker(producer, (topic, 0), True) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_marker_for_a_partition_that_is_not_here_is_refused(rpc: Rpc, producer: Producer) -> None:
    assert rpc.write_marker(producer, ("nowhere", 0), True) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
