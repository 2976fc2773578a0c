"""Streams groups for the shard: heartbeats, timeouts and descriptions (KIP-1071)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.coordination import Decision, SetTimer, StateRecord, TimerChange
from tidelog.groups.classic.states import GroupState
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.timers import REVOCATION, SESSION, cancel, set_timer
from tidelog.groups.records import RecordKey
from tidelog.groups.schemas import SchemaError, group_key
from tidelog.groups.streams import records as made
from tidelog.groups.streams import schemas
from tidelog.groups.streams.assignor import Candidate, SubtopologyTasks, assign_sticky
from tidelog.groups.streams.checks import (
    JOINS,
    UNCHANGED,
    check_epoch,
    check_owned,
    check_request,
    owned_tasks,
    to_wire,
)
from tidelog.groups.streams.describing import described, endpoint_partitions
from tidelog.groups.streams.group import (
    NO_TOPOLOGY,
    MemberState,
    StreamsGroup,
    StreamsMember,
    TaskProgress,
)
from tidelog.groups.streams.reconciliation import next_step
from tidelog.groups.streams.tasks import NOTHING, TaskSet
from tidelog.groups.streams.topology import Configured, InternalTopic, StatusCode, Topology, configure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_describe import DescribedGroup
from tidelog.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tidelog.groups.classic.group import Group

logger = logging.getLogger(__name__)

INITIAL: Final = "initial rebalance"
"""The end of the time in which a new group waits for more members."""
PURPOSES: Final = frozenset({SESSION, REVOCATION, INITIAL})
_STANDBY_COUNT: Final = "num.standby.replicas"
_HASH_BYTES: Final = 8


class StreamsSettings(NamedTuple):
    """Settings of one group; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    size_max: int = 2**31 - 1
    standby_count: int = 0
    initial_delay_ms: int = 3_000
    assignment_interval_ms: int = 1_000


SettingsOf = Callable[[str], StreamsSettings]


