"""A controller at work on a loop: elected, asked, expired and stopped."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine
from typing import Any

import pytest

from tidelog.broker.surroundings import Surroundings, SystemClock
from tidelog.broker.topology.control_channel import ControlChannels
from tidelog.broker.topology.controller_service import ControllerService, settings_of
from tidelog.config import load_broker_config
from tidelog.controller.events import ElectionType, Expire
from tidelog.metadata import paths
from tidelog.metadata.errors import StoreUnavailableError
from tidelog.metadata.registration import prepare_tree, register_broker
from tidelog.metadata.store_queue import StoreQueue
from tidelog.metadata.tree import (
    BrokerRegistration,
    Endpoint,
    ReplicaAssignment,
    TopicAssignment,
    decode_controller,
    encode_topic,
)
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.timing import Scheduler, Timer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from tidelog.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tidelog.wire.partitions import TopicPartition
from tidelog.wire.schema import Message

RESPONSES: dict[type[Message], type[Message]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse,
    UpdateMetadataRequest: UpdateMetadataResponse,
    StopReplicaRequest: StopReplicaResponse,
}


class AgreeingChannels:
    """Brokers that agree with everything."""

    async def send(self, broker_id: int, request: Message, *, purpose: str, timeout_ms: int | None = None) -> Message:
        return RESPONSES[type(request)]()

    def disconnect(self, broker_id: int, purpose: str | None = None) -> None:
        return


class Broker:
    """What a broker has for its controller."""

    def __init__(self, broker_id: int, tree: MemoryTree) -> None:
        self.broker_id = broker_id
        self.store: MemoryStore = tree.connect()
        prepare_tree(self.store)
        self.epoch = 0
        self.registrations = 0
        self.lost_answers = 0
        self._register(self.store)
        loop = asyncio.get_running_loop()
        clock = SystemClock()
        self.metadata = StoreQueue(loop, self.store)
        self.service = ControllerService(
            broker_id,
            load_broker_config({"log.dirs": "/nowhere"}),
            self.metadata,
            ControlChannels(broker_id, ("PLAINTEXT",), AgreeingChannels(), None, timeout_ms=1000),
            dataclasses.replace(Surroundings.of_this_machine(), clock=clock),
            Scheduler(Timer(clock.monotonic_ms()), clock),
            _no_pause,
            self.register,
        )
        self.service.start(self.store)

    def _register(self, store: Any) -> None:
        self.registrations += 1
        endpoints = (Endpoint("PLAINTEXT", "localhost", 9092),)
        epoch = register_broker(store, BrokerRegistration(self.broker_id, endpoints))
        if self.lost_answers:
            self.lost_answers -= 1
            raise StoreUnavailableError("no answer")
        self.epoch = epoch

    async def register(self) -> None:
        await self.metadata.run(self._register)

    async def stop(self) -> None:
        await self.service.stop()
        await self.metadata.close()


async def _no_pause() -> None:
    return


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await work
        assert asyncio.all_tasks() == {asyncio.current_task()}, "the controller left tasks behind"

    asyncio.run(limited())


def test_a_controller_is_elected_answers_and_gives_way() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first = Broker(1, tree)
        await until(lambda: first.service.is_active)
        second = Broker(2, tree)
        await until(lambda: len(first.service.controller.context.live_brokers) == 2)
        admin = tree.connect()
        topic = TopicAssignment(bytes(range(16)), (ReplicaAssignment((1, 2)),))
        admin.create(paths.topic("orders"), encode_topic(topic))
        orders = TopicPartition("orders", 0)
        await until(lambda: orders in first.service.controller.context.leaderships)

        assert await first.service.list_reassignments(None) == {}
        assert (await first.service.allocate_producer_ids(2, second.epoch)).last == 999
        assert await first.service.shut_down(1, first.epoch) == []
        assert first.service.controller.context.leaderships[orders].leader == 2
        outcome = await first.service.elect_leaders((orders,), ElectionType.PREFERRED)
        refusal = outcome[orders]
        assert isinstance(refusal, ApiError)
        assert refusal.code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

        with pytest.raises(ApiError) as caught:
            await second.service.alter_reassignments({orders: None})
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        response = await second.service.alter_partition(AlterPartitionRequest(broker_id=2), 3)
        assert response.error_code == ErrorCode.NOT_CONTROLLER

        await first.stop()
        await until(lambda: orders in second.service.controller.context.leaderships)
        assert second.service.controller.epoch == 2
        assert second.service.controller.context.leaderships[orders].leader == 2
        await second.stop()
        assert admin.exists(paths.CONTROLLER) is None

    run(main())


def test_a_session_that_ends_registers_the_broker_again_before_the_next_election() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = Broker(1, tree)
        await until(lambda: broker.service.is_active)
        epoch = broker.epoch
        broker.store.expire()
        await until(lambda: broker.service.is_active and broker.service.controller.epoch == 2)
        assert broker.registrations == 2
        assert broker.epoch > epoch
        admin = tree.connect()
        assert decode_controller(admin.get(paths.CONTROLLER)[0]) == 1
        await until(lambda: broker.service.controller.context.broker_epoch(1) == broker.epoch)
        await broker.stop()

    run(main())


def test_a_registration_that_the_tree_did_not_answer_is_repeated() -> None:
    """It may be in the tree: then the controller knows an epoch that the broker does not, and refuses its requests."""

    async def main() -> None:
        tree = MemoryTree()
        broker = Broker(1, tree)
        await until(lambda: broker.service.is_active)
        broker.lost_answers = 2
        broker.store.expire()
        await until(lambda: broker.service.is_active and broker.service.controller.epoch == 2)
        assert broker.registrations == 4
        stat = tree.connect().exists(paths.broker(1))
        assert stat is not None
        assert broker.epoch == stat.czxid
        await broker.stop()

    run(main())


def test_requests_that_wait_when_the_session_ends_are_refused() -> None:
    async def main() -> None:
        broker = Broker(1, MemoryTree())
        await until(lambda: broker.service.is_active)
        question = asyncio.ensure_future(broker.service.list_reassignments(None))
        await asyncio.sleep(0)
        broker.service._queue.clear_and_put(Expire())
        with pytest.raises(ApiError) as caught:
            await question
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        await broker.stop()

    run(main())


def test_the_settings_of_a_controller_are_the_broker_s() -> None:
    config = load_broker_config(
        {
            "log.dirs": "/nowhere",
            "auto.leader.rebalance.enable": "false",
            "leader.imbalance.per.broker.percentage": "20",
            "leader.imbalance.check.interval.seconds": "30",
            "delete.topic.enable": "false",
            "unclean.leader.election.enable": "true",
        }
    )
    settings = settings_of(config)
    assert not settings.auto_leader_rebalance_enable
    assert settings.leader_imbalance_per_broker_percentage == 20
    assert settings.leader_imbalance_check_interval_seconds == 30
    assert not settings.delete_topic_enable
    assert settings.unclean_leader_election_enable
    assert settings.inter_broker_listener == "PLAINTEXT"
