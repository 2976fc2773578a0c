"""A coordinator of streams groups around a log in memory, and members that behave as Kafka Streams does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.unit.groups.consumer_world import Topics
from tests.unit.groups.world import Call, Log
from tidelog.coordination import CoordinatorRuntime
from tidelog.groups import GroupSettings, GroupShard
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.streams.service import StreamsSettings
from tidelog.groups.streams.topology import InternalTopic, StatusCode
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

GROUP = "app"
Tasks = set[tuple[str, int]]


def word_count(epoch: int = 0) -> Topology:
    """`0` reads `t` and writes to a repartition topic, `1` reads that and keeps state."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["t"], repartition_sink_topics=["app-r"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="app-r")],
                state_changelog_topics=[TopicInfo(name="app-c")],
            ),
        ],
    )


class StreamsWorld:
    """One shard, its clock, its log, and the topic `t` with four partitions; internal topics are created when asked."""

    def __init__(self, **settings: Any) -> None:
        self.settings = StreamsSettings(**{"initial_delay_ms": 0, "assignment_interval_ms": 0, **settings})
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = Log()
        self.topics = Topics()
        self.topics.put("t", 4)
        self.creates_topics = True
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            lambda partition: GroupShard(
                partition, GroupSettings(), lambda: "m", self.topics, None, None, lambda _group_id: self.settings
            ),
            self.log.append,
            self.log.await_commit,
            self.clock,
            self.timer,
        )
        self.runtime.load(0, [])

    def advance(self, by_ms: int) -> None:
        end_ms = self.clock.monotonic_ms() + by_ms
        while (next_ms := self.timer.next_expiry_ms()) is not None and next_ms <= end_ms:
            self.clock.advance(max(0, next_ms - self.clock.monotonic_ms()))
            self.timer.advance(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def restart(self) -> None:
        self.runtime.load(0, list(self.log.batches))

    @property
    def shard(self) -> GroupShard:
        return self.runtime.shard(0)

    @property
    def group(self) -> StreamsGroup:
        found = self.shard.group(GROUP)
        assert found is not None
        assert found.streams is not None
        return found.streams

    def execute(self, operation: Any) -> Call:
        call = Call()
        self.runtime.execute(0, operation, call)
        return call

    def settle(self, *members: StreamsMember, rounds: int = 8) -> None:
        for _ in range(rounds):
            for member in members:
                member.beat()


class StreamsMember:
    """A thread of an application: it gives up at once what it is to give up, and reports what it has."""

    def __init__(self, world: StreamsWorld, member_id: str, process_id: str | None = None, **fields: Any) -> None:
        self.world = world
        self.member_id = member_id
        self.fields = {"topology": word_count(), "process_id": process_id or member_id, **fields}
        self.epoch = 0
        self.active: Tasks = set()
        self.standby: Tasks = set()
        self.code = ErrorCode.NONE
        self.message: str | None = None
        self.status: dict[StatusCode, str] = {}
        self.missing: tuple[InternalTopic, ...] = ()
        self.response: StreamsGroupHeartbeatResponse | None = None
        self.is_slow = False
        """It does not do yet what it was told."""
        self.told: tuple[Tasks, Tasks] = (set(), set())

    def beat(self, epoch: int | None = None, **fields: Any) -> StreamsMember:
        epoch = self.epoch if epoch is None else epoch
        joins = epoch == 0
        if joins:
            self.active, self.standby = self.told = set(), set()
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, rebalance_timeout_ms=30_000 if joins else -1
        )
        if epoch >= 0:
            request.active_tasks, request.standby_tasks = _listed(self.active), _listed(self.standby)
            request.warmup_tasks = []
        for name, value in {**(self.fields if joins else {}), **fields}.items():
            setattr(request, name, value)
        call = self.world.execute(
            lambda shard, now_ms: shard.streams_heartbeat(request, "client", "/127.0.0.1", now_ms)
        )
        [outcome] = call.outcomes
        self.code, self.message = ErrorCode.NONE, None
        if isinstance(outcome, ApiError):
            self.code, self.message = outcome.code, outcome.message
            return self
        self._take(call.reply.response)
        self.missing = call.reply.missing
        if self.world.creates_topics:
            for topic in self.missing:
                self.world.topics.put(topic.name, topic.partition_count)
        return self

    def _take(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.response = response
        self.epoch = response.member_epoch
        self.status = {StatusCode(each.status_code): each.status_detail for each in response.status or ()}
        if response.active_tasks is not None:
            self.told = _ids(response.active_tasks), _ids(response.standby_tasks or [])
        if not self.is_slow:
            self.active, self.standby = self.told


def _listed(tasks: Tasks) -> list[TaskIds]:
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in found.items()]


def _ids(listed: Iterable[TaskIds]) -> Tasks:
    return {(entry.subtopology_id, partition) for entry in listed for partition in entry.partitions}
