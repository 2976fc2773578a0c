"""The edge of a coordinator finds the shard of a key; it returns a response, or a reply that has it later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.configuration.current import CurrentSettings
from tidelog.broker.coordinators.edge import CoordinatorEdge, EdgeParts
from tidelog.broker.coordinators.replies import Reply, settled
from tidelog.broker.topology.internal_topics import TRANSACTIONS
from tidelog.config.layers import ConfigLayers
from tidelog.coordination import Decision, partition_for
from tidelog.metadata.image import ClusterImage, PartitionImage, TopicImage
from tidelog.wire.errors import ApiError, ErrorCode

COUNT = 3


class Runtime:
    """Decides at once, and answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.waiting: list[tuple[Callable[[Any], None], Any]] = []
        self.is_committed = True
        self.unloaded: list[int] = []

    def execute(self, partition: int, operation: Callable[[Any, int], Decision[Any]], respond: Any) -> None:
        self.asked.append(partition)
        reply = operation(self, 0).reply
        if self.is_committed:
            respond(reply)
        else:
            self.waiting.append((respond, reply))

    def active_partitions(self) -> list[int]:
        return [0]

    def loading_partitions(self) -> list[int]:
        return []

    def shard(self, partition: int) -> str:
        return f"shard {partition}"

    def unload(self, partition: int) -> None:
        self.unloaded.append(partition)

    def unload_all(self) -> None:
        self.unload(-1)


class World:
    def __init__(self, leaders: tuple[int, ...] = (1, 2, -1)) -> None:
        self.image = ClusterImage("cluster")
        partitions = [PartitionImage(index, leader, 0, (1, 2), (1, 2)) for index, leader in enumerate(leaders)]
        self.topic = TopicImage(TRANSACTIONS.name, bytes(16), partitions)
        self.wakes = 0
        self.runtime = Runtime()
        nothing: Any = None
        parts = EdgeParts(
            settings=CurrentSettings(ConfigLayers({})),
            image=self.image,
            replica_manager=nothing,
            clock=nothing,
            timer=nothing,
            slices=nothing,
            background=nothing,
            wake=self._wake,
        )
        self.edge: CoordinatorEdge[Any] = CoordinatorEdge(TRANSACTIONS, parts, lambda _edge: cast(Any, self.runtime))

    def _wake(self) -> None:
        self.wakes += 1

    def key_in(self, partition: int) -> str:
        return next(key for key in map(str, range(100)) if partition_for(key, COUNT) == partition)


def decide(_shard: Any, _respond: Any, _now_ms: int) -> Decision[str]:
    return Decision("decided")


def test_a_key_has_the_partition_that_the_topic_has_or_will_have() -> None:
    world = World()
    assert world.edge.partition_of("key") == partition_for("key", 50), "as many as the setting says"
    world.image.set_topic(world.topic)
    assert world.edge.partition_of("key") == partition_for("key", COUNT)
    assert world.edge.waits_for_followers


@pytest.mark.parametrize(("partition", "found"), [(0, 1), (1, 2), (2, ErrorCode.COORDINATOR_NOT_AVAILABLE)])
def test_the_leader_of_its_partition_coordinates_a_key(partition: int, found: int) -> None:
    world = World()
    key = world.key_in(partition)
    with pytest.raises(ApiError):
        world.edge.find(key)
    world.image.set_topic(world.topic)
    if isinstance(found, ErrorCode):
        with pytest.raises(ApiError) as refused:
            world.edge.find(key)
        assert refused.value.code is found
    else:
        assert world.edge.find(key) == found


def test_a_response_that_is_there_is_returned_and_another_comes_with_a_reply() -> None:
    world = World()
    world.image.set_topic(world.topic)
    assert world.edge.built is None, "the cores are not imported before their first use"
    assert world.edge.call(world.key_in(1), decide, str.upper) == "DECIDED"
    assert world.runtime.asked == [1]
    assert world.wakes == 1, "what was staged is written at the end of the turn"
    world.runtime.is_committed = False

    async def later() -> str:
        found = world.edge.call(world.key_in(0), decide, str.upper)
        assert isinstance(found, Reply)
        ((respond, reply),) = world.runtime.waiting
        asyncio.get_running_loop().call_soon(respond, reply)
        return await settled(found)

    assert asyncio.run(later()) == "DECIDED"


def test_a_stopped_edge_refuses_and_unloads_what_it_had() -> None:
    world = World()
    world.image.set_topic(world.topic)
    key = world.key_in(0)
    assert world.edge.shard_of(key) == "shard 0"
    world.edge.resign("another topic", 0)
    world.edge.resign(TRANSACTIONS.name, 2)
    world.edge.stop()
    assert world.runtime.unloaded == [2, -1]
    assert cast(ApiError, world.edge.call(key, decide, lambda outcome: outcome)).code is (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    for ask in (world.edge.find, world.edge.shard_of):
        with pytest.raises(ApiError) as refused:
            ask(key)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.runtime.asked == []


def test_leaderships_of_other_topics_are_none_of_its_business() -> None:
    world = World()
    world.edge.lead(cast(Any, SimpleNamespace(topic="another topic", index=0)))
    assert world.edge.built is None
