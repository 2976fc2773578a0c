"""A member of the newer group protocol on its way to its assignment, against a coordinator that answers by script."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tests.unit import virtual_time
from tests.unit.client.consumer.clusters import metadata_with, topic_id
from tests.unit.client.consumer.network import FakeNetwork
from tidelog.client.aio.consumer.heartbeat_coordinator import HeartbeatCoordinator
from tidelog.client.aio.consumer.listeners import RebalanceListener, call_here
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class World(RebalanceListener):
    """A subscriber of topic t, whose coordinator assigns both partitions and may fence it."""

    def __init__(self) -> None:
        settings = ConsumerSettings(
            group_id="g", group_protocol="consumer", enable_auto_commit=False, retry_backoff_ms=1
        )
        self.network = cast(Any, FakeNetwork(settings, metadata_with({"t": [(1, 0), (1, 0)]})))
        self.network.answers[ConsumerGroupHeartbeatRequest] = self._answer
        self.subscription = SubscriptionState(EARLIEST)
        self.subscription.subscribe(["t"], self)
        self.coordinator = HeartbeatCoordinator(
            self.network,
            settings,
            self.subscription,
            self.subscription.consumed,
            lambda offsets: None,
            call_here,
            lambda: None,
        )
        self.is_fenced = False
        self.diary: list[tuple[str, object]] = []

    def _answer(self, request: ConsumerGroupHeartbeatRequest, _node_id: int) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch == 0:
            self.diary.append(("joins", frozenset(self.subscription.partitions)))
        elif self.is_fenced:
            self.is_fenced = False
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        assigned = Assignment(topic_partitions=[TopicPartitions(topic_id=topic_id("t"), partitions=[0, 1])])
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id or "m", member_epoch=1, heartbeat_interval_ms=10, assignment=assigned
        )

    def on_assigned(self, partitions: Any) -> None:
        self.diary.append(("assigned", frozenset(partitions)))

    def on_revoked(self, partitions: Any) -> None:
        self.diary.append(("revoked", frozenset(partitions)))

    def on_lost(self, partitions: Any) -> None:
        self.diary.append(("lost", frozenset(partitions)))

    async def step_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await self.coordinator.step()
                await asyncio.sleep(0.001)


def test_a_member_that_is_fenced_gives_up_its_partitions_before_it_joins_again() -> None:
    """They may be another member's by then: what it commits for them would be refused, what it reads be read twice."""

    async def main() -> list[tuple[str, object]]:
        world = World()
        await world.step_until(lambda: len(world.diary) == 2)
        world.is_fenced = True
        await world.step_until(lambda: len(world.diary) >= 5)
        world.coordinator.stop_heartbeats()
        return world.diary

    both, none = frozenset((T0, T1)), frozenset[TopicPartition]()
    assert virtual_time.run(main()) == [
        ("joins", none),
        ("assigned", both),
        ("lost", both),
        ("joins", none),
        ("assigned", both),
    ]
