"""Our assignors beside Kafka's own, on random groups: the same plan, or where plans may differ, one as good.

`AssignorOracle.java` runs Kafka's code in one Java process.
"""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from benchmarks import apache_kafka
from tidelog.client.aio.consumer.assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor
from tidelog.client.aio.consumer.assignors.base import PartitionRacks, Plan
from tidelog.client.aio.consumer.protocol import Subscription
from tidelog.client.types import TopicPartition

Topics = Mapping[str, list[PartitionRacks]]
few = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
    phases=[Phase.generate],
)


class Oracle:
    """The Java process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def assign(self, assignor: str, topics: Topics, group: Mapping[str, Subscription]) -> dict[str, list[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{assignor} {_topics(topics)} {_members(group)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        assert answer, "the oracle ended"
        pairs = (part.split("=") for part in answer.split(";"))
        return {member: sorted(names.split("+")) if names else [] for member, names in pairs}


def _listed(words: list[str]) -> str:
    return "+".join(words) or "-"


def _topics(topics: Topics) -> str:
    return ";".join(
        f"{name}:{'|'.join(_listed(sorted(each.racks)) for each in partitions)}" for name, partitions in topics.items()
    )


def _members(group: Mapping[str, Subscription]) -> str:
    return ";".join(
        ",".join(
            (
                member,
                each.group_instance_id or "-",
                _listed(list(each.topics)),
                _listed([f"{owned.topic}.{owned.partition}" for owned in each.owned]),
                str(each.generation_id),
                each.rack_id or "-",
            )
        )
        for member, each in group.items()
    )


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    source = str(Path(__file__).with_name("AssignorOracle.java"))
    with subprocess.Popen(
        ["java", *apache_kafka.TOOL_FLAGS, "-cp", apache_kafka.class_path(), source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Oracle(process)
        assert process.stdin is not None
        process.stdin.close()


NAMES = ("x", "y", "z")
racks = st.frozensets(st.sampled_from(["east", "west", "north"]), max_size=2)
topics_with = lambda each: st.fixed_dictionaries(  # noqa: E731 - a strategy by another
    {name: st.lists(each, min_size=1, max_size=6).map(_numbered) for name in NAMES}
)


def _numbered(each: list[frozenset[str]]) -> list[PartitionRacks]:
    return [PartitionRacks(number, racks) for number, racks in enumerate(each)]


Group = dict[str, Subscription]


def groups(wanted: st.SearchStrategy[tuple[str, ...]], *, with_racks: bool = False) -> st.SearchStrategy[Group]:
    member = st.builds(
        Subscription,
        topics=wanted,
        user_data=st.none(),
        owned=st.just(()),
        generation_id=st.just(-1),
        rack_id=st.sampled_from(["east", "west", "north", None] if with_racks else [None]),
        group_instance_id=st.none(),
    )
    return st.dictionaries(st.sampled_from("abcdef"), member, min_size=1)


some_topics = st.sets(st.sampled_from(NAMES), min_size=1).map(lambda names: tuple(sorted(names)))
no_racks: st.SearchStrategy[frozenset[str]] = st.just(frozenset())


def shown(plan: Plan) -> dict[str, list[str]]:
    return {member: sorted(f"{each.topic}.{each.partition}" for each in plan[member]) for member in sorted(plan)}


@few
@given(topics_with(no_racks), groups(some_topics))
def test_range_and_round_robin_decide_as_kafka_does(oracle: Oracle, topics: Topics, group: Group) -> None:
    assert shown(RangeAssignor().assign(topics, group)) == oracle.assign("range", topics, group)
    assert shown(RoundRobinAssignor().assign(topics, group)) == oracle.assign("roundrobin", topics, group)


@few
@given(topics_with(racks), groups(st.just(NAMES), with_racks=True))
def test_range_matches_racks_as_kafka_does(oracle: Oracle, topics: Topics, group: Group) -> None:
    assert shown(RangeAssignor().assign(topics, group)) == oracle.assign("range", topics, group)


@few
@given(topics_with(no_racks), groups(some_topics))
def test_sticky_is_at_least_as_even_as_kafkas(oracle: Oracle, topics: Topics, group: Group) -> None:
    ours = shown(CooperativeStickyAssignor().assign(topics, group))
    theirs = oracle.assign("sticky", topics, group)
    assert sorted(name for each in ours.values() for name in each) == sorted(
        name for each in theirs.values() for name in each
    )
    assert sum(len(each) ** 2 for each in ours.values()) <= sum(len(each) ** 2 for each in theirs.values())


@few
@given(topics_with(no_racks), groups(st.just(NAMES)), st.data())
def test_sticky_moves_no_more_than_kafkas(oracle: Oracle, topics: Topics, group: Group, data: st.DataObject) -> None:
    """A group as one assignor left it, then one member more or less."""
    before = oracle.assign("sticky", topics, group)
    owning = {
        member: each._replace(owned=tuple(_parse(name) for name in before[member]), generation_id=1)
        for member, each in group.items()
    }
    if len(owning) > 1 and data.draw(st.booleans(), label="one leaves"):
        del owning[data.draw(st.sampled_from(sorted(owning)), label="who")]
    else:
        owning["new"] = Subscription(NAMES)
    ours = shown(CooperativeStickyAssignor().assign(topics, owning))
    theirs = oracle.assign("sticky", topics, owning)
    assert _kept(ours, owning) == _kept(theirs, owning)
    assert sorted(map(len, ours.values())) == sorted(map(len, theirs.values()))


def _parse(name: str) -> TopicPartition:
    topic, _, number = name.partition(".")
    return TopicPartition(topic, int(number))


def _kept(plan: dict[str, list[str]], group: Group) -> int:
    return sum(len({_parse(name) for name in plan[member]} & set(each.owned)) for member, each in group.items())
