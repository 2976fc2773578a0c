"""Requests of Kafka Streams, and what other clients ask of its group: played on any broker, answers written down."""

from __future__ import annotations

import time
from typing import Any, Final

from tests.compat.groups.raw import Transcript, Wire
from tests.compat.groups.scenarios import TOPIC, Connect
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tidelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from tidelog.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

SETTINGS: Final = {
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
DEADLINE_S: Final = 30.0


def topology(group: str, epoch: int = 0) -> Topology:
    """A count of words: one repartition topic, one changelog."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=[TOPIC], repartition_sink_topics=[f"{group}-r"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name=f"{group}-r")],
                state_changelog_topics=[
                    TopicInfo(name=f"{group}-c", topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
                ],
            ),
        ],
    )


def joining(group: str, member: str, **fields: Any) -> StreamsGroupHeartbeatRequest:
    values: dict[str, Any] = {
        "topology": topology(group),
        "process_id": f"process-{member}",
        "rebalance_timeout_ms": 30_000,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "client_tags": [],
    }
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=member, **{**values, **fields})


def staying(group: str, member: str, epoch: int, active: list[TaskIds] | None = None) -> StreamsGroupHeartbeatRequest:
    lists: dict[str, Any] = {}
    if active is not None:
        lists = {"active_tasks": active, "standby_tasks": [], "warmup_tasks": []}
    return StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **lists)


def tasks(*partitions: int) -> list[TaskIds]:
    """Of both subtopologies."""
    return [TaskIds(subtopology_id=name, partitions=list(partitions)) for name in "01"] if partitions else []


def note(transcript: Transcript, what: str, reply: Any) -> Any:
    """With the text of the error, which for these requests is Kafka's."""
    return transcript.note(f"{what} {reply.error_message!r}", reply)


def begun(connect: Connect, transcript: Transcript, group: str) -> tuple[Wire, Any]:
    """A member `a` with every task."""
    wire = connect()
    transcript.call("a", "a")
    first = wire.ask(joining(group, "a"), 0)
    for status in first.status:
        text, _, names = status.status_detail.partition(": ")
        status.status_detail = f"{text}: {sorted(names.split(', '))}"  # Kafka's order is that of a hash table
    note(transcript, "first", first)
    deadline = time.monotonic() + DEADLINE_S
    reply = first
    while reply.active_tasks is None or not reply.active_tasks:
        assert time.monotonic() < deadline, f"no task was assigned: {reply}"
        reply = wire.ask(staying(group, "a", reply.member_epoch, []), 0)
    note(transcript, "with tasks", reply)
    return wire, reply


def a_second_member_takes_over_tasks(connect: Connect, transcript: Transcript) -> None:
    group = "streams-two"
    wire, first = begun(connect, transcript, group)
    second = note(transcript, "b joins", wire.ask(joining(group, "b"), 0))
    revoking = note(transcript, "a is told", wire.ask(staying(group, "a", first.member_epoch), 0))
    note(transcript, "b waits", wire.ask(staying(group, "b", second.member_epoch, []), 0))
    note(transcript, "described", wire.ask(StreamsGroupDescribeRequest(group_ids=[group, "none"]), 0).groups[1])
    kept = note(transcript, "a gave up", wire.ask(staying(group, "a", revoking.member_epoch, tasks(0)), 0))
    taken = note(transcript, "b has", wire.ask(staying(group, "b", second.member_epoch, []), 0))
    note(transcript, "old epoch", wire.ask(staying(group, "a", kept.member_epoch - 1), 0))
    note(transcript, "old epoch, no more tasks", wire.ask(staying(group, "a", kept.member_epoch - 1, tasks(0)), 0))
    note(transcript, "new epoch", wire.ask(staying(group, "b", taken.member_epoch + 5, []), 0))
    note(transcript, "b leaves", wire.ask(staying(group, "b", -1), 0))
    note(transcript, "b is gone", wire.ask(staying(group, "b", taken.member_epoch, []), 0))
    note(transcript, "a alone", wire.ask(staying(group, "a", kept.member_epoch, tasks(0)), 0))


def heartbeats_that_are_refused(connect: Connect, transcript: Transcript) -> None:
    group = "streams-refused"
    wire, first = begun(connect, transcript, group)
    epoch = first.member_epoch
    requests = {
        "no group": staying("streams-none", "a", 3),
        "no member": staying(group, "z", 3),
        "leaves as no member": staying(group, "z", -1),
        "leaves no group": staying("streams-none", "z", -1),
        "static": joining(group, "s", instance_id="i"),
        "static, for now": staying(group, "a", -2),
        "below": staying(group, "a", -3),
        "no id": joining(group, ""),
        "no group id": joining("", "a"),
        "no rack": joining(group, "a", rack_id=""),
        "no timeout": joining(group, "n", rebalance_timeout_ms=-1),
        "owns when joining": joining(group, "n", active_tasks=tasks(0)),
        "no lists": joining(group, "n", standby_tasks=None),
        "one list": StreamsGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=epoch, active_tasks=[]),
        "no topology": joining(group, "n", topology=None),
        "topology later": joining(group, "a", member_epoch=epoch),
        "other topology": joining(group, "n", topology=topology(group, epoch=1)),
        "unknown subtopology": staying(group, "a", epoch, [TaskIds(subtopology_id="9", partitions=[0])]),
        "unknown task": staying(group, "a", epoch, tasks(7)),
        "internal topic": joining("streams-i", "a", topology=reading("__consumer_offsets")),
        "invalid topic": joining("streams-i", "a", topology=reading("a b")),
        "pattern": joining(
            "streams-i",
            "a",
            topology=Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["x.*"])]),
        ),
        "counted changelog": joining("streams-i", "a", topology=reading(TOPIC, TopicInfo(name="c", partitions=2))),
        "no source": joining("streams-i", "a", topology=Topology(subtopologies=[Subtopology(subtopology_id="0")])),
        "unwritten": joining(
            "streams-i",
            "a",
            topology=Topology(
                subtopologies=[Subtopology(subtopology_id="0", repartition_source_topics=[TopicInfo(name="r")])]
            ),
        ),
    }
    for what, request in requests.items():
        note(transcript, what, wire.ask(request, 0))
    for what, wrong in (("missing", reading("not-there")), ("unequal", unequal())):
        note(transcript, what, wire.ask(joining(f"streams-{what}", "a", topology=wrong), 0))
    transcript.note("described", wire.ask(StreamsGroupDescribeRequest(group_ids=["streams-missing"]), 0))


