"""What a consumer reads: topics by name or pattern, or partitions of its own choice, and the state of each partition.

Pure: callers pass in metadata and the time. The engine, the group coordinator, the fetcher and the offset lookup all
work on the one `SubscriptionState` of their consumer.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from tidelog.client.aio.consumer.offset_reset import OffsetReset
from tidelog.client.aio.consumer.partition_state import FetchState, Leader, PartitionState, Tracker
from tidelog.client.errors import IllegalState
from tidelog.client.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.aio.consumer.listeners import RebalanceListener
    from tidelog.client.aio.metadata import MetadataCache


class SubscriptionKind(Enum):
    """How partitions come to a consumer. Each excludes the others until `unsubscribe`."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    ASSIGNED = "partitions"


class SubscriptionState:
    """The subscription and the assignment of one consumer."""

    def __init__(self, default_reset: OffsetReset) -> None:
        self.default_reset = default_reset
        self.kind = SubscriptionKind.NONE
        self.topics: frozenset[str] = frozenset()
        """The topics subscribed to, or those that the pattern matches now."""
        self.pattern: re.Pattern[str] | None = None
        self.listener: RebalanceListener | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        """The assignment. Replaced as a whole, never changed in place."""
        self.tracker = Tracker()
        self.group_topics: frozenset[str] = frozenset()
        """As the leader: the topics of all members."""
        self._passing_topics: list[Collection[str]] = []

    # Choosing what to read.

    def subscribe(self, topics: Collection[str], listener: "RebalanceListener | None") -> None:
        """Read `topics` as a member of the group."""
        self._become(SubscriptionKind.TOPICS)
        self.topics = frozenset(topics)
        self.listener = listener

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: "RebalanceListener | None") -> None:
        """Read every topic whose whole name matches, as a member of the group."""
        self._become(SubscriptionKind.PATTERN)
        self.pattern = pattern
        self.listener = listener

    def match_topics(self, names: Iterable[str]) -> None:
        """Of all topics there are, `names` are those a pattern may match."""
        assert self.pattern is not None, "there is no pattern to match"
        match = self.pattern.fullmatch
        self.topics = frozenset(name for name in names if match(name))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read just `partitions`, in no group."""
        self._become(SubscriptionKind.ASSIGNED)
        self._set_assignment(partitions)

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        """Read what the group's leader decided; partitions that stay keep their state."""
        assert self.is_automatic, "a group assigns partitions to those who subscribed"
        self._set_assignment(partitions)

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.kind = SubscriptionKind.NONE
        self.topics = frozenset()
        self.pattern = None
        self.listener = None
        self.group_topics = frozenset()
        self._set_assignment(())

    def _become(self, kind: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, kind):
            raise IllegalState(
                f"this consumer already reads {self.kind.value}; subscribing to topics, to a pattern and assigning "
                "partitions cannot be combined; call unsubscribe() first"
            )
        self.kind = kind

    def _set_assignment(self, partitions: Collection[TopicPartition]) -> None:
        before = self.partitions
        for gone in before.keys() - set(partitions):
            before[gone].leave()
        self.partitions = {each: before.get(each) or PartitionState(each, self.tracker) for each in partitions}

    # Asking what is read.

    @property
    def is_automatic(self) -> bool:
        """Whether a group assigns the partitions."""
        return self.kind is SubscriptionKind.TOPICS or self.kind is SubscriptionKind.PATTERN

    @property
    def metadata_topics(self) -> Collection[str] | None:
        """Topics whose metadata is needed; None for all, as a pattern has to see them."""
        if self.kind is SubscriptionKind.PATTERN:
            return None
        passing = frozenset(topic for topics in self._passing_topics for topic in topics)
        if self.kind is SubscriptionKind.ASSIGNED:
            return passing.union(each.topic for each in self.partitions)
        return self.topics | self.group_topics | passing

    @contextmanager
    def also_knowing(self, topics: Collection[str]) -> Iterator[None]:
        """Have metadata of `topics`, too, for a question about them."""
        self._passing_topics.append(topics)
        try:
            yield
        finally:
            self._passing_topics.remove(topics)

    def add_group_topics(self, topics: Iterable[str]) -> None:
        """As the leader, also know the topics of the other members."""
        self.group_topics = self.group_topics | self.topics | frozenset(topics)

    def forget_group_topics(self) -> None:
        """A new generation begins; its leader may be another."""
        self.group_topics = frozenset()

    def fits(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment is of what was subscribed to. It may not be, if that changed since joining."""
        if self.pattern is not None:
            return all(self.pattern.fullmatch(each.topic) for each in partitions)
        return all(each.topic in self.topics for each in partitions)

    def state_of(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; IllegalState for others."""
        found = self.partitions.get(partition)
        if found is None:
            raise IllegalState(f"{partition} is not assigned to this consumer")
        return found

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of everything commits: the positions behind what `poll` has returned."""
        return {
            partition: position
            for partition, state in self.partitions.items()
            if (position := state.to_commit()) is not None
        }

    # Positions.

    @property
    def has_all_positions(self) -> bool:
        """Whether every partition can be fetched from, pauses aside."""
        return not self.tracker.unsettled

    def due(self, now_ms: int) -> dict[FetchState, list[PartitionState]]:
        """The partitions whose positions must be asked for now, by the state that says what to ask."""
        due: dict[FetchState, list[PartitionState]] = {}
        for state in self.tracker.unsettled.values():
            if state.wait(now_ms) is None:
                due.setdefault(state.state, []).append(state)
        return due

    def next_retry_ms(self) -> int | None:
        """When a position may be asked for again; None if nothing is held back."""
        waiting = self.tracker.unsettled.values()
        return min((state.retry_at_ms for state in waiting if state.asked is None and state.retry_at_ms), default=None)

    def follow_leaders(self, metadata: "MetadataCache") -> None:
        """Take over leaders from new metadata."""
        for (topic, partition), state in self.partitions.items():
            leadership = metadata.partition(topic, partition)
            if leadership is not None:
                state.follow_leader(Leader(leadership.leader_id, leadership.leader_epoch))

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self.partitions.values())
