"""One member's side of the newer group protocol (KIP-848): the broker assigns, and only heartbeats are sent.

Pure: requests come out, replies go in. `HeartbeatLoop` sends them; `HeartbeatCoordinator` moves partitions. What share
groups (KIP-932) have in common with it is `GroupMember`.

A member reports what has changed since its last heartbeat and receives its target assignment when that changes. It
revokes and takes partitions to reach the target, and the next heartbeat reports the partitions it owns.
A member that the coordinator does not know any more loses its partitions and joins again, with epoch 0.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import uuid4

from tidelog.client.aio.consumer.membership import Generation
from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to
from tidelog.client.errors import ApiError
from tidelog.client.types import ConsumerGroupMetadata
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tidelog.wire.schema import Message

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""A static member that will be back before its session ends."""

ById = Mapping[bytes, Collection[int]]
"""Partitions by topic id."""


class Outcome(Enum):
    """What to do after a heartbeat was answered."""

    PROCEED = "proceed"
    FENCED = "fenced"
    """The partitions are lost; join again at once."""
    RETRY = "retry"
    COORDINATOR_LOST = "coordinator lost"


class Wishes(NamedTuple):
    """What a member reports to the coordinator besides its epoch; only changes are sent again."""

    topics: frozenset[str] = frozenset()
    owned: frozenset[tuple[bytes, int]] = frozenset()


_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


Reports = TypeVar("Reports")
"""What a member reports to the coordinator besides its epoch."""


class GroupMember(ABC, Generic[Reports]):
    """A member, or future member, of a group whose broker assigns partitions in the replies to heartbeats."""

    def __init__(self, group_id: str, nothing_yet: Reports) -> None:
        self.group_id = group_id
        self.member_id = str(uuid4())
        self.member_epoch = JOIN_EPOCH
        self.target: ById | None = None
        """What the coordinator last assigned; None until it has."""
        self.is_in = False
        """Whether the coordinator expects heartbeats of this member."""
        self._reported: Reports | None = None
        """What the coordinator knows; None when the next heartbeat must carry everything."""
        self._sent = nothing_yet

    @property
    def stable_generation(self) -> Generation | None:
        """The epoch to commit in; None while this is no member."""
        return Generation(self.member_epoch, self.member_id) if self.member_epoch > JOIN_EPOCH else None

    @abstractmethod
    def heartbeat_request(self, wishes: Reports) -> Message:
        """A heartbeat, with the fields that have changed."""

    @abstractmethod
    def leave_request(self) -> Message | None:
        """Leave, if there is anything to leave."""

    def has_news(self, wishes: Reports) -> bool:
        """Whether the next heartbeat cannot wait for its interval."""
        return self._reported != wishes

    def on_heartbeat(self, reply: Any) -> Outcome:
        """Take over an answer. Raises ApiError for one that ends the membership for good."""
        code = error_code_of(reply.error_code)
        if code is ErrorCode.NONE:
            self._accepted(reply)
            return Outcome.PROCEED
        self._reported = None
        if code in _FENCED:
            self.fence()
            return Outcome.FENCED
        reaction = reaction_to(code)
        if reaction is Reaction.FIND_COORDINATOR:
            return Outcome.COORDINATOR_LOST
        if reaction is Reaction.RETRY:
            return Outcome.RETRY
        self.forget()
        raise ApiError(code, f"group {self.group_id!r}: {reply.error_message or code.text}")

    def _accepted(self, reply: Any) -> None:
        self.member_id = reply.member_id or self.member_id
        self.member_epoch = reply.member_epoch
        self.is_in = True
        self._reported = self._sent
        if reply.assignment is not None:
            self.target = {each.topic_id: tuple(each.partitions) for each in reply.assignment.topic_partitions}

    def unanswered(self) -> None:
        """A heartbeat got no answer and may be lost: the next one carries every field."""
        self._reported = None

    # The end, of the membership or of this epoch.

    def fence(self) -> None:
        """The coordinator does not know this member: everything it owned is lost, and it joins again."""
        self.member_epoch = JOIN_EPOCH
        self.target = None
        self.is_in = False
        self._reported = None

    def forget(self) -> None:
        """Reset to no member, with a new id for the next join."""
        self.fence()
        self.member_id = str(uuid4())


class HeartbeatMember(GroupMember[Wishes]):
    """This consumer as a member, or future member, of a group that the broker assigns."""

    def __init__(
        self,
        group_id: str,
        group_instance_id: str | None,
        rack_id: str | None,
        rebalance_timeout_ms: int,
        server_assignor: str | None,
    ) -> None:
        super().__init__(group_id, Wishes())
        self.group_instance_id = group_instance_id
        self._rack_id = rack_id
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._server_assignor = server_assignor

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_rebalancing(self) -> bool:
        """Commits are always possible: the epoch, not a phase of the group, decides whether they are taken."""
        return False

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member's id, epoch and group, for a transactional producer that commits for it."""
        generation = self.stable_generation or Generation()
        return ConsumerGroupMetadata(
            self.group_id, generation.generation_id, generation.member_id, self.group_instance_id
        )

    # Heartbeats.

    def heartbeat_request(self, wishes: Wishes) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat, with the fields that have changed."""
        self._sent = wishes
        reported = self._reported
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.member_epoch
        )
        if reported is None:
            request.instance_id = self.group_instance_id
            request.rack_id = self._rack_id
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.server_assignor = self._server_assignor
        if reported is None or reported.topics != wishes.topics:
            request.subscribed_topic_names = sorted(wishes.topics)
        if reported is None or reported.owned != wishes.owned:
            request.topic_partitions = _by_topic(wishes.owned)
        return request

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Leave, if there is anything to leave."""
        was_in, member_id = self.is_in, self.member_id
        self.forget()
        if not was_in:
            return None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=LEAVE_STATIC_EPOCH if self.is_static else LEAVE_EPOCH,
            instance_id=self.group_instance_id,
        )

    # What commits learn.

    def lose(self, error: ErrorCode, sent_in: Generation) -> bool:
        """A commit was rejected for its member id or epoch; returns whether that concerns the present epoch."""
        if sent_in != self.stable_generation:
            return False
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.fence()
        return True

    def request_rejoin(self, reason: str) -> None:
        """Nothing to do: a group of this protocol has no phase in which commits are refused."""


def _by_topic(owned: Collection[tuple[bytes, int]]) -> list[TopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=each) for topic_id, each in topics.items()]
