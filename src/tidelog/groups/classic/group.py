"""A group with the classic protocol: its members, its generation, its offsets.

State and the rules that keep it consistent; decisions are made in `rebalancing`, `joining`, `syncing`, `leaving` and
`offset_requests`. `GroupShard` owns the groups. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.coordination import Respond
from tidelog.groups.classic.member import Member, Protocols
from tidelog.groups.classic.states import GroupEvent, GroupState, advance
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.offsets import OffsetStore
from tidelog.groups.schemas import NO_TIMESTAMP, GroupValue, offset_key_prefix
from tidelog.groups.streams.group import StreamsGroup
from tidelog.groups.subscription import CONSUMER_PROTOCOL, subscribed_topics
from tidelog.wire.errors import ApiError, ErrorCode

_EMPTY: Final = GroupState.EMPTY


class Group:
    """State of one group. `generation` is 0 until the first rebalance is complete."""

    __slots__ = (
        "awaiting_join_count",
        "consumer",
        "generation",
        "group_id",
        "has_new_member",
        "initial_delay_left_ms",
        "initial_delay_ms",
        "leader_id",
        "members",
        "offset_key_prefix",
        "offsets",
        "pending_members",
        "pending_sync",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "static_members",
        "streams",
        "subscribed_topics",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.offset_key_prefix = offset_key_prefix(group_id)
        self.state = GroupState.EMPTY
        self.state_since_ms: int | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: set[str] = set()
        """Member ids that clients got (KIP-394) and have not joined with yet."""
        self.pending_sync: set[str] = set()
        """Members that have not sent the SyncGroup of this generation."""
        self.awaiting_join_count = 0
        self.protocol_counts: dict[str, int] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.offsets = OffsetStore()
        self.consumer: ConsumerGroup | None = None
        """The members, if the group uses the newer protocol; `members` is then empty."""
        self.streams: StreamsGroup | None = None
        """The members, if it is a streams group; the others are then empty."""
        self.initial_delay_ms = 0
        self.initial_delay_left_ms: int | None = None
        """While the first rebalance waits for more members: how much longer it may be delayed; else None."""
        self.has_new_member = False

    # --- state ---

    def advance(self, event: GroupEvent, now_ms: int) -> None:
        self.state = advance(self.state, event)
        self.state_since_ms = now_ms

    def restore(self, stored: GroupValue) -> None:
        """Restore the group from its record; the offsets stay."""
        self.members.clear()
        self.static_members.clear()
        self.protocol_counts.clear()
        self.awaiting_join_count = 0
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol_name
        self.generation = stored.generation
        self.state_since_ms = None if stored.state_since_ms == NO_TIMESTAMP else stored.state_since_ms
        self.leader_id = None
        for member in stored.members:
            self.add(member, None)
        self.leader_id = stored.leader_id
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.subscribed_topics = self._find_subscribed_topics()

    def stored(self) -> GroupValue:
        """The group as its record has it."""
        since_ms = NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms
        members = list(self.members.values())
        return GroupValue(
            self.protocol_type or "", self.generation, self.protocol_name, self.leader_id, since_ms, members
        )

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL or self.consumer is not None

    @property
    def is_empty(self) -> bool:
        """It has no members of any protocol."""
        return (
            self.state is _EMPTY
            and (self.consumer is None or self.consumer.is_empty)
            and (self.streams is None or self.streams.is_empty)
        )

    @property
    def state_name(self) -> str:
        """The state's name as clients see it."""
        newer = self.consumer or self.streams
        return self.state.value if newer is None else newer.state_name

    @property
    def kind(self) -> str:
        """Its type as clients see it."""
        if self.streams is not None:
            return "streams"
        return "classic" if self.consumer is None else "consumer"

    @property
    def member_count(self) -> int:
        """How many members it has, of whichever protocol."""
        newer = self.consumer or self.streams
        return len(self.members if newer is None else newer.members)

    # --- members ---

    def add(self, member: Member, respond: Respond | None) -> None:
        """Add a member; it waits in JoinGroup if `respond` is given."""
        assert member.member_id not in self.members, f"{member.member_id} is a member of {self.group_id} already"
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self._await_join(member, respond)
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. Its waiting requests must have been answered."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member.protocols, -1)
            self._await_join(member, None)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: Member,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        respond: Respond | None,
    ) -> None:
        """A member joins again, perhaps with other protocols and timeouts."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms
        self._await_join(member, respond)

    def rename_static(self, member: Member, new_id: str) -> None:
        """A static member came back: it keeps everything but its id."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = new_id
        self.members[new_id] = member
        if self.leader_id == old_id:
            self.leader_id = new_id
        assert member.instance_id is not None, "only a static member is replaced"
        self.static_members[member.instance_id] = new_id

    def take_join(self, member: Member) -> Respond | None:
        """The callback of a member's JoinGroup; the member no longer waits."""
        respond = member.awaiting_join
        self._await_join(member, None)
        return respond

    def _await_join(self, member: Member, respond: Respond | None) -> None:
        self.awaiting_join_count += (respond is not None) - (member.awaiting_join is not None)
        member.awaiting_join = respond

    def _count_protocols(self, protocols: Protocols, by: int) -> None:
        counts = self.protocol_counts
        for name, _ in protocols:
            counts[name] = counts.get(name, 0) + by

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member; raises ApiError if there is none. A static member is looked up by its instance id first."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has no member with instance {instance_id}"
                )
            if current_id != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} now has another member id")
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, f"{self.group_id} is in generation {self.generation}")

    @property
    def has_all_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader, the current one if possible; False when none has joined."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is not None and leader.awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    # --- protocols ---

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols can join the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(self.protocol_counts.get(name) == count for name in names)

    def select_protocol(self) -> str:
        """Of the protocols that all members support, the one that most of them prefer."""
        count = len(self.members)
        candidates = {name for name, supporters in self.protocol_counts.items() if supporters == count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def begin_generation(self, now_ms: int) -> None:
        """The join phase is over: begin the next generation, or make the group empty."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._find_subscribed_topics()
        self.pending_sync.clear()
        self.advance(GroupEvent.MEMBERS_JOINED if self.members else GroupEvent.MEMBERS_GONE, now_ms)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is subscribed to a topic; True if the subscriptions are unknown."""
        if self.consumer is not None:
            return self.consumer.is_subscribed_to(topic)
        if self.streams is not None:
            return self.streams.is_subscribed_to(topic)
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def _find_subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        found: set[str] = set()
        for member in self.members.values():
            topics = subscribed_topics(member.metadata(self.protocol_name))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)
