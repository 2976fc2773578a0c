"""The records of a decision about a streams group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.coordination import StateRecord
from tidelog.groups.streams import schemas
from tidelog.groups.streams.checks import to_wire
from tidelog.groups.streams.group import StreamsGroup, StreamsMember
from tidelog.groups.streams.schemas import CurrentTaskIds
from tidelog.groups.streams.tasks import TaskId, Tasks, TaskSet
from tidelog.groups.streams.topology import Topology
from tidelog.wire.messages.streams_group_heartbeat import Endpoint, KeyValue


def group_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> StateRecord:
    value = schemas.GroupValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[KeyValue(key=name, value=configs[name]) for name in sorted(configs)] or None,
    )
    return schemas.record(schemas.GROUP, group_id, "", value)


def topology_record(group_id: str, topology: Topology) -> StateRecord:
    return schemas.record(schemas.TOPOLOGY, group_id, "", topology.value)


def member_record(group_id: str, member: StreamsMember) -> StateRecord:
    """What a member says of itself."""
    endpoint = None if member.endpoint is None else Endpoint(host=member.endpoint[0], port=member.endpoint[1])
    value = schemas.MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=endpoint,
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
    )
    return schemas.record(schemas.MEMBER, group_id, member.member_id, value)


def current_record(group_id: str, member: StreamsMember) -> StateRecord:
    """A member's current tasks, and those it is revoking."""
    value = schemas.CurrentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_current(member.assigned.active, member.epochs),
        standby_tasks=_current(member.assigned.standby),
        warmup_tasks=_current(member.assigned.warmup),
        active_tasks_pending_revocation=_current(member.revoking.active, member.epochs),
        standby_tasks_pending_revocation=_current(member.revoking.standby),
        warmup_tasks_pending_revocation=_current(member.revoking.warmup),
    )
    return schemas.record(schemas.CURRENT, group_id, member.member_id, value)


def _current(tasks: Tasks, epochs: Mapping[TaskId, int] | None = None) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=name,
            partitions=(partitions := sorted(tasks[name])),
            assignment_epochs=None if epochs is None else [epochs[name, partition] for partition in partitions],
        )
        for name in sorted(tasks)
    ]


def target_records(
    group: StreamsGroup, epoch: int, target: Mapping[str, TaskSet], now_ms: int
) -> Iterator[StateRecord]:
    """The targets that are others than before, and their epoch."""
    for member_id, tasks in target.items():
        if group.target.get(member_id) != tasks:
            value = schemas.TargetValue(
                active_tasks=to_wire(tasks.active),
                standby_tasks=to_wire(tasks.standby),
                warmup_tasks=to_wire(tasks.warmup),
            )
            yield schemas.record(schemas.TARGET, group.group_id, member_id, value)
    computed = schemas.TargetEpochValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    yield schemas.record(schemas.TARGET_EPOCH, group.group_id, "", computed)


def member_tombstones(group_id: str, member_id: str) -> Iterator[StateRecord]:
    for kind in (schemas.CURRENT, schemas.TARGET, schemas.MEMBER):
        yield schemas.record(kind, group_id, member_id, None)
