"""ElectLeaders in a cluster: the answer waits until the image shows the leaders that were elected, or time is up."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from tests.unit import virtual_time
from tests.unit.broker.open_access import OPEN_TO_ALL
from tests.unit.steps import Pauses
from tidelog.broker.handlers import elect_leaders
from tidelog.broker.topology.member import ClusterMember
from tidelog.broker.topology.metadata_waiters import MetadataWaiters
from tidelog.metadata.image import ClusterImage, PartitionImage, TopicImage
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.wire.partitions import TopicPartition

MOVED, FAILED = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    """A broker whose controller elects broker 2 for one partition and none for the other."""

    def __init__(self, controller_seconds: float = 0.0) -> None:
        self.controller_seconds = controller_seconds
        self.image = ClusterImage("cluster")
        self.image.set_topic(
            TopicImage("t", bytes(16), [PartitionImage(each, 1, 0, (1, 2), (1, 2)) for each in (0, 1)])
        )
        self.waiters = MetadataWaiters()
        clock = SimpleNamespace(monotonic_ms=lambda: round(asyncio.get_running_loop().time() * 1000))
        member = SimpleNamespace(controller=self, metadata_waiters=self.waiters, _image=self.image, _clock=clock)
        topology = SimpleNamespace(elect_leaders=partial(ClusterMember.elect_leaders, cast(Any, member)))
        self.context = SimpleNamespace(
            node=SimpleNamespace(image=self.image, topology=topology, clock=clock),
            pause=Pauses().pause,
            **OPEN_TO_ALL,
        )

    async def elect_leaders(self, _partitions: object, _kind: object) -> dict[TopicPartition, int | ApiError]:
        await asyncio.sleep(self.controller_seconds)
        return {MOVED: 2, FAILED: ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)}

    def show(self, leader: int) -> None:
        """UpdateMetadata has come."""
        self.image.set_partition("t", PartitionImage(0, leader, 1, (1, 2), (1, 2)))
        self.waiters.check()

    async def ask(self, timeout_ms: int) -> dict[int, int]:
        request = ElectLeadersRequest(
            topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1])], timeout_ms=timeout_ms
        )
        response: ElectLeadersResponse = await elect_leaders.handle(request, cast(Any, self.context))
        (topic,) = response.replica_election_results
        return {each.partition_id: each.error_code for each in topic.partition_result}


def test_the_answer_waits_until_the_image_shows_the_new_leader() -> None:
    async def main() -> None:
        world = World()
        asking = asyncio.ensure_future(world.ask(10_000))
        await asyncio.sleep(5)
        assert not asking.done()
        world.show(1)
        await asyncio.sleep(1)
        assert not asking.done(), "another leader was elected"
        world.show(2)
        assert await asking == {0: ErrorCode.NONE, 1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}

    virtual_time.run(main())


def test_a_leader_that_is_not_shown_in_time_is_a_timeout_and_the_others_keep_their_outcome() -> None:
    async def main() -> None:
        world = World()
        assert await world.ask(3_000) == {
            0: ErrorCode.REQUEST_TIMED_OUT,
            1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        }

    virtual_time.run(main())


def test_the_time_that_the_controller_takes_counts() -> None:
    async def main() -> None:
        world = World(controller_seconds=2.0)
        began = asyncio.get_running_loop().time()
        assert (await world.ask(3_000))[0] == ErrorCode.REQUEST_TIMED_OUT
        assert asyncio.get_running_loop().time() - began < 3.1

    virtual_time.run(main())
