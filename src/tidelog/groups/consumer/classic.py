"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, answered from its state.

To them the group looks like a classic one with another leader:

    Heartbeat   returns REBALANCE_IN_PROGRESS when the member is behind the group's epoch, has partitions to revoke, or
                can get partitions that others have revoked
    JoinGroup   is answered at once, with the member's epoch as its generation; the owned partitions in it show what
                the member has revoked
    SyncGroup   returns the member's assignment, encoded as its own assignor would

Cooperative members revoke partitions between two rebalances; eager ones own none while they join.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.coordination import Decision, TimerChange
from tidelog.groups.classic.joining import Joiner, join_error, joined_protocols, rebalance_timeout_ms
from tidelog.groups.consumer.catalog import Catalog
from tidelog.groups.consumer.change import Change
from tidelog.groups.consumer.checks import check_room
from tidelog.groups.consumer.embedded import Subscription, read_subscription, write_assignment
from tidelog.groups.consumer.group import ClassicSide, ConsumerGroup, ConsumerMember, MemberState
from tidelog.groups.consumer.migration import by_id
from tidelog.groups.consumer.progress import Progress
from tidelog.groups.consumer.timers import REJOIN, RESYNC, REVOCATION, SESSION, cancel, set_timer
from tidelog.groups.schemas import SchemaError
from tidelog.groups.settings import GroupSettings
from tidelog.groups.subscription import CONSUMER_PROTOCOL
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


class ClassicMembers:
    """Decides the requests of classic members. Decisions are appended and take effect by replay."""

    def __init__(
        self, settings: GroupSettings, catalog: Catalog, progress: Progress, new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._progress = progress
        self._new_id = new_id

    # --- JoinGroup ---

    def join(self, group: ConsumerGroup, request: JoinGroupRequest, joiner: Joiner) -> Decision[JoinGroupResponse]:
        """Become a member, or take the next step; an error response has no member id."""
        try:
            return self._join(group, request, joiner)
        except ApiError as error:
            return Decision(join_error("", error.code))

    def _join(self, group: ConsumerGroup, request: JoinGroupRequest, joiner: Joiner) -> Decision[JoinGroupResponse]:
        member_id = request.member_id or self._new_id()
        if member_id not in group.members and request.group_instance_id not in group.static_members:
            check_room(group, self._settings)
        names = [protocol.name for protocol in request.protocols]
        if request.protocol_type != CONSUMER_PROTOCOL or not group.supports_classic(names):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{member_id} shares no protocol with {group.group_id}"
            )
        if joiner.needs_member_id and not request.member_id:
            return Decision(join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        change = Change(group, [])
        change.member_id = member_id
        member = self._find(group, request, change)
        subscription = _subscription(request)
        updated = _updated(member or ConsumerMember(member_id), request, joiner, subscription)
        owned = by_id(subscription.owned, self._catalog)
        stepped = self._progress.advance(change, member, updated, owned)
        group.rejoining.discard(member_id)
        if member is None or change.replaced_id is not None:
            logger.info("%s joins consumer group %s with the classic protocol", member_id, group.group_id)
        return Decision(_join_reply(stepped), tuple(change.records), tuple(_join_timers(group, stepped, change)))

    @staticmethod
    def _find(group: ConsumerGroup, request: JoinGroupRequest, change: Change) -> ConsumerMember | None:
        """The member that joins again, or None if it is new. An unknown id may be one that the coordinator gave."""
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(change.member_id)
        if request.member_id:
            return group.check_member(request.member_id, instance_id)
        known_id = group.static_members.get(instance_id)
        return None if known_id is None else change.replace(group.members[known_id])

    # --- SyncGroup and Heartbeat ---

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        """A member's assignment; raises ApiError for an unknown member."""
        member, classic = _check(group, request.member_id, request.group_instance_id, request.generation_id)
        said = (request.protocol_type, request.protocol_name)
        for mine, chosen in zip(said, (CONSUMER_PROTOCOL, classic.protocol_name), strict=True):
            if mine is not None and mine != chosen:
                raise ApiError(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{member.member_id} uses {chosen}, the request says {mine}"
                )
        if group.epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            # A member that has to revoke partitions has already joined again; it revokes them first.
            timers = _expect_rejoin(group, member)
            return Decision(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), timers=tuple(timers))
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(group.named(member.assigned), classic.metadata),
        )
        alive = set_timer(SESSION, group.group_id, member.member_id, classic.session_timeout_ms)
        return Decision(response, timers=(alive, *cancel(group.group_id, member.member_id, RESYNC)))

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        """Restart the session; the reply says whether to join again. Raises ApiError for an unknown member."""
        member, classic = _check(group, request.member_id, request.group_instance_id, request.generation_id)
        timers: list[TimerChange] = [set_timer(SESSION, group.group_id, member.member_id, classic.session_timeout_ms)]
        code = ErrorCode.NONE
        if _must_rejoin(group, member):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            timers += _expect_rejoin(group, member)
        return Decision(HeartbeatResponse(error_code=code), timers=tuple(timers))

    # --- LeaveGroup ---

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest) -> Decision[LeaveGroupResponse]:
        """Members leave, or an operator removes static ones by their instance ids."""
        change = Change(group, [])
        timers: list[TimerChange] = []
        answers = [self._leave(change, identity, timers) for identity in request.members]
        if change.records:
            self._progress.refresh_topics(change)
            change.bump_epoch()
        return Decision(LeaveGroupResponse(members=answers), tuple(change.records), tuple(timers))

    @staticmethod
    def _leave(change: Change, identity: MemberIdentity, timers: list[TimerChange]) -> MemberResponse:
        group, instance_id = change.group, identity.group_instance_id
        member_id = identity.member_id
        answer = MemberResponse(member_id=member_id, group_instance_id=instance_id)
        try:
            if instance_id is not None and not member_id:
                member_id = group.static_members.get(instance_id, "")
            member = group.check_member(member_id, instance_id)
            if member.classic is None or member_id not in change.members:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a classic member")
        except ApiError as error:
            answer.error_code = error.code
            return answer
        logger.info("%s left group %s (%s)", member_id, group.group_id, identity.reason or "no reason given")
        change.remove(member)
        timers += cancel(group.group_id, member_id)
        answer.member_id = member_id
        return answer


