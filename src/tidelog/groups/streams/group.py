"""A streams group and its members, as they are in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tidelog.groups.streams import schemas
from tidelog.groups.streams.schemas import CurrentTaskIds, CurrentValue, MemberValue
from tidelog.groups.streams.tasks import NOTHING, TaskId, TaskSet, task_ids
from tidelog.groups.streams.topology import Configured, Topology
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_heartbeat import TaskIds, TaskOffset

FIRST_EPOCH: Final = 1
"""The epoch of a group that has no record yet; no target was ever computed for it."""
NO_TOPOLOGY: Final = -1
NO_EPOCHS: Final[Mapping[TaskId, int]] = {}


class MemberState(IntEnum):
    """How far a member is with its target; the numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Role(IntEnum):
    """What a member does with a task, in the order of a `TaskSet`."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


class StreamsMember(NamedTuple):
    """One member; a decision appends a changed copy. The fields up to `client_tags` are those of its own record."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = NO_TOPOLOGY
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    member_epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: TaskSet = NOTHING
    revoking: TaskSet = NOTHING
    epochs: Mapping[TaskId, int] = NO_EPOCHS
    """Of active tasks, assigned or being revoked: the epoch in which the member got them."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch


class TaskProgress(NamedTuple):
    """How far a member is with its tasks, as it said last; not stored."""

    offsets: tuple[TaskOffset, ...] = ()
    end_offsets: tuple[TaskOffset, ...] = ()


class StreamsGroup:
    """State of one group. What is stored is changed by `replay` alone."""

    __slots__ = (
        "assignment_configs",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "catalog_version",
        "configured",
        "configured_hash",
        "delayed_until_ms",
        "endpoint_epoch",
        "epoch",
        "group_id",
        "holders",
        "members",
        "metadata_hash",
        "progress",
        "shutdown_by",
        "target",
        "topology",
        "validated_topology_epoch",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = NO_TOPOLOGY
        self.assignment_configs: Mapping[str, str] = {}
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, TaskSet] = {}
        self.topology: Topology | None = None
        self.holders: dict[TaskId, set[tuple[str, Role]]] = {}
        """Who has a task or has not confirmed its revocation: members, and as what."""
        # The rest is not stored; after a load it is found out with the first heartbeats.
        self.configured: Configured | None = None
        self.configured_hash = 0
        """Of the topics that the topology was compared with; a new epoch begins when `metadata_hash` differs."""
        self.catalog_version = -1
        self.delayed_until_ms = 0
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.progress: dict[str, TaskProgress] = {}

    # --- questions ---

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if is_reconciled else "Reconciling"

    def member(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def is_held(self, task: TaskId, role: Role, process_id: str) -> bool:
        """Whether a member that takes the task as this has to wait for its release.

        An active task has one owner in the group; of one process, no two members have the same task, whatever they do
        with it, because they share a state directory.
        """
        return any(
            (role is Role.ACTIVE and held_as is Role.ACTIVE) or self.members[member_id].process_id == process_id
            for member_id, held_as in self.holders.get(task, ())
        )

    def check_commit_epoch(self, member: StreamsMember, epoch: int, partitions: Iterable[tuple[str, int]]) -> None:
        """Raise ApiError unless the member in this epoch may commit offsets of these partitions.

        In an older epoch than its own it may, as long as it has had their tasks since then.
        """
        if epoch == member.member_epoch:
            return
        if epoch > member.member_epoch:
            text = f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}."
            raise ApiError(ErrorCode.STALE_MEMBER_EPOCH, text)
        for topic, partition in partitions:
            subtopology = None if self.topology is None else self.topology.subtopology_of.get(topic)
            if subtopology is None:
                raise ApiError(ErrorCode.STALE_MEMBER_EPOCH, f"Topic {topic} is not in the topology.")
            since = member.epochs.get((subtopology, partition))
            if since is None:
                text = f"Task {subtopology}-{partition} is not assigned or pending revocation for member."
                raise ApiError(ErrorCode.STALE_MEMBER_EPOCH, text)
            if epoch < since:
                text = f"Received member epoch {epoch} is older than assignment epoch {since} of the task."
                raise ApiError(ErrorCode.STALE_MEMBER_EPOCH, text)

    # --- replay ---

    def replay(self, kind: int, member_id: str, value: bytes | None) -> None:
        """Apply a record; raises SchemaError if it cannot be read. The owner removes the group itself."""
        stored: Any = None if value is None else schemas.read_value(kind, value)
        if kind == schemas.GROUP:
            self._replay_group(stored)
        elif kind == schemas.TARGET_EPOCH:
            self.assignment_epoch = FIRST_EPOCH if stored is None else stored.assignment_epoch
            self.assignment_timestamp_ms = 0 if stored is None else stored.assignment_timestamp
        elif kind == schemas.TARGET:
            if stored is None:
                self.target.pop(member_id, None)
            else:
                self.target[member_id] = _tasks(stored.active_tasks, stored.standby_tasks, stored.warmup_tasks)
        elif kind == schemas.MEMBER:
            self._replay_member(member_id, stored)
        elif kind == schemas.CURRENT:
            self._replay_current(member_id, stored)
        elif kind == schemas.TOPOLOGY:
            self.topology = None if stored is None else Topology(stored)
            self.configured = None

    def _replay_group(self, stored: Any) -> None:
        self.epoch = stored.epoch
        self.metadata_hash = stored.metadata_hash
        self.validated_topology_epoch = stored.validated_topology_epoch
        self.assignment_configs = {each.key: each.value for each in stored.last_assignment_configs or ()}

    def _replay_member(self, member_id: str, stored: MemberValue | None) -> None:
        old = self.members.get(member_id)
        if stored is None:
            if old is not None:
                self._release(old)
                del self.members[member_id]
                self.progress.pop(member_id, None)
            if not self.members:
                self.shutdown_by = None
            return
        endpoint = stored.user_endpoint
        self.members[member_id] = (old or StreamsMember(member_id))._replace(
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            topology_epoch=stored.topology_epoch,
            process_id=stored.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=tuple((tag.key, tag.value) for tag in stored.client_tags),
        )

    def _replay_current(self, member_id: str, stored: CurrentValue | None) -> None:
        # A compacted log may have a member's own record behind this one.
        old = self.members.get(member_id)
        if old is None:
            if stored is None:
                return
            old = StreamsMember(member_id)
        self._release(old)
        if stored is None:
            self.members[member_id] = old._replace(
                member_epoch=0,
                previous_epoch=0,
                state=MemberState.STABLE,
                assigned=NOTHING,
                revoking=NOTHING,
                epochs={},
            )
            return
        known = stored.state in MemberState._value2member_map_
        member = self.members[member_id] = old._replace(
            member_epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            state=MemberState(stored.state) if known else MemberState.UNKNOWN,
            assigned=_tasks(stored.active_tasks, stored.standby_tasks, stored.warmup_tasks),
            revoking=_tasks(
                stored.active_tasks_pending_revocation,
                stored.standby_tasks_pending_revocation,
                stored.warmup_tasks_pending_revocation,
            ),
            epochs=_epochs(stored),
        )
        for task, role in _held(member):
            self.holders.setdefault(task, set()).add((member_id, role))

    def _release(self, member: StreamsMember) -> None:
        for task, role in _held(member):
            holders = self.holders.get(task)
            if holders is not None:
                holders.discard((member.member_id, role))
                if not holders:
                    del self.holders[task]


def _held(member: StreamsMember) -> Iterable[tuple[TaskId, Role]]:
    for tasks in (member.assigned, member.revoking):
        for role in Role:
            for task in task_ids(tasks[role]):
                yield task, role


def _tasks(
    active: Iterable[TaskIds | CurrentTaskIds],
    standby: Iterable[TaskIds | CurrentTaskIds],
    warmup: Iterable[TaskIds | CurrentTaskIds],
) -> TaskSet:
    return TaskSet(
        *(
            {each.subtopology_id: frozenset(each.partitions) for each in of if each.partitions}
            for of in (active, standby, warmup)
        )
    )


def _epochs(stored: CurrentValue) -> dict[TaskId, int]:
    """A record of an older version has none: the member's epoch stands for them."""
    found = {}
    for entry in (*stored.active_tasks_pending_revocation, *stored.active_tasks):
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = [stored.member_epoch] * len(entry.partitions)
        for partition, epoch in zip(entry.partitions, epochs, strict=True):
            found[entry.subtopology_id, partition] = epoch
    return found
