"""A coordinator of groups whose members speak either protocol, and classic members that behave as clients do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.unit.groups.consumer_world import Client, Partitions, Topics
from tests.unit.groups.world import REBALANCE_MS, SESSION_MS, Call, World
from tidelog.client.aio.consumer.protocol import Subscription, encode_subscription
from tidelog.client.types import TopicPartition
from tidelog.coordination import CoordinatorRuntime
from tidelog.groups import ConsumerTimeouts, GroupShard
from tidelog.groups.consumer.checks import Asker
from tidelog.groups.consumer.embedded import read_assignment, read_subscription, write_assignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupResponse

EAGER, COOPERATIVE = "range", "cooperative-sticky"
BOTH_WAYS = {"can_upgrade": True, "can_downgrade": True, "consumer_timeouts": ConsumerTimeouts(SESSION_MS, 5_000)}


class MixedWorld(World):
    """One shard with the topics `t` (6 partitions) and `u` (2); groups may change their protocol both ways."""

    def __init__(self, **settings: int) -> None:
        super().__init__(**{**BOTH_WAYS, **settings})
        self.topics = Topics()
        self.topics.put("t", 6)
        self.topics.put("u", 2)
        self.runtime = CoordinatorRuntime(
            lambda partition: GroupShard(partition, self.settings, lambda: f"m{next(self._ids)}", self.topics),
            self.log.append,
            self.log.await_commit,
            self.clock,
            self.timer,
        )
        self.runtime.load(0, [])

    def send(self, request: ConsumerGroupHeartbeatRequest, *, gives_own_id: bool = False) -> Call:
        asker = Asker("client", "/127.0.0.1", gives_own_id)
        return self.execute(lambda shard, _, now_ms: shard.consumer_heartbeat(request, asker, now_ms))

    @property
    def consumer(self) -> ConsumerGroup:
        found = self.group.consumer
        assert found is not None, "it is a consumer group"
        return found

    @property
    def kind(self) -> str:
        return "classic" if self.group.consumer is None else "consumer"


class ClassicClient:
    """A member as a client library has it. Each `beat` is one thing it does: it looks for an answer, or sends one."""

    def __init__(
        self,
        world: MixedWorld,
        topics: Iterable[str] = ("t",),
        *,
        protocols: Iterable[str] = (EAGER,),
        instance_id: str | None = None,
        session_timeout_ms: int = SESSION_MS,
        needs_member_id: bool = False,
    ) -> None:
        self.world = world
        self.topics = tuple(topics)
        self.protocols = tuple(protocols)
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.needs_member_id = needs_member_id
        self.member_id = ""
        self.generation = -1
        self.owned: Partitions = set()
        self.code = ErrorCode.NONE
        self.rejoins = 0
        self._assigned_version: int | None = None
        self._joining: Call | None = None
        self._syncing: Call | None = None

    @property
    def is_cooperative(self) -> bool:
        return self.protocols[0] == COOPERATIVE

    def join(self) -> ClassicClient:
        """Ask to be a member of the next generation; an eager one gives up everything first."""
        if not self.is_cooperative:
            self.owned = set()
        self.rejoins += 1
        self._syncing = None
        self._joining = self.world.join(
            self.member_id,
            instance_id=self.instance_id,
            protocols=[(name, self.metadata()) for name in self.protocols],
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            needs_member_id=self.needs_member_id,
        )
        return self

    def metadata(self) -> bytes:
        owned = tuple(TopicPartition(topic, partition) for topic, partition in sorted(self.owned))
        return encode_subscription(Subscription(self.topics, owned=owned), 1)

    def beat(self) -> ClassicClient:
        if self._joining is not None:
            if not self._joining.is_waiting:
                call, self._joining = self._joining, None
                self._joined(call)
        elif self._syncing is not None:
            if not self._syncing.is_waiting:
                call, self._syncing = self._syncing, None
                self._synced(call)
        elif self._assigned_version not in (None, self.world.topics.version):
            self.join()  # a leader watches the topics, and assigns again when they change
        else:
            self._react(self.world.heartbeat(self.member_id, self.generation, instance_id=self.instance_id))
        return self

    def leave(self) -> ErrorCode:
        (code,) = self.world.leave((self.member_id, self.instance_id))
        return code

    def _joined(self, call: Call) -> None:
        if call.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = call.reply.member_id
            self.join()
        elif call.code is not ErrorCode.NONE:
            self._react(call.code)
        else:
            reply: JoinGroupResponse = call.reply
            self.member_id, self.generation = reply.member_id, reply.generation_id
            leads = reply.leader == reply.member_id
            parts = _assign(self.world, reply) if leads else None
            # One that is back as leader assigns nothing, and cannot know how old the assignment is.
            seen = -1 if reply.skip_assignment else self.world.topics.version
            self._assigned_version = seen if leads else None
            name = reply.protocol_name
            self._syncing = self.world.sync(
                self.member_id,
                self.generation,
                parts,
                instance_id=self.instance_id,
                protocol_type="consumer",
                protocol_name=name,
            )

    def _synced(self, call: Call) -> None:
        if call.code is not ErrorCode.NONE:
            self._react(call.code)
            return
        self.code = ErrorCode.NONE
        named = read_assignment(call.reply.assignment)
        before, self.owned = self.owned, {(name, index) for name, found in named.items() for index in found}
        if self.is_cooperative and before - self.owned:
            self.join()

    def _react(self, code: ErrorCode) -> None:
        self.code = code
        if code is ErrorCode.NONE:
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            self.owned = set()
            if code is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id, self.generation = "", -1
        self.join()


def _assign(world: MixedWorld, reply: JoinGroupResponse) -> dict[str, bytes]:
    """What a leader decides: as even as can be, and a partition that another member still has is not assigned yet."""
    subscriptions = {member.member_id: read_subscription(member.metadata) for member in reply.members}
    metadata = {member.member_id: member.metadata for member in reply.members}
    owners = {
        (topic, partition): member_id
        for member_id, subscription in subscriptions.items()
        for topic, found in subscription.owned.items()
        for partition in found
    }
    held: dict[str, set[tuple[str, int]]] = {member_id: set() for member_id in subscriptions}
    for topic in sorted({topic for subscription in subscriptions.values() for topic in subscription.topics}):
        found = world.topics.topic(topic)
        readers = [member_id for member_id, subscription in subscriptions.items() if topic in subscription.topics]
        for partition in range(0 if found is None else found.partition_count):
            taker = min(readers, key=lambda member_id: (len(held[member_id]), member_id))
            if owners.get((topic, partition), taker) == taker:
                held[taker].add((topic, partition))
    return {
        member_id: write_assignment(_by_name(partitions), metadata[member_id]) for member_id, partitions in held.items()
    }


def _by_name(partitions: Partitions) -> Mapping[str, frozenset[int]]:
    names = {name for name, _ in partitions}
    return {name: frozenset(index for other, index in partitions if other == name) for name in names}


Anybody = Client | ClassicClient


def settle_all(*clients: Anybody, rounds: int = 40) -> None:
    """Everybody does what it has to, a few times over, until nothing changes any more."""
    quiet = 0
    for _ in range(rounds):
        before = [set(client.owned) for client in clients]
        for client in clients:
            client.beat()
        quiet = quiet + 1 if before == [client.owned for client in clients] else 0
        if quiet > 5:
            return
    raise AssertionError("members do not settle")


def group_of(*clients: Anybody) -> None:
    """All join, one after the other, and settle."""
    for number, client in enumerate(clients, 1):
        client.join()
        settle_all(*clients[:number])
