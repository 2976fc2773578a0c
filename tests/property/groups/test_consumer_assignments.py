"""Assignors and reconciliation for any members and topics: everything is read, by one member, and evenly."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.property.effort import examples
from tests.unit.groups.consumer_world import Client, ConsumerWorld
from tidelog.groups.consumer.assignors import ASSIGNORS, Subscriber, assign_alike, assign_uniform, assign_unlike
from tidelog.groups.consumer.patterns import matching
from tidelog.wire.errors import ApiError, ErrorCode

TOPICS = [bytes([number]) * 16 for number in range(4)]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12))
SUBSCRIPTIONS = st.lists(st.frozensets(st.sampled_from(TOPICS)), min_size=1, max_size=6)


def subscribers(subscriptions: list[frozenset[bytes]]) -> list[Subscriber]:
    return [Subscriber(f"m{number}", None, topics, {}) for number, topics in enumerate(subscriptions)]


@given(st.sampled_from(sorted(ASSIGNORS)), COUNTS, SUBSCRIPTIONS)
def test_every_partition_that_is_read_has_one_owner(
    name: str, counts: dict[bytes, int], subscriptions: list[frozenset[bytes]]
) -> None:
    members = subscribers(subscriptions)
    assigned = ASSIGNORS[name](members, counts)
    held = [
        (topic, partition)
        for member in members
        for topic, partitions in assigned[member.member_id].items()
        for partition in partitions
        if topic in member.topic_ids
    ]
    read = frozenset().union(*subscriptions)
    assert sorted(held) == sorted((topic, p) for topic, count in counts.items() if topic in read for p in range(count))
    assert sum(len(p) for found in assigned.values() for p in found.values()) == len(held)


@given(COUNTS, st.integers(1, 7))
def test_uniform_is_even_where_all_read_the_same(counts: dict[bytes, int], size: int) -> None:
    assigned = assign_uniform(subscribers([frozenset(TOPICS)] * size), counts)
    sizes = [sum(map(len, found.values())) for found in assigned.values()]
    assert max(sizes) - min(sizes) <= 1


@given(COUNTS, st.integers(1, 9), st.integers(1, 9), st.integers(0, 5))
def test_the_quick_way_to_assign_is_the_slow_one(counts: dict[bytes, int], size: int, then: int, grown: int) -> None:
    """Where all read the same topics, whichever members have come and gone, and however topics have grown."""
    before = assign_unlike(subscribers([frozenset(TOPICS)] * size), counts)
    members = [
        member._replace(before=before.get(member.member_id, {}))
        for member in subscribers([frozenset(TOPICS)] * (size + then))[then // 2 :]
    ]
    now = {topic: count + grown for topic, count in counts.items()}
    assert assign_uniform(members, now) == assign_alike(members, now) == assign_unlike(members, now)


@given(COUNTS, st.integers(2, 6), st.booleans())
def test_uniform_moves_no_more_than_it_has_to(counts: dict[bytes, int], size: int, is_one_more: bool) -> None:
    """When a member comes, only it gets partitions; when one goes, only its partitions move."""
    members = subscribers([frozenset(TOPICS)] * size)
    before = assign_uniform(members, counts)
    after_members = subscribers([frozenset(TOPICS)] * (size + 1 if is_one_more else size - 1))
    known = [member._replace(before=before.get(member.member_id, {})) for member in after_members]
    after = assign_uniform(known, counts)
    total = sum(counts.values())
    kept = sum(
        len(partitions & before.get(member_id, {}).get(topic, frozenset()))
        for member_id, found in after.items()
        for topic, partitions in found.items()
    )
    gone = 0 if is_one_more else sum(map(len, before[f"m{size - 1}"].values()))
    limit = -(-total // (size + 1)) if is_one_more else gone
    assert kept >= total - limit


@settings(max_examples=examples(200))
@given(st.text("ab|*+?()[]^.{}0-", max_size=8), st.text("ab0-", max_size=6))
def test_patterns_agree_with_pythons(pattern: str, name: str) -> None:
    try:
        ours = matching(pattern, [name])
    except ApiError:
        return
    try:
        expected = re.compile(pattern)
    except (re.error, FutureWarning):
        return
    if "^" in pattern.strip("^").replace("[^", ""):
        return  # an anchor in the middle never matches there; here it means nothing
    assert bool(ours) == bool(expected.fullmatch(name)), (pattern, name)


class MembersMove(RuleBasedStateMachine):
    """Whatever members do: no partition is read by two of them, and when all is quiet each is read by one."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ConsumerWorld()
        self.clients: list[Client] = []

    def pick(self, number: int) -> Client | None:
        return self.clients[number % len(self.clients)] if self.clients else None

    @rule(topics=st.sampled_from((("t",), ("u",), ("t", "u"))))
    def a_member_joins(self, topics: tuple[str, ...]) -> None:
        if len(self.clients) < 5:
            self.clients.append(Client(self.world, topics).join())

    @rule(number=st.integers(0, 9))
    def a_member_beats(self, number: int) -> None:
        client = self.pick(number)
        if client is not None and client.beat().code is not ErrorCode.NONE:
            client.join()

    @rule(number=st.integers(0, 9), topics=st.sampled_from((("t",), ("u",), ("t", "u"))))
    def a_member_subscribes(self, number: int, topics: tuple[str, ...]) -> None:
        client = self.pick(number)
        if client is not None and client.subscribe(*topics).code is not ErrorCode.NONE:
            client.join()

    @rule(number=st.integers(0, 9))
    def a_member_leaves(self, number: int) -> None:
        client = self.pick(number)
        if client is not None:
            client.leave()
            self.clients.remove(client)

    @rule(partitions=st.integers(1, 8))
    def a_topic_changes(self, partitions: int) -> None:
        before = self.world.topics.topic("u")
        assert before is not None
        self.world.topics.put("u", max(partitions, before.partition_count))

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.world.restart()

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        held = [partition for client in self.clients for partition in client.owned]
        assert len(held) == len(set(held))

    def teardown(self) -> None:
        for _ in range(12):
            for client in self.clients:
                if client.beat().code is not ErrorCode.NONE:
                    client.join()
        read = {name for client in self.clients for name in client.topics}
        held = {partition for client in self.clients for partition in client.owned}
        expected = set()
        for name in read:
            topic = self.world.topics.topic(name)
            assert topic is not None
            expected |= {(name, partition) for partition in range(topic.partition_count)}
        assert held == expected


TestMembersMove = MembersMove.TestCase
TestMembersMove.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=30)
