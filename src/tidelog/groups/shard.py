"""The groups of one partition of `__consumer_offsets`: the core of the group coordinator.

The runtime of `coordination` calls it, on behalf of the broker's edge: requests and timeouts go in, decisions come out.
Offsets change only by replay. Membership is ahead of its record while the shard serves, because a rebalance in progress
is not stored. So records of groups are applied while the partition is loaded; of later ones only those that remove a
group or turn a consumer group into a classic one.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from tidelog.coordination import Answer, Decision, ProducerEpoch, Respond, SetTimer, StateRecord, TimerKey
from tidelog.groups import offset_requests
from tidelog.groups.classic.effects import JOIN, SESSION, SYNC, Effects
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.joining import Joiner, Joins, join_error
from tidelog.groups.classic.leaving import Departures
from tidelog.groups.classic.rebalancing import Rebalances
from tidelog.groups.classic.states import GroupEvent, GroupState
from tidelog.groups.classic.syncing import Syncs
from tidelog.groups.consumer.catalog import Catalog, NoTopics
from tidelog.groups.consumer.checks import Asker
from tidelog.groups.consumer.schemas import GROUP_EPOCH, KINDS, read_key
from tidelog.groups.consumer.schemas import group_tombstones as consumer_tombstones
from tidelog.groups.consumer.service import ConsumerGroups
from tidelog.groups.consumer.timers import PURPOSES
from tidelog.groups.offset_requests import Codes, CommitCodes, Committer, PartitionOffset, StoredOffset, TopicId
from tidelog.groups.records import RecordKey
from tidelog.groups.schemas import GROUP_KEY_VERSION, OFFSET_KEY_VERSIONS, SchemaError, read_group_value
from tidelog.groups.settings import GroupSettings, TimeoutsOf
from tidelog.groups.share import schemas as share_schemas
from tidelog.groups.share.service import SESSION as SHARE_SESSION
from tidelog.groups.share.service import MemberTimes, ShareGroups
from tidelog.groups.streams import schemas as streams_schemas
from tidelog.groups.streams.service import PURPOSES as STREAMS_PURPOSES
from tidelog.groups.streams.service import Heartbeat, StreamsGroups, StreamsSettings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_describe import DescribedGroup as ConsumerDescribedGroup
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tidelog.wire.messages.streams_group_describe import DescribedGroup as StreamsDescribedGroup
from tidelog.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tidelog.wire.messages.sync_group import SyncGroupRequest
from tidelog.wire.offset_commit import CommittedTopic

logger = logging.getLogger(__name__)

EXPIRY: Final = ("expiry", "", "")
"""The timer of the search for old offsets."""
_SEARCHED_OFFSETS_MAX: Final = 5_000
"""Most offsets that one search step examines, so that a search does not delay requests."""
_TOMBSTONES_MAX: Final = 2_000
"""This many fit into a batch, however long the topic names are."""
_unpack_key_head: Final = struct.Struct(">HH").unpack_from
"""The version of a key, which is the kind of its record, and the size of the group's name behind it."""
_OFFSET_KEY_VERSION_MAX: Final = max(OFFSET_KEY_VERSIONS)
_PARTITION_KEY_BYTES_MIN: Final = 6
"""With an empty topic name."""


