"""One member's side of the group protocol: its state, its requests, and the effects of responses.

Pure: requests come out, replies go in. `GroupCoordinator` sends and waits. How an error code is taken stands in a table
per request; what is not in it is final and raised as ApiError.

    UNJOINED               not in the group
    PREPARING_REBALANCE    JoinGroup is under way
    COMPLETING_REBALANCE   joined; SyncGroup is under way
    STABLE                 has an assignment
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.protocol import PROTOCOL_TYPE
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError
from tidelog.client.types import ConsumerGroupMetadata
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

NO_GENERATION_ID: Final = -1
_REASON_CHARACTERS_MAX: Final = 255


class MemberState(Enum):
    """See the module's text."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"


class Generation(NamedTuple):
    """The generation of the group that this member belongs to, and its member id."""

    generation_id: int = NO_GENERATION_ID
    member_id: str = ""
    protocol_name: str | None = None


NO_GENERATION: Final = Generation()


class Outcome(Enum):
    """What to do after an answer."""

    PROCEED = "proceed"
    REJOIN = "rejoin"
    """Join again at once."""
    RETRY = "retry"
    """The same, after a while."""
    COORDINATOR_LOST = "coordinator lost"
    """Find the coordinator again, after a while."""


class _Change(Enum):
    """What an error does to the member itself."""

    NOTHING = 0
    TAKE_MEMBER_ID = 1
    LOSE_GENERATION = 2
    LOSE_MEMBER_ID = 3


_LOST: Final = (Outcome.COORDINATOR_LOST, _Change.NOTHING)
_Table = Mapping[ErrorCode, tuple[Outcome, _Change]]

JOIN_ERRORS: Final[_Table] = {
    ErrorCode.MEMBER_ID_REQUIRED: (Outcome.REJOIN, _Change.TAKE_MEMBER_ID),
    ErrorCode.UNKNOWN_MEMBER_ID: (Outcome.REJOIN, _Change.LOSE_MEMBER_ID),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (Outcome.RETRY, _Change.NOTHING),
    ErrorCode.REBALANCE_IN_PROGRESS: (Outcome.RETRY, _Change.NOTHING),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _LOST,
    ErrorCode.NOT_COORDINATOR: _LOST,
}
SYNC_ERRORS: Final[_Table] = {
    ErrorCode.REBALANCE_IN_PROGRESS: (Outcome.REJOIN, _Change.NOTHING),
    ErrorCode.ILLEGAL_GENERATION: (Outcome.REJOIN, _Change.LOSE_GENERATION),
    ErrorCode.UNKNOWN_MEMBER_ID: (Outcome.REJOIN, _Change.LOSE_MEMBER_ID),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (Outcome.RETRY, _Change.NOTHING),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _LOST,
    ErrorCode.NOT_COORDINATOR: _LOST,
}
HEARTBEAT_ERRORS: Final[_Table] = {
    ErrorCode.REBALANCE_IN_PROGRESS: (Outcome.REJOIN, _Change.NOTHING),
    ErrorCode.ILLEGAL_GENERATION: (Outcome.REJOIN, _Change.LOSE_GENERATION),
    ErrorCode.UNKNOWN_MEMBER_ID: (Outcome.REJOIN, _Change.LOSE_MEMBER_ID),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (Outcome.RETRY, _Change.NOTHING),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _LOST,
    ErrorCode.NOT_COORDINATOR: _LOST,
}


