"""Streams groups as clients see them: descriptions, and where the partitions of an application are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.groups.streams.checks import to_wire
from tidelog.groups.streams.group import StreamsGroup, StreamsMember, TaskProgress
from tidelog.groups.streams.tasks import NOTHING, Tasks, TaskSet
from tidelog.groups.streams.topology import Configured, InternalTopic, Topology, source_topics
from tidelog.wire.messages.streams_group_describe import Assignment, DescribedGroup, Member, Subtopology
from tidelog.wire.messages.streams_group_describe import Topology as DescribedTopology
from tidelog.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    KeyValue,
    TaskIds,
    TopicInfo,
    TopicPartition,
)
from tidelog.wire.messages.streams_group_heartbeat import Subtopology as SentSubtopology

ASSIGNOR = "sticky"


def described(group: StreamsGroup) -> DescribedGroup:
    """A group with its topology and members."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=None if group.topology is None else _topology(group.topology, group.configured),
        members=[_member(group, member) for member in group.members.values()],
        assignor_name=ASSIGNOR,
    )


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    progress = group.progress.get(member.member_id, TaskProgress())
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(host=member.endpoint[0], port=member.endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        task_offsets=list(progress.offsets),
        task_end_offsets=list(progress.end_offsets),
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target.get(member.member_id, NOTHING)),
    )


def _assignment(tasks: TaskSet) -> Assignment:
    return Assignment(
        active_tasks=to_wire(tasks.active), standby_tasks=to_wire(tasks.standby), warmup_tasks=to_wire(tasks.warmup)
    )


def _topology(topology: Topology, configured: Configured | None) -> DescribedTopology:
    """With the numbers of partitions once the topics are as they have to be, else as the members sent it."""
    is_ready = configured is not None and configured.is_ready
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            _subtopology(each, configured if is_ready else None) for each in topology.subtopologies.values()
        ],
    )


def _subtopology(sent: SentSubtopology, configured: Configured | None) -> Subtopology:
    found = None if configured is None else configured.subtopologies.get(sent.subtopology_id)
    changelogs, repartitions = sent.state_changelog_topics, sent.repartition_source_topics
    return Subtopology(
        subtopology_id=sent.subtopology_id,
        source_topics=sorted(sent.source_topics),
        repartition_sink_topics=sorted(sent.repartition_sink_topics),
        state_changelog_topics=_by_name(changelogs if found is None else map(_info, found.changelogs.values())),
        repartition_source_topics=_by_name(
            repartitions if found is None else map(_info, found.repartition_sources.values())
        ),
    )


def _by_name(infos: Iterable[TopicInfo]) -> list[TopicInfo]:
    return sorted(infos, key=lambda info: info.name)


def _info(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=max(topic.replication_factor, 0),
        topic_configs=[KeyValue(key=key, value=value) for key, value in topic.overrides.items()],
    )


def endpoint_partitions(
    member: StreamsMember, topology: Topology | None, partition_count_of: Callable[[str], int | None]
) -> EndpointToPartitions:
    """The partitions whose records a member with an endpoint can be asked for."""
    assert member.endpoint is not None, f"{member.member_id} has an endpoint"

    def partitions(*of: Tasks) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for entry in (entry for tasks in of for entry in to_wire(tasks)):
            found += _of_task(entry, topology, partition_count_of)
        return found

    host, port = member.endpoint
    return EndpointToPartitions(
        user_endpoint=Endpoint(host=host, port=port),
        active_partitions=partitions(member.assigned.active),
        standby_partitions=partitions(member.assigned.standby, member.assigned.warmup),
    )


def _of_task(
    entry: TaskIds, topology: Topology | None, partition_count_of: Callable[[str], int | None]
) -> list[TopicPartition]:
    """A topic with fewer partitions than its subtopology has tasks is read by the first of them."""
    subtopology = None if topology is None else topology.subtopologies.get(entry.subtopology_id)
    if subtopology is None:
        return []
    return [
        TopicPartition(
            topic=name,
            partitions=[partition for partition in entry.partitions if partition < (partition_count_of(name) or 0)],
        )
        for name in source_topics(subtopology)
    ]
