"""The sender's turns, in the world of `tests/property/client`: no sockets, and time is a number."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.property.client.producer_world import World
from tests.unit.virtual_time import run
from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.errors import ApiError, DeadlinePassed
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.produce import LeaderIdAndEpoch, NodeEndpoint


def in_world(test: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def work() -> None:
        world = World(1, **settings)
        await test(world)
        world.sender.stop()

    run(work())


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    async def test(world: World) -> None:
        await world.send(0, b"first")
        await world.arrive()
        await world.answer()
        for number in range(10):
            await world.send(0, str(number).encode())
        assert world.connection.in_flight == 3
        await world.run_to_the_end()
        assert world.logs[0].values == [b"first", *[str(number).encode() for number in range(10)]]

    in_world(test, batch_size=0, max_in_flight_requests_per_connection=3)


def test_a_new_leader_named_in_the_refusal_is_followed_at_once() -> None:
    """No metadata round trip and no back-off: the refusal says who leads now and where (KIP-951)."""

    async def test(world: World) -> None:
        await world.send(0, b"value")
        world.refusals.append((ErrorCode.NOT_LEADER_OR_FOLLOWER, False))
        await world.arrive()
        reply = world.connection.replies[0].reply
        assert reply is not None
        reply.responses[0].partition_responses[0].current_leader = LeaderIdAndEpoch(leader_id=5, leader_epoch=1)
        reply.node_endpoints = [NodeEndpoint(node_id=5, host="other", port=9)]
        await world.answer()
        assert world.connection.in_flight == 1, "sent again in the same moment"
        assert world.topic_queue.queues[0].leader_id == 5
        assert world.metadata.nodes[5].host == "other"

    in_world(test)


def test_a_refusal_waits_for_its_back_off() -> None:
    async def test(world: World) -> None:
        await world.send(0, b"value")
        world.refusals.append((ErrorCode.NOT_ENOUGH_REPLICAS, False))
        await world.arrive()
        await world.answer()
        assert world.connection.in_flight == 0
        await world.advance(2000)
        assert world.connection.in_flight == 1

    in_world(test, retry_backoff_ms=1000)


def test_records_in_flight_expire_and_their_late_answer_is_passed_over() -> None:
    async def test(world: World) -> None:
        await world.send(0, b"slow")
        await world.arrive()
        await world.advance(120_000)
        (_, delivery) = world.sent[0][0]
        with pytest.raises(DeadlinePassed, match="no response within"):
            delivery.result()
        await world.answer()
        await world.send(0, b"next")
        await world.run_to_the_end()
        assert world.logs[0].values == [b"slow", b"next"]
        assert world.sequence_tracker.identity.epoch == 1, "whether the first was stored could not be known"

    in_world(test)


def test_records_that_were_refused_alone_are_distinguished_from_their_batch() -> None:
    async def test(world: World) -> None:
        world.is_connected = False
        for value in (b"good", b"bad"):
            await world.send(0, value)
        world.is_connected = True
        await world.advance(1)
        world.refusals.append((ErrorCode.INVALID_RECORD, False))
        await world.arrive()
        reply = world.connection.replies[0].reply
        assert reply is not None
        from tidelog.wire.messages.produce import BatchIndexAndErrorMessage

        reply.responses[0].partition_responses[0].record_errors = [
            BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
        ]
        await world.answer()
        good, bad = [delivery.exception() for _, delivery in world.sent[0]]
        assert isinstance(bad, ApiError)
        assert bad.message == "no key"
        assert "because of other records" in str(good)

    in_world(test)


def test_a_defect_ends_the_producer_and_fails_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ProducerBatch, _lend: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(ProducerBatch, "seal", fail)

    async def test(world: World) -> None:
        await world.send(0, b"value")
        (_, delivery) = world.sent[0][0]
        assert isinstance(delivery.exception(), MemoryError)
        assert isinstance(world.sender.fatal, MemoryError)
        assert world.pool.free_bytes == world.pool.total_bytes

    in_world(test)


def test_without_acks_nothing_is_waited_for() -> None:
    async def test(world: World) -> None:
        await world.send(0, b"value")
        (_, delivery) = world.sent[0][0]
        assert delivery.result().offset == -1
        assert len(world.connection.unanswered) == 1

    in_world(test, acks=0)
