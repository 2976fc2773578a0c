"""A coordinator of consumer groups around a log in memory, and members that behave as clients do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.unit.groups.world import GROUP, Call, Log
from tidelog.coordination import CoordinatorRuntime
from tidelog.groups import ConsumerTimeouts, GroupSettings, GroupShard
from tidelog.groups.consumer.checks import Asker
from tidelog.groups.consumer.group import ConsumerGroup, TopicFilter, TopicInfo
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from tests.unit.groups.mixed_world import MixedWorld

REBALANCE_MS = 30_000
Partitions = set[tuple[str, int]]


class Topics:
    """A catalog that tests change."""

    def __init__(self) -> None:
        self.version = 0
        self._topics: dict[str, TopicInfo] = {}

    def put(self, name: str, partitions: int) -> None:
        self.version += 1
        self._topics[name] = TopicInfo(topic_id(name), partitions)

    def remove(self, name: str) -> None:
        self.version += 1
        del self._topics[name]

    def topic(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def names(self) -> Iterable[str]:
        return list(self._topics)


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def topic_name(identity: bytes) -> str:
    return identity.rstrip(b"\0").decode()


class ConsumerWorld:
    """One shard, its clock, its log, and the topics `t` (6 partitions) and `u` (2)."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**settings)
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = Log()
        self.topics = Topics()
        self.topics.put("t", 6)
        self.topics.put("u", 2)
        self.timeouts: dict[str, ConsumerTimeouts] = {}
        """Of groups that have their own."""
        self._ids = count(1)
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            lambda partition: GroupShard(
                partition, self.settings, lambda: f"m{next(self._ids)}", self.topics, self._timeouts_of
            ),
            self.log.append,
            self.log.await_commit,
            self.clock,
            self.timer,
        )
        self.runtime.load(0, [])

    def _timeouts_of(self, group_id: str) -> ConsumerTimeouts:
        return self.timeouts.get(group_id, self.settings.consumer_timeouts)

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
    def group(self) -> ConsumerGroup:
        found = self.shard.group(GROUP)
        assert found is not None
        assert found.consumer is not None
        return found.consumer

    def send(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        gives_own_id: bool = False,
        topic_filter: TopicFilter | None = None,
    ) -> Call:
        call = Call()
        asker = Asker("client", "/127.0.0.1", gives_own_id, topic_filter)
        self.runtime.execute(0, lambda shard, now_ms: shard.consumer_heartbeat(request, asker, now_ms), call)
        return call


class Client:
    """A member as a client library has it: it revokes and takes assigned partitions one heartbeat later."""

    def __init__(
        self,
        world: ConsumerWorld | MixedWorld,
        topics: Iterable[str] = ("t",),
        *,
        instance_id: str | None = None,
        assignor: str | None = None,
        regex: str | None = None,
    ) -> None:
        self.world = world
        self.topics = list(topics)
        self.instance_id = instance_id
        self.assignor = assignor
        self.regex = regex
        self.member_id = ""
        self.epoch = 0
        self.owned: Partitions = set()
        self.code = ErrorCode.NONE
        self.interval_ms = 0

    def join(self) -> Client:
        self.epoch, self.owned = 0, set()
        self._take(self.world.send(self.full()))
        return self

    def full(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=self.topics,
            subscribed_topic_regex=self.regex,
            server_assignor=self.assignor,
            topic_partitions=_listed(self.owned),
        )

    def beat(self, *, is_full: bool = False, says_owned: bool = True) -> Client:
        """Send a heartbeat, by default with what it owns, and apply the response."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            topic_partitions=_listed(self.owned) if says_owned else None,
        )
        self._take(self.world.send(self.full() if is_full else request))
        return self

    def subscribe(self, *topics: str) -> Client:
        self.topics = list(topics)
        return self.beat(is_full=True)

    def leave(self, epoch: int = -1) -> ErrorCode:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        return self.world.send(request).code

    def _take(self, call: Call) -> None:
        self.code = call.code
        if self.code is not ErrorCode.NONE:
            return
        reply: ConsumerGroupHeartbeatResponse = call.reply
        self.member_id, self.epoch = reply.member_id or "", reply.member_epoch
        self.interval_ms = reply.heartbeat_interval_ms
        if reply.assignment is not None:
            self.owned = {
                (topic_name(entry.topic_id), partition)
                for entry in reply.assignment.topic_partitions
                for partition in entry.partitions
            }


def _listed(owned: Partitions) -> list[TopicPartitions]:
    names = sorted({name for name, _ in owned})
    return [
        TopicPartitions(topic_id=topic_id(name), partitions=sorted(p for other, p in owned if other == name))
        for name in names
    ]


def settle(*clients: Client) -> None:
    """Heartbeats until nothing changes any more."""
    for _ in range(10):
        before = [(client.epoch, set(client.owned)) for client in clients]
        for client in clients:
            client.beat()
        if before == [(client.epoch, client.owned) for client in clients]:
            return
    raise AssertionError("members do not settle")