class Heartbeat(NamedTuple):
    """The response to a heartbeat, and the internal topics that are to be created."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


class _Target(NamedTuple):
    """What one member should have, and in which epoch."""

    epoch: int
    tasks: TaskSet


class StreamsGroups:
    """The shard's interface to streams groups."""

    def __init__(self, catalog: Catalog, settings_of: SettingsOf) -> None:
        self._catalog = catalog
        self._settings_of = settings_of
        self._created: StreamsGroup | None = None
        """The group that the last heartbeat was to create. Replay takes it, with what it has that is not stored."""

    # --- replay ---

    def replay(self, group: Group, key: RecordKey, value: bytes | None) -> None:
        """Apply a record; one that cannot be read is skipped."""
        if key.kind == schemas.GROUP and value is None:
            group.streams = None
            return
        if group.streams is None:
            if value is None:
                return
            created, self._created = self._created, None
            is_it = created is not None and created.group_id == key.group_id
            group.streams = created if is_it else StreamsGroup(key.group_id)
            group.pending_members.clear()  # a later classic group would wait for them
        assert group.streams is not None, "it was there or has been made"
        try:
            group.streams.replay(key.kind, key.member_id, value)
        except SchemaError as error:
            logger.error("a record of streams group %s is skipped: %s", group.group_id, error)

    def timers(self, group: Group) -> Iterator[SetTimer]:
        """The timers after a load: each member's session timeout, and its deadline for revoking tasks."""
        if group.streams is None:
            return
        session_ms = self._settings_of(group.group_id).session_timeout_ms
        for member in group.streams.members.values():
            yield set_timer(SESSION, group.group_id, member.member_id, session_ms)
            if member.state is MemberState.UNREVOKED_TASKS:
                yield set_timer(REVOCATION, group.group_id, member.member_id, member.rebalance_timeout_ms)

    # --- heartbeats ---

    def heartbeat(
        self, found: Group | None, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str, now_ms: int
    ) -> Decision[Heartbeat]:
        """Join, stay in or leave a group. An empty classic group becomes a streams group."""
        check_request(request)
        if request.member_epoch < 0:
            return self._leave(_known(found, request.group_id), request)
        before: list[StateRecord] = []
        if found is not None and found.streams is not None:
            group = found.streams
        elif request.member_epoch == JOINS and (found is None or _is_empty_classic(found)):
            group = self._created = StreamsGroup(request.group_id)
            if found is not None and found.generation > 0:
                before.append((group_key(found.group_id), None))
        else:
            group = _known(found, request.group_id, "Streams group")
        settings = self._settings_of(group.group_id)
        member = _member(group, request, settings)
        updated = _updated(member, request, client_id, client_host)
        return _Step(self._catalog, settings, group, before, now_ms).take(request, member, updated)

    def _leave(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> Decision[Heartbeat]:
        if request.shutdown_application:
            _ask_for_shutdown(group, request.member_id)
        decision = self._remove(group, group.member(request.member_id))
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        return decision._replace(reply=Heartbeat(response))

    def _remove(self, group: StreamsGroup, member: StreamsMember) -> Decision[Any]:
        """A member left or timed out: the others get its tasks, beginning with their next heartbeats."""
        group_id, member_id = group.group_id, member.member_id
        records = [
            *made.member_tombstones(group_id, member_id),
            made.group_record(
                group_id,
                group.epoch + 1,
                group.metadata_hash,
                group.validated_topology_epoch,
                group.assignment_configs,
            ),
        ]
        return Decision(records=tuple(records), timers=tuple(cancel(group_id, member_id, SESSION, REVOCATION)))

    def on_timer(self, group: StreamsGroup, purpose: str, member_id: str, now_ms: int) -> Decision[Any]:
        """A member is late, or a new group has waited long enough for more members."""
        if purpose == INITIAL:
            group.delayed_until_ms = 0
            settings = self._settings_of(group.group_id)
            return _Step(self._catalog, settings, group, [], now_ms).assign_now()
        member = group.members.get(member_id)
        if member is None or (purpose == REVOCATION and member.state is not MemberState.UNREVOKED_TASKS):
            return Decision()
        logger.info("streams group %s removes %s: its %s timed out", group.group_id, member_id, purpose)
        return self._remove(group, member)

    def describe(self, group: Group | None, group_id: str) -> DescribedGroup:
        """A group as StreamsGroupDescribe shows it; raises ApiError for one of another kind, or none."""
        return described(_known(group, group_id))


class _Step:
    """One decision about a group: what changes in it, and the step of one member."""

    def __init__(
        self, catalog: Catalog, settings: StreamsSettings, group: StreamsGroup, records: list[StateRecord], now_ms: int
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._group = group
        self._records = records
        self._now_ms = now_ms
        self._status: list[Status] = []
        self._timers: list[TimerChange] = []

    def take(
        self, request: StreamsGroupHeartbeatRequest, member: StreamsMember | None, updated: StreamsMember
    ) -> Decision[Heartbeat]:
        """Decide a heartbeat of a member of the group."""
        group, settings = self._group, self._settings
        has_changed = updated != member
        if has_changed:
            self._records.append(made.member_record(group.group_id, updated))
        topology = self._topology(request)
        if group.topology is not None and updated.topology_epoch < group.topology.epoch:
            text = (
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch "
                f"{group.topology.epoch}."
            )
            self._tell(StatusCode.STALE_TOPOLOGY, text)
        configured = self._configure(topology)
        if configured.is_ready:
            check_owned(request, configured)
        epoch = self._next_epoch(has_changed, topology, configured)
        self._delay()
        target = self._target(epoch, configured, updated)
        stepped = self._reconcile(updated, target, request)
        self._timers.append(set_timer(SESSION, group.group_id, updated.member_id, settings.session_timeout_ms))
        if request.shutdown_application:
            _ask_for_shutdown(group, updated.member_id)
        if request.task_offsets is not None or request.task_end_offsets is not None:
            _keep_progress(group, request)
        response = self._response(request, member, stepped, configured)
        return Decision(Heartbeat(response, configured.missing), tuple(self._records), tuple(self._timers))

    def assign_now(self) -> Decision[Any]:
        """The group has waited long enough for more members."""
        group = self._group
        if group.is_empty or group.topology is None or group.epoch <= group.assignment_epoch:
            return Decision()
        self._compute(group.epoch, self._configure(group.topology), group.members)
        return Decision(records=tuple(self._records))

    # --- the topology ---

    def _topology(self, request: StreamsGroupHeartbeatRequest) -> Topology:
        """The group's topology. The first member brings it; later ones have the same, or an older one."""
        group, sent = self._group, request.topology
        if sent is None:
            if group.topology is None:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"streams group {group.group_id} has no topology")
            return group.topology
        theirs = Topology(schemas.TopologyValue(epoch=sent.epoch, subtopologies=sent.subtopologies))
        if group.topology is None:
            self._records.append(made.topology_record(group.group_id, theirs))
            return theirs
        if group.topology.epoch <= theirs.epoch and not group.topology.is_like(theirs):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _configure(self, topology: Topology) -> Configured:
        """The topology beside the topics, compared again when these may have changed."""
        group = self._group
        if group.configured is None or group.catalog_version != self._catalog.version:
            group.configured = configure(topology, self._partition_count)
            group.configured_hash = self._metadata_hash(topology)
            group.catalog_version = self._catalog.version
        return group.configured

    def _partition_count(self, name: str) -> int | None:
        topic = self._catalog.topic(name)
        return None if topic is None else topic.partition_count

    def _metadata_hash(self, topology: Topology) -> int:
        """A number that changes with the topics of a topology: those that are there, their ids and partitions."""
        digest = hashlib.blake2b(digest_size=_HASH_BYTES)
        for name in sorted(topology.required_topics()):
            topic = self._catalog.topic(name)
            if topic is not None:
                digest.update(b"%s\0%s%d\0" % (name.encode(), topic.topic_id, topic.partition_count))
        return int.from_bytes(digest.digest(), "big", signed=True)

    # --- epochs and targets ---

    def _next_epoch(self, has_changed: bool, topology: Topology, configured: Configured) -> int:
        """The group's epoch, the next one if something has changed that the target depends on."""
        group = self._group
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY
        configs = self._configs()
        if (
            not has_changed
            and group.configured_hash == group.metadata_hash
            and validated == group.validated_topology_epoch
            and configs == group.assignment_configs
        ):
            return group.epoch
        epoch = group.epoch + 1
        self._records.append(made.group_record(group.group_id, epoch, group.configured_hash, validated, configs))
        return epoch

    def _configs(self) -> Mapping[str, str]:
        return {_STANDBY_COUNT: str(self._settings.standby_count)}

    def _delay(self) -> None:
        """The first member of an empty group waits for others."""
        group, delay_ms = self._group, self._settings.initial_delay_ms
        if group.is_empty and delay_ms > 0 and self._now_ms >= group.delayed_until_ms:
            group.delayed_until_ms = self._now_ms + delay_ms
            self._timers.append(SetTimer((INITIAL, group.group_id, ""), delay_ms))

    def _target(self, epoch: int, configured: Configured, updated: StreamsMember) -> _Target:
        group = self._group
        if self._now_ms < group.delayed_until_ms:
            text = "Assignment delayed due to the configured initial rebalance delay."
            self._tell(StatusCode.ASSIGNMENT_DELAYED, text)
            return _Target(group.assignment_epoch, NOTHING)
        last = _Target(group.assignment_epoch, group.target.get(updated.member_id, NOTHING))
        if epoch <= group.assignment_epoch:
            return last
        computed_ms = group.assignment_timestamp_ms
        if computed_ms and self._now_ms < computed_ms + self._settings.assignment_interval_ms:
            text = "Assignment delayed due to the configured assignment interval."
            self._tell(StatusCode.ASSIGNMENT_DELAYED, text)
            return last
        target = self._compute(epoch, configured, {**group.members, updated.member_id: updated})
        return _Target(epoch, target[updated.member_id])

    def _compute(
        self, epoch: int, configured: Configured, members: Mapping[str, StreamsMember]
    ) -> Mapping[str, TaskSet]:
        """The target of every member; nothing, as long as the topics are not as they have to be."""
        group = self._group
        if configured.is_ready:
            tasks = [
                SubtopologyTasks(name, each.task_count, each.is_stateful)
                for name, each in configured.subtopologies.items()
            ]
            candidates = {
                member_id: Candidate(member.process_id, group.target.get(member_id, NOTHING))
                for member_id, member in members.items()
            }
            target: Mapping[str, TaskSet] = assign_sticky(candidates, tasks, self._settings.standby_count)
        else:
            target = dict.fromkeys(members, NOTHING)
        self._records += made.target_records(group, epoch, target, self._now_ms)
        return target

    def _reconcile(
        self, updated: StreamsMember, target: _Target, request: StreamsGroupHeartbeatRequest
    ) -> StreamsMember:
        group = self._group
        stepped = next_step(
            updated,
            target.epoch,
            target.tasks,
            owned_tasks(request),
            lambda task, role: group.is_held(task, role, updated.process_id),
        )
        if stepped != updated:
            self._records.append(made.current_record(group.group_id, stepped))
            if stepped.state is MemberState.UNREVOKED_TASKS:
                timeout_ms = stepped.rebalance_timeout_ms
                self._timers.append(set_timer(REVOCATION, group.group_id, stepped.member_id, timeout_ms))
            else:
                self._timers += cancel(group.group_id, stepped.member_id, REVOCATION)
        return stepped

    # --- the response ---

    def _tell(self, code: StatusCode, detail: str) -> None:
        self._status.append(Status(status_code=code, status_detail=detail))

    def _response(
        self,
        request: StreamsGroupHeartbeatRequest,
        member: StreamsMember | None,
        stepped: StreamsMember,
        configured: Configured,
    ) -> StreamsGroupHeartbeatResponse:
        group = self._group
        response = StreamsGroupHeartbeatResponse(
            member_id=stepped.member_id,
            member_epoch=stepped.member_epoch,
            heartbeat_interval_ms=self._settings.heartbeat_interval_ms,
        )
        if request.member_epoch == JOINS or member is None or stepped.assigned != member.assigned:
            response.active_tasks = to_wire(stepped.assigned.active)
            response.standby_tasks = to_wire(stepped.assigned.standby)
            response.warmup_tasks = to_wire(stepped.assigned.warmup)
            if stepped.endpoint is not None:
                group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            members = {**group.members, stepped.member_id: stepped}.values()
            response.partitions_by_user_endpoint = [
                endpoint_partitions(each, group.topology, self._partition_count)
                for each in members
                if each.endpoint is not None
            ]
        response.endpoint_information_epoch = group.endpoint_epoch
        if configured.fault is not None:
            self._tell(*configured.fault)
        if group.shutdown_by is not None:
            text = (
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the "
                "entire application."
            )
            self._tell(StatusCode.SHUTDOWN_APPLICATION, text)
        response.status = self._status
        return response


def _known(group: Group | None, group_id: str, noun: str = "Group") -> StreamsGroup:
    """The streams group; raises ApiError if there is none."""
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{noun} {group_id} not found.")
    if group.streams is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    return group.streams


def _is_empty_classic(group: Group) -> bool:
    return group.consumer is None and group.streams is None and group.state is GroupState.EMPTY


def _member(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, settings: StreamsSettings
) -> StreamsMember | None:
    """The member that sent the heartbeat, or None if it is new; raises ApiError if it is not allowed."""
    if request.member_epoch != JOINS or request.member_id in group.members:
        member = group.member(request.member_id)
        check_epoch(member, request)
        return member
    if len(group.members) >= settings.size_max:
        text = f"The streams group has reached its maximum capacity of {settings.size_max} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
    return None


def _updated(
    member: StreamsMember | None, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str
) -> StreamsMember:
    """The member with the fields of a heartbeat; fields that are left out have not changed."""
    before = member or StreamsMember(request.member_id)
    endpoint, tags, timeout_ms = request.user_endpoint, request.client_tags, request.rebalance_timeout_ms
    return before._replace(
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        topology_epoch=before.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=before.process_id if request.process_id is None else request.process_id,
        endpoint=before.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=before.client_tags if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
    )


def _ask_for_shutdown(group: StreamsGroup, member_id: str) -> None:
    """Every member gets to know of it with its next heartbeat; the group forgets it once it is empty."""
    if group.shutdown_by is None:
        logger.info("member %s asks streams group %s to shut down", member_id, group.group_id)
        group.shutdown_by = member_id


def _keep_progress(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
    before = group.progress.get(request.member_id, TaskProgress())
    offsets, end_offsets = request.task_offsets, request.task_end_offsets
    group.progress[request.member_id] = TaskProgress(
        before.offsets if offsets is None else tuple(offsets),
        before.end_offsets if end_offsets is None else tuple(end_offsets),
    )