class GroupShard:
    """State of one partition."""

    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        new_id: Callable[[], str],
        catalog: Catalog | None = None,
        timeouts_of: TimeoutsOf | None = None,
        share_times: Callable[[str], MemberTimes] | None = None,
        streams_settings: Callable[[str], StreamsSettings] | None = None,
    ) -> None:
        """`share_times` has the settings of a share group for its members, `streams_settings` of a streams group."""
        self.partition = partition
        self._settings = settings
        self._groups: dict[str, Group] = {}
        self._by_name: dict[bytes, Group] = {}
        self._is_loaded = False
        self._removed: tuple[str, int] | None = None
        """The consumer group that was removed last, and its epoch: the generation of the classic group it became."""
        self._to_search: list[str] = []
        self._rebalances = Rebalances(settings)
        self._joins = Joins(settings, self._rebalances, new_id)
        self._syncs = Syncs(self._rebalances)
        self._departures = Departures(self._rebalances)
        timeouts_of = timeouts_of or (lambda _: settings.consumer_timeouts)
        self._consumers = ConsumerGroups(settings, timeouts_of, catalog or NoTopics(), new_id, self._groups.get)
        self.shares = ShareGroups(catalog or NoTopics(), share_times or (lambda _group_id: MemberTimes()))
        """The share groups; their requests go there, but for those that create a group."""
        settings_of = streams_settings or (lambda _group_id: StreamsSettings())
        self._streams = StreamsGroups(catalog or NoTopics(), settings_of)

    # --- replay ---

    def replay(self, key: bytes, value: bytes | None, producer_id: int, _producer_epoch: int) -> None:
        try:
            kind, size = _unpack_key_head(key)
            end = 4 + size
            name = key[4:end]
            if kind <= _OFFSET_KEY_VERSION_MAX:
                partition = key[end:]
                if len(partition) != (partition[0] << 8 | partition[1]) + _PARTITION_KEY_BYTES_MIN:
                    raise IndexError
                group = self._by_name.get(name)
                if group is None:
                    if value is None:
                        return
                    group = self._create(name.decode())
                if value is None:
                    group.offsets.remove(partition)
                    self._drop_if_unused(group)
                elif producer_id < 0:
                    group.offsets.put(partition, value)
                else:
                    group.offsets.put_pending(producer_id, partition, value)
            elif kind == GROUP_KEY_VERSION:
                self._replay_group(name.decode(), value)
            elif kind in KINDS:
                self._replay_consumer(read_key(key), value)
            elif kind in share_schemas.KINDS:
                self.shares.replay(share_schemas.read_key(key), value)
            elif kind in streams_schemas.KINDS:
                self._replay_streams(streams_schemas.read_key(key), value)
            else:
                logger.debug("a record with key version %d is skipped", kind)
        except (struct.error, IndexError, UnicodeDecodeError, SchemaError):
            logger.error("a record of __consumer_offsets-%d with key %s is skipped", self.partition, key.hex())

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        group = self._groups.get(group_id)
        if value is None:
            if group is not None:
                self._drop(group)
        elif not self._is_loaded or group is None or group.generation == 0:
            # While serving, only a group that was a consumer group until now has generation 0.
            try:
                stored = read_group_value(value)
            except SchemaError as error:
                logger.error("group %s in __consumer_offsets-%d is skipped: %s", group_id, self.partition, error)
                return
            group = group or self._create(group_id)
            group.restore(stored)
            if self._removed == (group_id, stored.generation):
                # The partitions of its last consumer are unassigned, so its members join again.
                group.advance(GroupEvent.REBALANCE_BEGAN, stored.state_since_ms)
        self._removed = None

    def _replay_consumer(self, key: RecordKey, value: bytes | None) -> None:
        group = self._groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self._create(key.group_id)
        if key.kind == GROUP_EPOCH and value is None and group.consumer is not None:
            self._removed = (key.group_id, group.consumer.epoch)
        self._consumers.replay(group, key, value)
        self._drop_if_unused(group)

    def _replay_streams(self, key: RecordKey, value: bytes | None) -> None:
        group = self._groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self._create(key.group_id)
        self._streams.replay(group, key, value)
        self._drop_if_unused(group)

    def replay_end_transaction(self, producer_id: int, _producer_epoch: int, is_commit: bool) -> None:
        for group in list(self._groups.values()):
            if group.offsets.has_pending_of(producer_id):
                group.offsets.end_transaction(producer_id, is_commit)
                self._drop_if_unused(group)

    def _create(self, group_id: str) -> Group:
        group = self._groups[group_id] = Group(group_id)
        self._by_name[group_id.encode()] = group
        return group

    def _drop(self, group: Group) -> None:
        """Remove a group, but not offsets that were committed after its tombstone."""
        del self._groups[group.group_id]
        del self._by_name[group.group_id.encode()]
        if not group.offsets.is_empty:
            self._create(group.group_id).offsets = group.offsets
        if self._is_loaded:
            is_removed = group.state is GroupState.EMPTY
            group.advance(GroupEvent.REMOVED if is_removed else GroupEvent.UPGRADED, 0)
            if is_removed:
                logger.info("group %s is removed", group.group_id)

    def _drop_if_unused(self, group: Group) -> None:
        """Remove a group that was never stored, once it has no offsets, members or pending members."""
        if (
            group.state is GroupState.EMPTY
            and group.consumer is None
            and group.streams is None
            and group.generation == 0
            and group.offsets.is_empty
            and not group.pending_members
        ):
            self._drop(group)

    # --- loading and unloading ---

    def on_loaded(self, now_ms: int) -> Decision[Any]:
        """Start the session timeouts of members of loaded groups."""
        self._is_loaded = True
        effects = Effects()
        for group in self._groups.values():
            if group.state is GroupState.PREPARING_REBALANCE:
                effects.set_timer(JOIN, group, group.rebalance_timeout_ms)
            elif len(group.members) > self._settings.max_size:
                reason = f"it was loaded with {len(group.members)} members, group.max.size is {self._settings.max_size}"
                self._rebalances.begin(group, effects, reason, now_ms)
            for member in group.members.values():
                effects.keep_alive(group, member)
            effects.timers += self._consumers.timers(group)
            effects.timers += self._streams.timers(group)
        effects.timers += self.shares.timers()
        effects.timers.append(SetTimer(EXPIRY, self._settings.offsets_retention_check_interval_ms))
        return effects.decide()

    def on_unloaded(self, error: ApiError) -> Iterable[Answer]:
        members = [member for group in self._groups.values() for member in group.members.values()]
        waiting = [respond for member in members for respond in (member.awaiting_join, member.awaiting_sync)]
        return [Answer(respond, error) for respond in waiting if respond is not None]

    def on_timer(self, key: TimerKey, now_ms: int) -> Decision[Any]:
        assert isinstance(key, tuple), "timers of groups are named by tuples"
        if key == EXPIRY:
            return self.expire(now_ms)
        purpose, group_id, member_id = key
        if purpose == SHARE_SESSION:
            return self.shares.on_timer(group_id, member_id, now_ms)
        group = self._groups.get(group_id)
        effects = Effects()
        if group is None:
            return effects.decide()
        if group.consumer is not None and purpose in PURPOSES:
            return self._consumers.on_timer(group.consumer, purpose, member_id, now_ms)
        if group.streams is not None and purpose in STREAMS_PURPOSES:
            return self._streams.on_timer(group.streams, purpose, member_id, now_ms)
        if purpose == SESSION:
            return self._departures.on_session_timeout(group, member_id, now_ms)
        if purpose == JOIN:
            self._rebalances.on_join_timeout(group, effects, now_ms)
        elif purpose == SYNC:
            self._rebalances.on_sync_timeout(group, effects, now_ms)
        return effects.decide()

    # --- membership ---

    def join(self, request: JoinGroupRequest, joiner: Joiner, respond: Respond, now_ms: int) -> Decision[Any]:
        """Become a member, or stay one; answered when all members have joined."""
        settings = self._settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return Decision(join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return Decision(join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            if self.shares.get(request.group_id) is not None:
                return Decision(join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            group = self._create(request.group_id)
        newer: Sequence[StateRecord] = ()
        if group.consumer is not None:
            if not group.consumer.is_empty:
                return self._consumers.classic.join(group.consumer, request, joiner)
            newer = consumer_tombstones(group.group_id)
        elif group.streams is not None:
            if not group.streams.is_empty:
                return Decision(join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            newer = streams_schemas.group_tombstones(group.group_id)
        # An empty group of a newer protocol becomes a classic group.
        decision = self._joins.join(group, request, joiner, respond, now_ms)
        return decision._replace(records=(*newer, *decision.records)) if newer else decision

    def sync(self, request: SyncGroupRequest, respond: Respond, _now_ms: int) -> Decision[Any]:
        """Get the assignment; answered when the leader's assignment is stored."""
        group = self._member_group(request.group_id)
        if group.consumer is not None:
            return self._consumers.classic.sync(group.consumer, request)
        return self._syncs.sync(group, request, respond)

    def heartbeat(self, request: HeartbeatRequest, _now_ms: int) -> Decision[HeartbeatResponse]:
        group = self._member_group(request.group_id)
        if group.consumer is not None:
            return self._consumers.classic.heartbeat(group.consumer, request)
        return self._departures.heartbeat(group, request)

    def leave(self, request: LeaveGroupRequest, now_ms: int) -> Decision[LeaveGroupResponse]:
        group = self._groups.get(request.group_id)
        if group is not None and group.consumer is not None:
            return self._consumers.classic.leave(group.consumer, request)
        return self._departures.leave(group, request, now_ms)

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, asker: Asker, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Join, stay in or leave a group of the newer protocol (KIP-848)."""
        self._check_no_share_group(request.group_id)
        return self._consumers.heartbeat(self._groups.get(request.group_id), request, asker, now_ms)

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str, now_ms: int
    ) -> Decision[ShareGroupHeartbeatResponse]:
        """Join, stay in or leave a share group (KIP-932)."""
        self.check_may_share(request.group_id)
        return self.shares.heartbeat(request, client_id, client_host, now_ms)

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str, now_ms: int
    ) -> Decision[Heartbeat]:
        """Join, stay in or leave a streams group (KIP-1071)."""
        if self.shares.get(request.group_id) is not None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a streams group.")
        return self._streams.heartbeat(self._groups.get(request.group_id), request, client_id, client_host, now_ms)

    def describe_streams_group(self, group_id: str) -> StreamsDescribedGroup:
        return self._streams.describe(self._groups.get(group_id), group_id)

    def check_may_share(self, group_id: str) -> None:
        """Raise ApiError if a group of another kind has this name."""
        if group_id in self._groups:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    def _check_no_share_group(self, group_id: str) -> None:
        if self.shares.get(group_id) is not None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is a share group.")

    def describe_consumer_group(self, group_id: str) -> ConsumerDescribedGroup:
        return self._consumers.describe(self._groups.get(group_id), group_id)

    def _member_group(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} does not exist")
        return group

    # --- offsets ---

    def commit_offsets(
        self,
        group_id: str,
        committer: Committer,
        topics: Sequence[CommittedTopic],
        partition_count: Callable[[str], int],
        now_ms: int,
        retention_ms: int = -1,
        producer: ProducerEpoch | None = None,
        topic_id_of: TopicId | None = None,
    ) -> Decision[CommitCodes]:
        """Store offsets; with a producer they take effect once its transaction commits."""
        self._check_no_share_group(group_id)
        return offset_requests.commit(
            group_id,
            self._groups.get(group_id),
            committer,
            topics,
            partition_count,
            self._settings,
            now_ms,
            retention_ms,
            producer,
            topic_id_of,
        )

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[tuple[str, Sequence[int]]] | None,
        require_stable: bool,
        reader: Committer | None = None,
        topic_id_of: TopicId | None = None,
    ) -> dict[str, list[PartitionOffset]]:
        """Offsets of a group. With the newer protocol, a `reader` that claims to be a member must be one."""
        return offset_requests.fetch(self._read_by(group_id, reader), topics, require_stable, topic_id_of)

    def stored_offsets(
        self, group_id: str, require_stable: bool, reader: Committer | None = None
    ) -> list[StoredOffset]:
        """All offsets of a group, not decoded, for the same readers; `read_stored` decodes them."""
        return offset_requests.stored_offsets(self._read_by(group_id, reader), require_stable)

    def _read_by(self, group_id: str, reader: Committer | None) -> Group | None:
        group = self._groups.get(group_id)
        if reader is not None and group is not None and group.consumer is not None:
            offset_requests.check_consumer_epoch(group.consumer, reader)
        if reader is not None and group is not None and group.streams is not None:
            offset_requests.check_streams_reader(group.streams, reader)
        return group

    def delete_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]], _now_ms: int) -> Decision[Codes]:
        return offset_requests.delete(self._known_group(group_id), partitions)

    def forget_topics(self, names: Collection[str], _now_ms: int) -> Decision[Any]:
        """Topics were deleted: delete their offsets."""
        records: list[StateRecord] = self.shares.forget_topics(names)
        for group in self._groups.values():
            keys = [key for name in names for key in group.offsets.keys_of_topic(name)]
            if keys:
                records += offset_requests.removal(group, keys[: _TOMBSTONES_MAX - len(records)])
            if len(records) >= _TOMBSTONES_MAX:
                break
        if not records:
            return Decision()

        def then(code: ErrorCode, now_ms: int) -> Decision[Any]:
            return self.forget_topics(names, now_ms) if code is ErrorCode.NONE else Decision()

        return Decision(records=tuple(records), then=then)

    def expire(self, now_ms: int) -> Decision[Any]:
        """Delete offsets past their retention and groups with nothing left, a limited number at a time."""
        if not self._to_search:
            self._to_search = list(self._groups)
        records: list[StateRecord] = []
        searched = 0
        while self._to_search and searched < _SEARCHED_OFFSETS_MAX and len(records) < _TOMBSTONES_MAX:
            group = self._groups.get(self._to_search.pop())
            if group is None:
                continue
            searched += 1 + len(group.offsets)
            keys = offset_requests.expired_keys(group, self._settings, now_ms)
            room = _TOMBSTONES_MAX - len(records)
            if len(keys) > room:
                self._to_search.append(group.group_id)
            records += offset_requests.removal(group, keys[:room])
            self._drop_if_unused(group)
        delay_ms = 1 if self._to_search else self._settings.offsets_retention_check_interval_ms
        return Decision(records=tuple(records), timers=(SetTimer(EXPIRY, delay_ms),))

    # --- groups as a whole ---

    def delete_group(self, group_id: str, respond: Respond, _now_ms: int) -> Decision[Any]:
        """Delete a group and its offsets; raises ApiError if it has members."""
        group = self._known_group(group_id)
        if not group.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"{group_id} has members")
        group.pending_members.clear()
        keys = group.offsets.keys()
        if len(keys) <= _TOMBSTONES_MAX:
            self._drop_if_unused(group)
            return Decision(ErrorCode.NONE, tuple(offset_requests.removal(group, keys)))

        def then(code: ErrorCode, now_ms: int) -> Decision[Any]:
            try:
                if code is not ErrorCode.NONE:
                    raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "offsets could not be removed")
                rest = self.delete_group(group_id, respond, now_ms)
            except ApiError as error:
                return Decision(answers=(Answer(respond, error),))
            if rest.reply is None:
                return rest
            return rest._replace(answers=(Answer(respond, rest.reply),))

        records = offset_requests.removal(group, keys[:_TOMBSTONES_MAX])
        return Decision(records=tuple(records), then=then)

    def _known_group(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} does not exist")
        return group

    def groups(self) -> Iterator[Group]:
        """Every group, for listings."""
        return iter(self._groups.values())

    def group(self, group_id: str) -> Group | None:
        """A group, for reading only."""
        return self._groups.get(group_id)

    def describe(self, group_id: str) -> DescribedGroup:
        """A group and its members; a group that does not exist is Dead, without an error."""
        group = self._groups.get(group_id)
        if group is None or group.consumer is not None or group.streams is not None:
            dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            what = "not found" if group is None else "is not a classic group"
            dead.error_message = f"Group {group_id} {what}."
            return dead
        name = group.protocol_name if group.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=name or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if name is None else member.metadata(name),
                    member_assignment=b"" if name is None else member.assignment,
                )
                for member in group.members.values()
            ],
        )
