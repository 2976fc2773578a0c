"""Checks of StreamsGroupHeartbeat that need no group, and conversion of its lists to tasks and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.groups.streams.group import StreamsMember
from tidelog.groups.streams.tasks import Tasks, TaskSet, is_within
from tidelog.groups.streams.topology import Configured
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskIds
from tidelog.wire.messages.streams_group_heartbeat import Topology as WireTopology

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
UNCHANGED: Final = -1


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise ApiError for a heartbeat that no group would accept."""
    epoch = request.member_epoch
    joins = epoch == JOINS
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    faults = {
        "Static membership is not yet supported.": request.instance_id is not None,
        "WarmupTasks are not supported yet.": bool(request.warmup_tasks),
        "Regular expressions for source topics are not supported yet.": _has_patterns(request.topology),
        "MemberId can't be empty.": not request.member_id.strip(),
        "GroupId can't be empty.": not request.group_id.strip(),
        "RackId can't be empty.": request.rack_id is not None and not request.rack_id.strip(),
        "RebalanceTimeoutMs must be provided in first request.": joins and request.rebalance_timeout_ms == UNCHANGED,
        "ActiveTasks must be empty when (re-)joining.": joins and request.active_tasks != [],
        "StandbyTasks must be empty when (re-)joining.": joins and request.standby_tasks != [],
        "WarmupTasks must be empty when (re-)joining.": joins and request.warmup_tasks != [],
        "Topology must be non-null when (re-)joining.": joins and request.topology is None,
        "InstanceId can't be null.": epoch == LEAVES_FOR_NOW,
        f"MemberEpoch is {epoch}, but must be greater than or equal to -2.": epoch < LEAVES_FOR_NOW,
        "If one task-type is non-null, all must be non-null.": None in lists
        and any(each is not None for each in lists),
        "Topology can only be provided when (re-)joining.": not joins and request.topology is not None,
    }
    for fault, is_there in faults.items():
        if is_there:
            raise ApiError(ErrorCode.INVALID_REQUEST, fault)
    if request.topology is not None:
        _check_topology(request.topology)


def _has_patterns(topology: WireTopology | None) -> bool:
    return topology is not None and any(each.source_topic_regex for each in topology.subtopologies)


def _check_topology(topology: WireTopology) -> None:
    if topology.epoch < 0:
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, f"Topology epoch {topology.epoch} is negative.")
    names = [each.subtopology_id for each in topology.subtopologies]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Two subtopologies have the same id.")
    for subtopology in topology.subtopologies:
        for info in subtopology.repartition_source_topics:
            if info.partitions < 0:
                text = f"Repartition topic {info.name} cannot have {info.partitions} partitions."
                raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
        for info in subtopology.state_changelog_topics:
            if info.partitions:
                text = (
                    f"Changelog topic {info.name} must have an undefined partition count, but it is set to "
                    f"{info.partitions}."
                )
                raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's.

    The previous one is allowed, too, if the member has no other tasks than those of its epoch: the response with the
    new epoch was lost.
    """
    epoch = request.member_epoch
    if epoch in (JOINS, member.member_epoch):
        return
    owned = owned_tasks(request)
    if (
        epoch == member.previous_epoch
        and epoch < member.member_epoch
        and owned is not None
        and all(is_within(has, assigned) for has, assigned in zip(owned, member.assigned, strict=True))
    ):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    text = (
        f"The streams group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def check_owned(request: StreamsGroupHeartbeatRequest, configured: Configured) -> None:
    """Raise ApiError if the member reports tasks that the topology does not have."""
    for listed in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for entry in listed or ():
            subtopology = configured.subtopologies.get(entry.subtopology_id)
            if subtopology is None:
                text = f"Subtopology {entry.subtopology_id} does not exist in the topology."
                raise ApiError(ErrorCode.INVALID_REQUEST, text)
            for partition in entry.partitions:
                if not 0 <= partition < subtopology.task_count:
                    text = (
                        f"Task {partition} for subtopology {entry.subtopology_id} is invalid. Number of tasks for "
                        f"this subtopology: {subtopology.task_count}"
                    )
                    raise ApiError(ErrorCode.INVALID_REQUEST, text)


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """The tasks that a member reports; None if it reports none of the three lists."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TaskSet(_tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks))


def _tasks(listed: Iterable[TaskIds]) -> Tasks:
    return {entry.subtopology_id: frozenset(entry.partitions) for entry in listed if entry.partitions}


def to_wire(tasks: Tasks) -> list[TaskIds]:
    """Tasks as messages have them."""
    return [TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]