class Membership:
    """This consumer as a member, or future member, of its group."""

    def __init__(
        self, group_id: str, group_instance_id: str | None, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.is_rejoin_needed = True
        self.is_prepared = False
        """Whether the partitions of the last generation were given up, so that joining may begin."""
        self.rejoin_reason = ""

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place over a restart."""
        return self.group_instance_id is not None

    @property
    def must_heartbeat(self) -> bool:
        """Whether the coordinator expects heartbeats. While JoinGroup is open, it does not."""
        return self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def is_rebalancing(self) -> bool:
        """Whether a generation is about to begin."""
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def stable_generation(self) -> Generation | None:
        """The generation to commit in; None while there is none."""
        return self.generation if self.state is MemberState.STABLE else None

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member's id, generation and group, for a transactional producer that commits for it."""
        generation = self.generation
        return ConsumerGroupMetadata(
            self.group_id, generation.generation_id, generation.member_id, self.group_instance_id
        )

    def request_rejoin(self, reason: str) -> None:
        """Join again with the next poll; only the first reason is sent."""
        if not self.is_rejoin_needed:
            self.is_rejoin_needed = True
            self.rejoin_reason = reason

    # JoinGroup.

    def join_request(self, protocols: Sequence[tuple[str, bytes]]) -> JoinGroupRequest:
        """Begin to join with `protocols`: the name of each assignor and its metadata for the leader."""
        self.state = MemberState.PREPARING_REBALANCE
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.generation.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
            reason=self.rejoin_reason[:_REASON_CHARACTERS_MAX],
        )

    def on_joined(self, reply: JoinGroupResponse) -> Outcome:
        """PROCEED: the member is in the generation and must synchronize."""
        if reply.error_code != ErrorCode.NONE:
            return self._failed("JoinGroup", JOIN_ERRORS, reply.error_code, reply.member_id)
        if reply.protocol_type not in (None, PROTOCOL_TYPE):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.group_id!r} is of type {reply.protocol_type!r}, not {PROTOCOL_TYPE!r}",
            )
        if self.state is not MemberState.PREPARING_REBALANCE:
            # The member left, or was removed, while the response was on its way.
            return Outcome.REJOIN
        self.state = MemberState.COMPLETING_REBALANCE
        self.generation = Generation(reply.generation_id, reply.member_id, reply.protocol_name)
        return Outcome.PROCEED

    # SyncGroup.

    def sync_request(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """SyncGroup: request this member's assignment; the leader sends all assignments."""
        generation = self.generation
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    def on_synced(self, reply: SyncGroupResponse) -> Outcome:
        """PROCEED: the reply has the assignment."""
        if reply.error_code != ErrorCode.NONE:
            return self._failed("SyncGroup", SYNC_ERRORS, reply.error_code)
        if reply.protocol_name not in (None, self.generation.protocol_name):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"joined with assignor {self.generation.protocol_name!r}, synchronized with {reply.protocol_name!r}",
            )
        if self.state is not MemberState.COMPLETING_REBALANCE:
            return Outcome.REJOIN
        self.state = MemberState.STABLE
        self.is_rejoin_needed = False
        self.rejoin_reason = ""
        return Outcome.PROCEED

    # Heartbeat.

    def heartbeat_request(self) -> HeartbeatRequest:
        """A heartbeat."""
        generation = self.generation
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self.group_instance_id,
        )

    def on_heartbeat(self, error_code: int, sent_in: Generation) -> Outcome:
        """PROCEED or REJOIN: the coordinator heard it."""
        if error_code == ErrorCode.NONE:
            return Outcome.PROCEED
        if sent_in != self.generation or not self.must_heartbeat:
            return Outcome.PROCEED  # about a generation that is over already
        if error_code == ErrorCode.REBALANCE_IN_PROGRESS and self.state is not MemberState.STABLE:
            return Outcome.PROCEED  # no news while it is being joined
        outcome = self._failed("Heartbeat", HEARTBEAT_ERRORS, error_code)
        if outcome is Outcome.REJOIN:
            self.request_rejoin("group is already rebalancing")
        return outcome

    # LeaveGroup.

    def leave_request(self, reason: str) -> LeaveGroupRequest | None:
        """Leave, if there is anything to leave. A static member stays: it may be back before its session ends."""
        generation = self.generation
        if self.is_static or self.state is MemberState.UNJOINED or not generation.member_id:
            self.forget_generation(reason)
            return None
        self.forget_generation(reason)
        identity = MemberIdentity(member_id=generation.member_id, reason=reason[:_REASON_CHARACTERS_MAX])
        return LeaveGroupRequest(group_id=self.group_id, member_id=generation.member_id, members=[identity])

    # What others learn about the membership.

    def lose(self, error: ErrorCode, sent_in: Generation) -> bool:
        """A commit was rejected for its member id or generation; returns whether that concerns the present one."""
        if sent_in != self.generation:
            return False
        if error is ErrorCode.ILLEGAL_GENERATION:
            self._change(_Change.LOSE_GENERATION, "a commit came from another generation")
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._change(_Change.LOSE_MEMBER_ID, "a commit came from an unknown member")
        return True

    def forget_generation(self, reason: str) -> None:
        """Reset to no member."""
        self._change(_Change.LOSE_MEMBER_ID, reason)

    def _failed(self, what: str, table: _Table, error_code: int, member_id: str = "") -> Outcome:
        code = error_code_of(error_code)
        known = table.get(code)
        if known is None:
            self.state = MemberState.UNJOINED
            raise ApiError(code, f"group {self.group_id!r}, {what}: {code.text}")
        outcome, change = known
        self._change(change, f"{what} failed with {code.name}", member_id)
        if table is not HEARTBEAT_ERRORS and self.is_rebalancing:
            self.state = MemberState.UNJOINED
        return outcome

    def _change(self, change: _Change, reason: str, member_id: str = "") -> None:
        if change is _Change.NOTHING:
            return
        if change is _Change.TAKE_MEMBER_ID:
            self.generation = Generation(member_id=member_id)
            self.rejoin_reason = "need to re-join with the given member-id"
            return
        kept = self.generation.member_id if change is _Change.LOSE_GENERATION else ""
        self.generation = Generation(member_id=kept)
        self.state = MemberState.UNJOINED
        self.is_prepared = False
        self.is_rejoin_needed = True
        self.rejoin_reason = reason
