"""What the topics of an application have to be: partitions of internal topics, joins, and what makes it impossible."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidelog.groups.streams.schemas import TopologyValue
from tidelog.groups.streams.topology import Configured, StatusCode, Topology, configure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_heartbeat import CopartitionGroup, KeyValue, Subtopology, TopicInfo


def configured(topics: Mapping[str, int], *subtopologies: Subtopology) -> Configured:
    return configure(Topology(TopologyValue(epoch=0, subtopologies=list(subtopologies))), topics.get)


def joined(*topics: str, repartitions: tuple[TopicInfo, ...] = ()) -> Subtopology:
    """A subtopology that joins all that it reads."""
    return Subtopology(
        subtopology_id="join",
        source_topics=list(topics),
        repartition_source_topics=list(repartitions),
        copartition_groups=[
            CopartitionGroup(
                source_topics=list(range(len(topics))), repartition_source_topics=list(range(len(repartitions)))
            )
        ],
    )


def writer(name: str, source: str, *sinks: str) -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=[source], repartition_sink_topics=list(sinks))


def test_numbers_of_partitions_pass_through_repartition_topics() -> None:
    middle = Subtopology(
        subtopology_id="b", repartition_source_topics=[TopicInfo(name="r1")], repartition_sink_topics=["r2"]
    )
    last = Subtopology(
        subtopology_id="c",
        source_topics=["small"],
        repartition_source_topics=[TopicInfo(name="r2", replication_factor=3)],
        state_changelog_topics=[TopicInfo(name="log", topic_configs=[KeyValue(key="cleanup.policy", value="compact")])],
    )
    # In whatever order they stand.
    for order in ((writer("a", "in", "r1"), middle, last), (last, middle, writer("a", "in", "r1"))):
        found = configured({"in": 5, "small": 2}, *order)
        assert {name: each.task_count for name, each in found.subtopologies.items()} == {"a": 5, "b": 5, "c": 5}
        assert [(each.name, each.partition_count, each.replication_factor) for each in found.missing] == [
            ("log", 5, -1),
            ("r1", 5, -1),
            ("r2", 5, 3),
        ]
        assert found.missing[0].overrides == {"cleanup.policy": "compact"}
        assert [each.is_stateful for each in found.subtopologies.values()] == [False, False, True]


def test_a_subtopology_waits_for_all_of_its_inputs() -> None:
    both = Subtopology(
        subtopology_id="c",
        repartition_source_topics=[TopicInfo(name="few"), TopicInfo(name="many")],
        repartition_sink_topics=["out"],
    )
    reader = Subtopology(subtopology_id="d", repartition_source_topics=[TopicInfo(name="out")])
    found = configured({"x": 2, "y": 9}, both, reader, writer("a", "x", "few"), writer("b", "y", "many"))
    assert found.subtopologies["d"].task_count == 9


def test_repartition_topics_of_a_join_follow_its_sources() -> None:
    found = configured({"in": 8, "t": 3}, writer("a", "in", "r"), joined("t", repartitions=(TopicInfo(name="r"),)))
    assert found.subtopologies["join"].task_count == 3
    assert [(each.name, each.partition_count) for each in found.missing] == [("r", 3)]


@pytest.mark.parametrize(("fixed", "expected"), [(0, 8), (4, 4)])
def test_repartition_topics_that_are_joined_are_as_wide_as_the_widest_or_the_fixed_one(
    fixed: int, expected: int
) -> None:
    repartitions = (TopicInfo(name="r", partitions=fixed), TopicInfo(name="s"))
    found = configured({"in": 8}, writer("a", "in", "r", "s"), joined(repartitions=repartitions))
    assert found.subtopologies["join"].task_count == expected
    assert {each.partition_count for each in found.missing} == {expected}


def test_fixed_numbers_of_topics_that_are_not_joined_may_differ() -> None:
    repartitions = (TopicInfo(name="r", partitions=4),)
    other = Subtopology(subtopology_id="o", repartition_source_topics=[TopicInfo(name="s", partitions=2)])
    found = configured({"in": 8}, writer("a", "in", "r", "s"), joined(repartitions=repartitions), other)
    assert found.subtopologies["join"].task_count == 4


@pytest.mark.parametrize(
    ("topics", "subtopology", "code", "detail"),
    [
        (
            {},
            joined("a", "b", "c", "d", "e"),
            StatusCode.MISSING_SOURCE_TOPICS,
            "Source topics a, b, c and 2 additional topics are missing.",
        ),
        (
            {"a": 1, "b": 2},
            joined("a", "b"),
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{a=1, b=2}]",
        ),
        (
            {"a": 1},
            joined("a", repartitions=(TopicInfo(name="r", partitions=3),)),
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            (
                "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [1] of the "
                "source topic."
            ),
        ),
        (
            {"a": 1, "log": 2},
            Subtopology(subtopology_id="0", source_topics=["a"], state_changelog_topics=[TopicInfo(name="log")]),
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic log has different number of partitions: expected 1, found 2",
        ),
    ],
)
def test_what_keeps_an_application_from_running_is_said(
    topics: Mapping[str, int], subtopology: Subtopology, code: StatusCode, detail: str
) -> None:
    found = configured(topics, subtopology)
    assert found.fault == (code, detail)
    assert not found.is_ready
    assert found.missing == ()


@pytest.mark.parametrize(
    ("subtopologies", "text"),
    [
        ([Subtopology(subtopology_id="0")], "No source topics found for subtopology 0"),
        (
            [Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")])],
            "a repartition source topic is never used as a sink topic",
        ),
        (
            [
                Subtopology(
                    subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")], repartition_sink_topics=["r"]
                )
            ],
            "There may be loops in the topology",
        ),
        (
            [Subtopology(subtopology_id="0", copartition_groups=[CopartitionGroup(source_topics=[1])])],
            r"A copartition group names topics \[1\] of 0\.",
        ),
    ],
)
def test_a_topology_that_can_never_run_is_an_error(subtopologies: list[Subtopology], text: str) -> None:
    with pytest.raises(ApiError, match=text) as refused:
        configured({}, *subtopologies)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_loop_with_an_entrance_has_its_width() -> None:
    loop = Subtopology(
        subtopology_id="0",
        source_topics=["in"],
        repartition_source_topics=[TopicInfo(name="r")],
        repartition_sink_topics=["r"],
    )
    assert configured({"in": 3}, loop).subtopologies["0"].task_count == 3
