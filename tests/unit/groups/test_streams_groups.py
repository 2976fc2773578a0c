"""Streams groups: members, their tasks, and what the topics of an application have to be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.groups.streams_world import GROUP, StreamsMember, StreamsWorld, word_count
from tests.unit.groups.world import Call
from tidelog.groups import Committer, Joiner
from tidelog.groups.consumer.checks import Asker
from tidelog.groups.streams.group import MemberState
from tidelog.groups.streams.topology import StatusCode
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.streams_group_heartbeat import Endpoint, Subtopology, TaskIds, TopicInfo, Topology

ALL = {(subtopology, partition) for subtopology in "01" for partition in range(4)}


def running(world: StreamsWorld, *names: str, **fields: Any) -> list[StreamsMember]:
    """Members that have their tasks."""
    members = [StreamsMember(world, name, **fields) for name in names]
    world.settle(*members)
    return members


# --- topics ---


def test_internal_topics_are_asked_for_and_then_every_task_is_assigned() -> None:
    world = StreamsWorld()
    member = StreamsMember(world, "a").beat()
    assert member.status == {StatusCode.MISSING_INTERNAL_TOPICS: "Internal topics are missing: app-c, app-r"}
    assert [(topic.name, topic.partition_count, topic.replication_factor) for topic in member.missing] == [
        ("app-c", 4, -1),
        ("app-r", 4, -1),
    ]
    assert world.group.state_name == "NotReady"
    assert member.active == set()
    member.beat()
    assert member.status == {}
    assert member.active == ALL
    assert world.group.state_name == "Stable"


def test_a_missing_source_topic_is_said_and_its_return_noticed() -> None:
    world = StreamsWorld()
    world.topics.remove("t")
    member = StreamsMember(world, "a").beat()
    assert member.status == {StatusCode.MISSING_SOURCE_TOPICS: "Source topics t are missing."}
    assert member.missing == ()
    world.topics.put("t", 2)
    world.settle(member)
    assert member.active == {(subtopology, partition) for subtopology in "01" for partition in range(2)}


def test_a_topic_that_grows_gives_more_tasks_or_a_reason_why_not() -> None:
    world = StreamsWorld()
    [member] = running(world, "a")
    world.topics.put("t", 6)
    member.beat()
    assert member.status == {
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS: "Existing topic app-r has different number of partitions: expected "
        "6, found 4"
    }
    assert member.active == set()
    for name in ("app-r", "app-c"):
        world.topics.put(name, 6)
    world.settle(member)
    assert len(member.active) == 12


# --- members ---


def test_a_second_member_gets_half_of_the_tasks_once_they_are_given_up() -> None:
    world = StreamsWorld()
    [first] = running(world, "a")
    first.is_slow = True
    second = StreamsMember(world, "b").beat()
    assert second.active == set()
    assert world.group.members["b"].state is MemberState.UNRELEASED_TASKS
    world.settle(first, second)
    assert second.active == set()
    assert world.group.members["a"].state is MemberState.UNREVOKED_TASKS
    assert world.group.state_name == "Reconciling"
    first.is_slow = False
    world.settle(first, second)
    assert len(first.active) == len(second.active) == 4
    assert first.active | second.active == ALL
    assert world.group.state_name == "Stable"


def test_a_member_that_does_not_give_up_its_tasks_in_time_is_removed() -> None:
    world = StreamsWorld()
    [first] = running(world, "a")
    first.is_slow = True
    second = StreamsMember(world, "b").beat()
    first.beat()
    world.advance(29_000)
    second.beat()
    first.beat()
    world.advance(2_000)
    assert set(world.group.members) == {"b"}
    world.settle(second)
    assert second.active == ALL
    assert first.beat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_or_is_silent_gives_its_tasks_to_the_others() -> None:
    world = StreamsWorld()
    first, second, third = running(world, "a", "b", "c")
    third.beat(-1)
    assert third.epoch == -1
    world.advance(30_000)
    first.beat()
    world.advance(16_000)
    assert set(world.group.members) == {"a"}
    world.settle(first)
    assert first.active == ALL
    assert second.beat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_member_waits_for_others_and_all_begin_at_once() -> None:
    world = StreamsWorld(initial_delay_ms=3_000)
    first, second = StreamsMember(world, "a").beat(), StreamsMember(world, "b").beat()
    assert first.status[StatusCode.ASSIGNMENT_DELAYED] == (
        "Assignment delayed due to the configured initial rebalance delay."
    )
    assert (first.epoch, second.epoch) == (1, 1)
    first.beat()
    assert world.group.assignment_epoch == 1
    world.advance(3_000)
    assert world.group.assignment_epoch == world.group.epoch
    world.settle(first, second, rounds=1)
    assert len(first.active) == len(second.active) == 4


def test_a_new_assignment_waits_for_the_interval() -> None:
    world = StreamsWorld(assignment_interval_ms=1_000)
    first = StreamsMember(world, "a").beat()
    first.beat()
    assert first.status == {
        StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    assert world.group.state_name == "Assigning"
    world.advance(1_000)
    assert first.beat().active == ALL


def test_standby_tasks_are_with_another_process_and_become_active_when_that_dies() -> None:
    world = StreamsWorld(standby_count=1)
    first, second = running(world, "a", "b")
    stateful = {("1", partition) for partition in range(4)}
    assert first.standby == stateful - first.active
    assert second.standby == stateful - second.active
    second.beat(-1)
    world.settle(first)
    assert first.active == ALL
    assert first.standby == set()


def test_a_new_number_of_standby_tasks_begins_a_new_epoch() -> None:
    world = StreamsWorld()
    first, second = running(world, "a", "b")
    epoch = world.group.epoch
    world.settings = world.settings._replace(standby_count=1)
    world.settle(first, second)
    assert world.group.epoch == epoch + 1
    assert len(first.standby) == len(second.standby) == 2


def test_a_member_of_an_old_epoch_is_fenced_unless_the_answer_was_lost() -> None:
    world = StreamsWorld()
    [first] = running(world, "a")
    second = StreamsMember(world, "b").beat()
    world.settle(first, second)
    assert first.epoch == second.epoch
    assert first.beat(first.epoch - 1, active_tasks=[TaskIds(subtopology_id="0", partitions=[9])]).code is (
        ErrorCode.FENCED_MEMBER_EPOCH
    )
    assert first.beat(first.epoch + 1).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat(first.epoch - 1).code is ErrorCode.NONE
    assert first.epoch == second.epoch


def test_a_full_group_takes_no_more_members() -> None:
    world = StreamsWorld(size_max=1)
    [first] = running(world, "a")
    assert StreamsMember(world, "b").beat().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.beat(0).code is ErrorCode.NONE


def test_a_request_to_shut_down_reaches_every_member() -> None:
    world = StreamsWorld()
    first, second = running(world, "a", "b")
    second.beat(-1, shutdown_application=True)
    assert StatusCode.SHUTDOWN_APPLICATION in first.beat().status
    first.beat(-1)
    third = StreamsMember(world, "c").beat()
    assert StatusCode.SHUTDOWN_APPLICATION not in third.status


def test_members_learn_which_endpoint_serves_which_partitions() -> None:
    world = StreamsWorld()
    first = StreamsMember(world, "a", user_endpoint=Endpoint(host="h", port=7))
    world.settle(first)
    second = StreamsMember(world, "b", endpoint_information_epoch=-1).beat()
    assert second.response is not None
    [entry] = second.response.partitions_by_user_endpoint or []
    assert (entry.user_endpoint.host, entry.user_endpoint.port) == ("h", 7)
    assert {each.topic: each.partitions for each in entry.active_partitions} == {
        "t": [0, 1, 2, 3],
        "app-r": [0, 1, 2, 3],
    }
    second.beat(endpoint_information_epoch=second.response.endpoint_information_epoch)
    assert second.response.partitions_by_user_endpoint is None


# --- topologies ---


def test_a_stale_topology_is_said_and_another_one_refused() -> None:
    world = StreamsWorld()
    running(world, "a", topology=word_count(epoch=2))
    stale = StreamsMember(world, "b", topology=word_count(epoch=1)).beat()
    assert stale.status[StatusCode.STALE_TOPOLOGY] == (
        "The member's topology epoch 1 is behind the group's topology epoch 2."
    )
    other = StreamsMember(world, "c", topology=word_count(epoch=3)).beat()
    assert (other.code, other.message) == (ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST, "Static membership"),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "MemberId"),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST, "RackId"),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs"),
        ({"topology": None}, ErrorCode.INVALID_REQUEST, "Topology"),
        ({"active_tasks": None}, ErrorCode.INVALID_REQUEST, "ActiveTasks"),
        ({"warmup_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}, ErrorCode.INVALID_REQUEST, "WarmupTasks"),
        ({"topology": word_count(epoch=-1)}, ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, "negative"),
        (
            {
                "topology": Topology(
                    subtopologies=[
                        Subtopology(
                            subtopology_id="0",
                            source_topics=["t"],
                            state_changelog_topics=[TopicInfo(name="c", partitions=3)],
                        )
                    ]
                )
            },
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Changelog topic c must have an undefined partition count, but it is set to 3.",
        ),
        (
            {"topology": Topology(subtopologies=[Subtopology(subtopology_id="0")])},
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "No source topics found for subtopology 0",
        ),
    ],
)
def test_a_heartbeat_that_is_invalid_says_why(fields: dict[str, Any], code: ErrorCode, text: str) -> None:
    member = StreamsMember(StreamsWorld(), "a").beat(**fields)
    assert member.code is code
    assert text in (member.message or "")


def test_a_task_that_the_topology_does_not_have_is_refused() -> None:
    world = StreamsWorld()
    [member] = running(world, "a")
    unknown = TaskIds(subtopology_id="7", partitions=[0])
    assert member.beat(active_tasks=[unknown]).message == "Subtopology 7 does not exist in the topology."
    assert member.beat(standby_tasks=[TaskIds(subtopology_id="1", partitions=[4])]).code is ErrorCode.INVALID_REQUEST


def test_a_group_that_does_not_exist_cannot_be_continued() -> None:
    world = StreamsWorld()
    assert StreamsMember(world, "a").beat(3).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert StreamsMember(world, "a").beat(-1).code is ErrorCode.GROUP_ID_NOT_FOUND


# --- restarts and descriptions ---


def test_a_coordinator_that_takes_over_knows_all_and_begins_no_new_epoch() -> None:
    world = StreamsWorld(standby_count=1)
    first, second = running(world, "a", "b")
    before = {name: world.group.members[name] for name in "ab"}
    epoch, target = world.group.epoch, world.group.target
    world.restart()
    assert {name: world.group.members[name] for name in "ab"} == before
    assert world.group.holders
    world.settle(first, second)
    assert (world.group.epoch, world.group.target) == (epoch, target)
    world.advance(46_000)
    assert not world.group.members


def test_a_description_has_the_topology_and_every_members_tasks() -> None:
    world = StreamsWorld()
    first, second = running(world, "a", "b")
    found = world.shard.describe_streams_group(GROUP)
    assert (found.group_state, found.assignor_name) == ("Stable", "sticky")
    assert found.group_epoch == found.assignment_epoch == first.epoch == second.epoch
    assert found.topology is not None
    [_, counting] = found.topology.subtopologies or []
    assert [(info.name, info.partitions) for info in counting.state_changelog_topics] == [("app-c", 4)]
    assert [member.member_id for member in found.members] == ["a", "b"]
    assert all(member.assignment == member.target_assignment for member in found.members)
    with pytest.raises(ApiError, match=r"Group none not found\."):
        world.shard.describe_streams_group("none")


# --- groups of other kinds ---


def test_groups_of_other_kinds_are_told_apart() -> None:
    world = StreamsWorld()
    [member] = running(world, "a")
    asker = Asker("c", "/h", gives_own_id=True)
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    call = world.execute(lambda shard, now_ms: shard.consumer_heartbeat(consumer, asker, now_ms))
    assert call.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.shard.describe(GROUP).error_message == f"Group {GROUP} is not a classic group."
    assert join(world).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member.beat(-1)
    assert join(world).is_waiting
    assert world.shard.group(GROUP) is not None
    world.advance(60_000)
    assert StreamsMember(world, "b").beat().code is ErrorCode.NONE


def join(world: StreamsWorld) -> Call:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joiner = Joiner("c", "/h", False)
    call = Call()
    world.runtime.execute(0, lambda shard, now_ms: shard.join(request, joiner, call, now_ms), call)
    return call


def test_an_empty_group_is_deleted_with_all_its_records() -> None:
    world = StreamsWorld()
    [member] = running(world, "a")
    assert delete(world) is ErrorCode.NON_EMPTY_GROUP
    member.beat(-1)
    assert delete(world) is ErrorCode.NONE
    assert world.shard.group(GROUP) is None
    world.restart()
    assert world.shard.group(GROUP) is None


def delete(world: StreamsWorld) -> ErrorCode:
    call = Call()
    world.runtime.execute(0, lambda shard, now_ms: shard.delete_group(GROUP, call, now_ms), call)
    [outcome] = call.outcomes
    return outcome.code if isinstance(outcome, ApiError) else ErrorCode(outcome)


# --- offsets ---


def commit(
    world: StreamsWorld, committer: Committer, topic: str = "t", partition: int = 0, **options: Any
) -> ErrorCode:
    topics = [(topic, [(partition, 5, -1, "", -1)])]
    call = world.execute(
        lambda shard, now_ms: shard.commit_offsets(GROUP, committer, topics, lambda _: 4, now_ms, **options)
    )
    [outcome] = call.outcomes
    return outcome.code if isinstance(outcome, ApiError) else outcome[0][1][0][1]


def test_a_member_commits_with_its_epoch_or_with_an_older_one_that_had_the_task() -> None:
    world = StreamsWorld()
    [first] = running(world, "a")
    old = first.epoch
    [second] = running(world, "b")
    world.settle(first, second)
    assert first.epoch > old
    kept = min(partition for subtopology, partition in first.active if subtopology == "0")
    lost = next(partition for partition in range(4) if ("0", partition) not in first.active)
    assert commit(world, Committer(first.epoch, "a"), partition=lost) is ErrorCode.NONE
    assert commit(world, Committer(old, "a"), partition=kept) is ErrorCode.NONE
    assert commit(world, Committer(old, "a"), partition=lost) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, Committer(old, "a"), "other") is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, Committer(first.epoch + 1, "a")) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, Committer(first.epoch, "z")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, Committer(first.epoch, "a", knows_epochs=False)) is ErrorCode.UNSUPPORTED_VERSION
    producer = (7, 0)
    assert commit(world, Committer(old, "a"), partition=lost, producer=producer) is ErrorCode.ILLEGAL_GENERATION
    assert commit(world, Committer(first.epoch, "a"), partition=kept, producer=producer) is ErrorCode.NONE


def test_offsets_are_read_with_the_members_epoch() -> None:
    world = StreamsWorld()
    [member] = running(world, "a")
    commit(world, Committer(member.epoch, "a"))
    found = world.shard.fetch_offsets(GROUP, [("t", [0])], False, Committer(member.epoch, "a"))
    assert found["t"][0].committed is not None
    with pytest.raises(ApiError) as stale:
        world.shard.fetch_offsets(GROUP, [("t", [0])], False, Committer(member.epoch - 1, "a"))
    assert stale.value.code is ErrorCode.STALE_MEMBER_EPOCH
    call = world.execute(lambda shard, now_ms: shard.delete_offsets(GROUP, [("t", 0)], now_ms))
    assert call.outcomes == [{("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}]