def _check(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicSide]:
    """A classic member; raises ApiError unless `generation` is its epoch."""
    member = group.check_member(member_id, instance_id)
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} does not use the classic protocol")
    if generation != member.member_epoch:
        text = f"{member_id} is in epoch {member.member_epoch}, the request says {generation}"
        raise ApiError(ErrorCode.ILLEGAL_GENERATION, text)
    return member, member.classic


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return (
        member.member_epoch < group.epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting(member))
    )


def _expect_rejoin(group: ConsumerGroup, member: ConsumerMember) -> list[TimerChange]:
    """The rejoin deadline counts from the first response that asked the member to join again."""
    if member.member_id in group.rejoining:
        return []
    group.rejoining.add(member.member_id)
    return [set_timer(REJOIN, group.group_id, member.member_id, member.rebalance_timeout_ms)]


def _subscription(request: JoinGroupRequest) -> Subscription:
    """The subscription; it is the same under each of the member's protocols."""
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except SchemaError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def _updated(
    member: ConsumerMember, request: JoinGroupRequest, joiner: Joiner, subscription: Subscription
) -> ConsumerMember:
    return member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        subscribed_topics=subscription.topics,
        subscribed_regex=None,
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        classic=ClassicSide(request.session_timeout_ms, joined_protocols(request)),
    )


def _join_reply(member: ConsumerMember) -> JoinGroupResponse:
    """The response names no leader: the coordinator assigns."""
    assert member.classic is not None, "a member that joined speaks the classic protocol"
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=member.classic.protocol_name,
        member_id=member.member_id,
    )


def _join_timers(group: ConsumerGroup, member: ConsumerMember, change: Change) -> list[TimerChange]:
    assert member.classic is not None, "a member that joined speaks the classic protocol"
    member_id = member.member_id
    timers: list[TimerChange] = [
        *cancel(group.group_id, member_id, REJOIN, REVOCATION),
        set_timer(SESSION, group.group_id, member_id, member.classic.session_timeout_ms),
        set_timer(RESYNC, group.group_id, member_id, member.rebalance_timeout_ms),
    ]
    if change.replaced_id is not None:
        timers += cancel(group.group_id, change.replaced_id)
    return timers
