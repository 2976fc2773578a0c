"""Connections between brokers: one for each broker and purpose, no retries, one exception for whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.integration.client.fake_broker import CLOSE, HOST, FakeBroker
from tidelog.broker.topology.channels import BrokerChannels, BrokerUnreachable
from tidelog.client.aio.transport import PlainConnector
from tidelog.metadata.tree import Endpoint
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

ASK = AllocateProducerIdsRequest(broker_id=1)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await work
        leftover = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in leftover if "_serve" not in repr(task)], "the channels left tasks behind"

    asyncio.run(limited())


def channels_to(brokers: dict[int, FakeBroker]) -> BrokerChannels:
    def resolve(broker_id: int) -> Endpoint | None:
        broker = brokers.get(broker_id)
        return None if broker is None else Endpoint("INTERNAL", HOST, broker.port)

    return BrokerChannels(
        resolve, lambda _: PlainConnector(), client_id="broker-1", request_timeout_ms=10_000, setup_timeout_ms=5_000
    )


def with_answers(broker: FakeBroker) -> FakeBroker:
    broker.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = lambda _: AllocateProducerIdsResponse(producer_id_start=7)
    broker.answers[ApiKey.LEADER_AND_ISR] = lambda _: LeaderAndIsrResponse()
    return broker


def test_requests_of_one_purpose_share_a_connection_and_other_purposes_have_their_own() -> None:
    async def main() -> None:
        async with with_answers(FakeBroker()) as broker:
            channels = channels_to({1: broker})
            first, second = await asyncio.gather(
                channels.send(1, ASK, purpose="controller"), channels.send(1, ASK, purpose="controller")
            )
            assert first == second == AllocateProducerIdsResponse(producer_id_start=7)
            assert broker.connection_count == 1
            assert isinstance(
                await channels.send(1, LeaderAndIsrRequest(), purpose="control plane"), LeaderAndIsrResponse
            )
            assert broker.connection_count == 2
            await channels.close()

    run(main())


def test_a_broker_that_hangs_up_or_is_not_there_is_unreachable_and_reached_again_later() -> None:
    async def main() -> None:
        broker = with_answers(FakeBroker())
        await broker.start()
        channels = channels_to({1: broker})
        await channels.send(1, ASK, purpose="x")
        answer, broker.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = (
            broker.answers[ApiKey.ALLOCATE_PRODUCER_IDS],
            lambda _: CLOSE,
        )
        with pytest.raises(BrokerUnreachable, match="broker 1"):
            await channels.send(1, ASK, purpose="x")
        await broker.stop()
        with pytest.raises(BrokerUnreachable):
            await channels.send(1, ASK, purpose="x")
        broker.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = answer
        await broker.start()
        await channels.send(1, ASK, purpose="x")
        await channels.close()
        await broker.stop()

    run(main())


def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    async def main() -> None:
        async with with_answers(FakeBroker()) as old, with_answers(FakeBroker()) as new:
            brokers = {1: old}
            channels = channels_to(brokers)
            await channels.send(1, ASK, purpose="x")
            brokers[1] = new
            await channels.send(1, ASK, purpose="x")
            assert (old.connection_count, new.connection_count) == (1, 1)
            await channels.close()

    run(main())


def test_an_unknown_broker_and_closed_channels_are_unreachable() -> None:
    async def main() -> None:
        channels = channels_to({})
        with pytest.raises(BrokerUnreachable, match="its address is not known"):
            await channels.send(5, ASK, purpose="x")
        await channels.close()
        with pytest.raises(BrokerUnreachable, match="stopping"):
            await channels.send(5, ASK, purpose="x")

    run(main())


def test_closing_fails_requests_under_way() -> None:
    async def main() -> None:
        async with FakeBroker() as broker:
            channels = channels_to({1: broker})
            waiting = asyncio.ensure_future(channels.send(1, ASK, purpose="x"))
            while not broker.asked(ApiKey.ALLOCATE_PRODUCER_IDS):
                await asyncio.sleep(0)
            channels.disconnect(1)
            with pytest.raises(BrokerUnreachable):
                await waiting
            await channels.close()

    run(main())
