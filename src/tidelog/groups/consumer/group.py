"""A consumer group and its members, as they are in the log.

Members are values: a decision appends a changed copy, and replay replaces the old one with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from tidelog.groups.classic.member import Protocols
from tidelog.groups.consumer import schemas
from tidelog.groups.consumer.schemas import Assignment, ClassicMemberMetadata, CurrentValue, MemberValue, TopicsValue
from tidelog.wire.errors import ApiError, ErrorCode

LEFT_FOR_NOW: Final = -2
"""The epoch of a static member that has left and will return."""
NOTHING: Final[Assignment] = {}


class MemberState(IntEnum):
    """How far a member has got towards its target."""

    STABLE = 0
    """It has its target."""
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions first and to confirm that."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not revoked yet."""


class ClassicSide(NamedTuple):
    """Additional state of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def protocol_name(self) -> str:
        """The protocol in its JoinGroup responses: the one it prefers, as the coordinator assigns anyway."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """Its subscription, which is the same under each of its protocols."""
        return self.protocols[0][1]


class ConsumerMember(NamedTuple):
    """One member. The first fields are its subscription, the last its assignment."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicSide | None = None
    """None if it uses the newer protocol."""
    member_epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    pending_revocation: Assignment = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    @property
    def holdings(self) -> Assignment:
        """Its partitions, and those it has not confirmed as revoked; no other member may have them."""
        return {
            topic_id: self.assigned.get(topic_id, frozenset()) | self.pending_revocation.get(topic_id, frozenset())
            for topic_id in {*self.assigned, *self.pending_revocation}
        }


class TopicInfo(NamedTuple):
    """A topic as the group last saw it."""

    topic_id: bytes
    partition_count: int


class TopicFilter(Hashable, Protocol):
    """Which topics a member may see. Equal filters let the same topics through."""

    def allows(self, topic: str) -> bool: ...


class ConsumerGroup:
    """State of one group; changed by `replay` alone. Its offsets are in the `Group` that owns it."""

    __slots__ = (
        "assignment_epoch",
        "catalog_version",
        "epoch",
        "filters",
        "group_id",
        "matched",
        "members",
        "owners",
        "rejoining",
        "static_members",
        "target",
        "topics",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Assignment] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        """The member that has a partition, or has not yet confirmed its revocation."""
        self.rejoining: set[str] = set()
        """Classic members that have to join again and have a timer for it; not stored."""
        self.catalog_version = -1
        """The version of the cluster's topics that `topics` was last compared with; not stored."""
        self.matched: dict[str, frozenset[str]] = {}
        """The topics that a member's pattern matched at that time; not stored."""
        self.filters: dict[str, TopicFilter | None] = {}
        """Which topics the pattern of a member may match, since its last heartbeat; not stored."""

    # --- questions ---

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_reconciled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if is_reconciled else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {self.group_id}")
        return member

    def check_member(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """The member; raises ApiError if there is none, or if its instance id now has another member id."""
        if instance_id is None:
            return self.member(member_id)
        known_id = self.static_members.get(instance_id)
        if known_id is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has no member with instance {instance_id}")
        if known_id != member_id:
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} now has another member id")
        return self.members[known_id]

    def supports_classic(self, names: Iterable[str]) -> bool:
        """Whether all classic members support one of these protocols: the group may become a classic one."""
        others = [member.classic.protocols for member in self.members.values() if member.classic is not None]
        return any(all(name in dict(protocols) for protocols in others) for name in names)

    def is_waiting(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of this member's target."""
        return any(
            (topic_id, partition) in self.owners
            for topic_id, partitions in self.target.get(member.member_id, NOTHING).items()
            for partition in partitions - member.assigned.get(topic_id, frozenset())
        )

    def named(self, assignment: Assignment) -> dict[str, frozenset[int]]:
        """An assignment by topic names, without deleted topics."""
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        return {names[topic_id]: found for topic_id, found in assignment.items() if topic_id in names}

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topics or any(topic in member.subscribed_topics for member in self.members.values())

    # --- replay ---

    def replay(self, kind: int, member_id: str, value: bytes | None) -> None:
        """Apply a record; raises SchemaError if it cannot be read. The owner removes the group itself."""
        if kind == schemas.GROUP_EPOCH and value is not None:
            self.epoch = schemas.read_value(kind, value).epoch  # type: ignore[attr-defined]
        elif kind == schemas.TOPICS:
            self._replay_topics(value)
        elif kind == schemas.TARGET_EPOCH:
            self.assignment_epoch = 0 if value is None else schemas.read_value(kind, value).assignment_epoch  # type: ignore[attr-defined]
        elif kind == schemas.TARGET:
            if value is None:
                self.target.pop(member_id, None)
            else:
                self.target[member_id] = schemas.from_partitions(schemas.read_value(kind, value).topic_partitions)  # type: ignore[attr-defined]
        elif kind == schemas.MEMBER:
            self._replay_member(member_id, value)
        elif kind == schemas.CURRENT:
            self._replay_current(member_id, value)

    def _replay_topics(self, value: bytes | None) -> None:
        self.topics = {}
        if value is not None:
            stored = schemas.read_value(schemas.TOPICS, value)
            assert isinstance(stored, TopicsValue)
            self.topics = {topic.topic_name: TopicInfo(topic.topic_id, topic.num_partitions) for topic in stored.topics}

    def _replay_member(self, member_id: str, value: bytes | None) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self._release(old)
                del self.members[member_id]
                self.rejoining.discard(member_id)
                if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
                    del self.static_members[old.instance_id]
            return
        stored = schemas.read_value(schemas.MEMBER, value)
        assert isinstance(stored, MemberValue)
        self.members[member_id] = (old or ConsumerMember(member_id))._replace(
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            subscribed_topics=tuple(stored.subscribed_topic_names),
            subscribed_regex=stored.subscribed_topic_regex,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            server_assignor=stored.server_assignor,
            classic=_classic_side(stored.classic_member_metadata),
        )
        if stored.instance_id is not None:
            self.static_members[stored.instance_id] = member_id

    def _replay_current(self, member_id: str, value: bytes | None) -> None:
        # A compacted log may have a member's own record behind this one.
        old = self.members.get(member_id)
        if old is None:
            if value is None:
                return
            old = ConsumerMember(member_id)
        self._release(old)
        if value is None:
            self.members[member_id] = old._replace(
                member_epoch=0, previous_epoch=-1, state=MemberState.STABLE, assigned={}, pending_revocation={}
            )
            return
        stored = schemas.read_value(schemas.CURRENT, value)
        assert isinstance(stored, CurrentValue)
        member = old._replace(
            member_epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            state=MemberState(stored.state) if stored.state in MemberState._value2member_map_ else MemberState.STABLE,
            assigned=schemas.from_partitions(stored.assigned_partitions),
            pending_revocation=schemas.from_partitions(stored.partitions_pending_revocation),
        )
        self.members[member_id] = member
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    self.owners[topic_id, partition] = member_id

    def _release(self, member: ConsumerMember) -> None:
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    if self.owners.get((topic_id, partition)) == member.member_id:
                        del self.owners[topic_id, partition]


def _classic_side(stored: ClassicMemberMetadata | None) -> ClassicSide | None:
    if stored is None or not stored.supported_protocols:
        return None
    protocols = tuple((protocol.name, protocol.metadata) for protocol in stored.supported_protocols)
    return ClassicSide(stored.session_timeout_ms, protocols)