def reading(topic: str, *changelogs: TopicInfo) -> Topology:
    return Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic], state_changelog_topics=list(changelogs))]
    )


def unequal() -> Topology:
    """A topic of two partitions joined with a repartition topic of five."""
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=[TOPIC],
                repartition_source_topics=[TopicInfo(name="five", partitions=5)],
                repartition_sink_topics=["five"],
                copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
            )
        ]
    )


def the_whole_application_shuts_down(connect: Connect, transcript: Transcript) -> None:
    group = "streams-down"
    wire, first = begun(connect, transcript, group)
    request = staying(group, "a", first.member_epoch)
    request.shutdown_application = True
    note(transcript, "asked", wire.ask(request, 0))
    note(transcript, "again", wire.ask(staying(group, "a", first.member_epoch), 0))
    note(transcript, "left", wire.ask(staying(group, "a", -1), 0))
    endpoint = Endpoint(host="h", port=9)
    note(transcript, "back", wire.ask(joining(group, "a", user_endpoint=endpoint, endpoint_information_epoch=-1), 0))


def other_requests_meet_a_streams_group(connect: Connect, transcript: Transcript) -> None:
    group = "streams-others"
    wire, first = begun(connect, transcript, group)
    epoch = first.member_epoch
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="c", rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )
    transcript.note("consumer", wire.ask(consumer, 1).error_code)
    share = ShareGroupHeartbeatRequest(group_id=group, member_id="c", subscribed_topic_names=[TOPIC])
    transcript.note("share", wire.ask(share, 1).error_code)
    classic = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    transcript.note("classic", wire.ask(classic, 9).error_code)
    transcript.note("classic describe", wire.ask(DescribeGroupsRequest(groups=[group]), 5))
    found = wire.ask(ListGroupsRequest(types_filter=["Streams"]), 5).groups
    transcript.note("listed", [each for each in found if each.group_id == group])
    transcript.note("delete", wire.ask(DeleteGroupsRequest(groups_names=[group]), 2))
    for what, sender, sent, topic in (
        ("commit", "a", epoch, TOPIC),
        ("older", "a", epoch - 1, TOPIC),
        ("newer", "a", epoch + 1, TOPIC),
        ("stranger", "z", epoch, TOPIC),
        ("no member", "", -1, TOPIC),
    ):
        transcript.note(what, wire.ask(committing(group, sender, sent, topic), 9))
    transcript.note("old version", wire.ask(committing(group, "a", epoch, TOPIC), 8))
    for what, sender, sent in (("fetch", "a", epoch), ("older", "a", epoch - 1), ("stranger", "z", epoch)):
        asked = OffsetFetchRequestGroup(
            group_id=group,
            member_id=sender,
            member_epoch=sent,
            topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
        )
        transcript.note(f"{what} offsets", wire.ask(OffsetFetchRequest(groups=[asked]), 9).groups[0].error_code)
    forget = OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
    )
    transcript.note("forget", wire.ask(forget, 0))
    wire.ask(staying(group, "a", -1), 0)
    transcript.note("forget when empty", wire.ask(forget, 0))
    transcript.note("delete when empty", wire.ask(DeleteGroupsRequest(groups_names=[group]), 2))
    transcript.note("deleted", wire.ask(StreamsGroupDescribeRequest(group_ids=[group]), 0))


def committing(group: str, member: str, epoch: int, topic: str) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
            )
        ],
    )


STREAMS: Final = (
    a_second_member_takes_over_tasks,
    heartbeats_that_are_refused,
    the_whole_application_shuts_down,
    other_requests_meet_a_streams_group,
)
