"""Classic and consumer members in one group, whatever they do: no partition is read twice, and in the end each once.

Beside it runs what must be true of the group's kind, said in one line: it is a consumer group as long as it has a
consumer, and a classic one as soon as it has classic members only.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.property.effort import examples
from tests.unit.groups.consumer_world import Client
from tests.unit.groups.mixed_world import COOPERATIVE, EAGER, Anybody, ClassicClient, MixedWorld
from tests.unit.groups.world import GROUP
from tidelog.wire.errors import ErrorCode

TOPICS = st.sampled_from((("t",), ("u",), ("t", "u")))
MEMBERS_MAX = 5
TICK_MS = 1_000
TICKS_TO_SETTLE = 45
"""Longer than the rebalance timeout: a member may have crashed in the middle of a rebalance."""


class MembersOfBothKinds(RuleBasedStateMachine):
    """Members run in this process and are as slow as the rules have it; those that crash are just not run again."""

    def __init__(self) -> None:
        super().__init__()
        self.world = MixedWorld()
        self.members: list[Anybody] = []
        self.instances = 0

    @initialize(style=st.sampled_from((EAGER, COOPERATIVE)))
    def classic_members_are(self, style: str) -> None:
        self.style = style

    def pick(self, number: int) -> Anybody | None:
        return self.members[number % len(self.members)] if self.members else None

    def beat(self, member: Anybody) -> None:
        if isinstance(member, Client) and member.beat().code is not ErrorCode.NONE:
            member.join()
        elif isinstance(member, ClassicClient):
            member.beat()

    @rule(topics=TOPICS)
    def a_consumer_joins(self, topics: tuple[str, ...]) -> None:
        if len(self.members) < MEMBERS_MAX:
            self.members.append(Client(self.world, topics).join())

    @rule(topics=TOPICS, needs_member_id=st.booleans(), is_static=st.booleans())
    def a_classic_member_joins(self, topics: tuple[str, ...], needs_member_id: bool, is_static: bool) -> None:
        if len(self.members) < MEMBERS_MAX:
            self.instances += is_static
            instance_id = f"i{self.instances}" if is_static else None
            self.members.append(self.classic(topics, instance_id, needs_member_id).join())

    def classic(self, topics: tuple[str, ...], instance_id: str | None, needs_member_id: bool = False) -> ClassicClient:
        return ClassicClient(
            self.world, topics, protocols=(self.style,), instance_id=instance_id, needs_member_id=needs_member_id
        )

    @rule(number=st.integers(0, 9))
    def a_static_member_restarts(self, number: int) -> None:
        """It forgets everything but its name, and takes its own place."""
        member = self.pick(number)
        if isinstance(member, ClassicClient) and member.instance_id is not None:
            self.members.remove(member)
            self.members.append(self.classic(member.topics, member.instance_id).join())

    @rule(number=st.integers(0, 9), times=st.integers(1, 3))
    def a_member_goes_on(self, number: int, times: int) -> None:
        member = self.pick(number)
        for _ in range(times if member is not None else 0):
            assert member is not None
            self.beat(member)

    @rule(times=st.integers(1, 3))
    def everybody_goes_on(self, times: int) -> None:
        for _ in range(times):
            for member in self.members:
                self.beat(member)

    @rule(number=st.integers(0, 9), topics=TOPICS)
    def a_member_subscribes(self, number: int, topics: tuple[str, ...]) -> None:
        member = self.pick(number)
        if isinstance(member, Client) and member.subscribe(*topics).code is not ErrorCode.NONE:
            member.join()

    @rule(number=st.integers(0, 9))
    def a_member_leaves(self, number: int) -> None:
        member = self.pick(number)
        if member is not None and member.member_id:
            member.leave()
            self.members.remove(member)

    @rule(number=st.integers(0, 9))
    def a_member_crashes(self, number: int) -> None:
        """Its session ends while the others go on; until then its partitions are its own."""
        member = self.pick(number)
        if member is not None:
            self.members.remove(member)
            self.pass_time(12)

    def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            self.world.advance(TICK_MS)
            for member in self.members:
                self.beat(member)

    @rule(partitions=st.integers(1, 8))
    def a_topic_grows(self, partitions: int) -> None:
        before = self.world.topics.topic("u")
        assert before is not None
        self.world.topics.put("u", max(partitions, before.partition_count))

    @rule()
    def the_coordinator_restarts(self) -> None:
        """What it knew of a consumer group and its classic members, it knows again."""
        before = self.world.shard.group(GROUP)
        self.world.restart()
        after = self.world.shard.group(GROUP)
        if before is not None and before.consumer is not None:
            assert after is not None
            assert after.consumer is not None
            for name in ("members", "static_members", "target", "owners", "topics", "epoch", "assignment_epoch"):
                assert getattr(after.consumer, name) == getattr(before.consumer, name), name
        elif after is not None:
            assert after.consumer is None

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        held = [partition for member in self.members for partition in member.owned]
        assert len(held) == len(set(held)), [(type(member).__name__, member.owned) for member in self.members]

    @invariant()
    def the_group_is_of_the_kind_of_its_members(self) -> None:
        group = self.world.shard.group(GROUP)
        if group is None or group.is_empty:
            return
        has_consumer = any(isinstance(member, Client) and member.epoch > 0 for member in self.members)
        assert not has_consumer or group.consumer is not None
        if group.consumer is not None and not group.consumer.is_empty:
            assert not group.members
            assert any(member.classic is None for member in group.consumer.members.values())

    def teardown(self) -> None:
        self.pass_time(TICKS_TO_SETTLE)
        read = {name for member in self.members for name in member.topics}
        held = [partition for member in self.members for partition in member.owned]
        expected = []
        for name in read:
            topic = self.world.topics.topic(name)
            assert topic is not None
            expected += [(name, partition) for partition in range(topic.partition_count)]
        assert sorted(held) == sorted(expected)


TestMembersOfBothKinds = MembersOfBothKinds.TestCase
TestMembersOfBothKinds.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=30)
