"""The state of one assigned partition: its position, whether it can be fetched, and its offsets at the leader.

`SubscriptionState` owns these. The state says what has to happen before the next fetch:

    INITIALIZING       find a position: the committed offset, or a reset
    AWAIT_RESET        ask the leader for the offset that the reset policy means
    AWAIT_VALIDATION   the leader changed: ask the new one whether the position still fits its log (KIP-320)
    FETCHING           nothing

In each of the first three, either a question about the position is under way, or `retry_at_ms` is still to come, or the
question is due (`wait`). Nothing else keeps a position back, so a partition cannot wait for an event that has passed.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.offset_reset import OffsetReset
from tidelog.client.aio.metadata import NO_NODE
from tidelog.client.aio.waits import Wait
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.partitions import NO_EPOCH


class FetchState(Enum):
    """See the module's text."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"


TRANSITIONS: Final[Mapping[FetchState, frozenset[FetchState]]] = {
    FetchState.INITIALIZING: frozenset({FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}),
    FetchState.AWAIT_RESET: frozenset({FetchState.FETCHING, FetchState.AWAIT_RESET}),
    FetchState.AWAIT_VALIDATION: frozenset({FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}),
    FetchState.FETCHING: frozenset({FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}),
}
"""The allowed transitions. A reset is not validated: it has no position until it is done."""


_QUESTIONS: Final[Mapping[FetchState, Wait]] = {
    FetchState.INITIALIZING: Wait.COMMITTED_OFFSET,
    FetchState.AWAIT_RESET: Wait.RESET,
    FetchState.AWAIT_VALIDATION: Wait.VALIDATION,
}


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it, by which truncation is noticed."""

    offset: int
    epoch: int = NO_EPOCH


class Leader(NamedTuple):
    """A partition's leader and leader epoch, by the latest metadata."""

    node_id: int = NO_NODE
    epoch: int = NO_EPOCH


class Tracker:
    """Summary of the partition states of one consumer, so that not all partitions must be checked."""

    __slots__ = ("restarts", "unsettled")

    def __init__(self) -> None:
        self.unsettled: dict[TopicPartition, PartitionState] = {}
        """Those that are not FETCHING."""
        self.restarts = 0
        """Rises whenever a partition may be fetched from elsewhere than a fetch under way expects."""


class PartitionState:
    """The consumer's state of one assigned partition."""

    __slots__ = (
        "asked",
        "bytes_fetched",
        "high_watermark",
        "is_end_asked",
        "is_paused",
        "is_revocation_pending",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "records_returned",
        "reset",
        "retry_at_ms",
        "state",
        "topic_partition",
        "tracker",
    )

    def __init__(self, topic_partition: TopicPartition, tracker: Tracker) -> None:
        self.topic_partition = topic_partition
        self.state = FetchState.INITIALIZING
        self.tracker = tracker
        tracker.unsettled[topic_partition] = self
        self.position: Position | None = None
        self.leader = Leader()
        self.reset: OffsetReset | None = None
        """The policy to apply, in AWAIT_RESET."""
        self.asked: object | None = None
        """The question about this position that is under way. Its end, whatever it is, clears this."""
        self.retry_at_ms = 0
        """No question about this position and no fetch before then: the last one failed."""
        self.is_paused = False
        self.is_revocation_pending = False
        self.is_end_asked = False
        """Whether a request for the end offset is under way."""
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica = NO_NODE
        self.preferred_until_ms = 0
        self.records_returned = 0
        self.bytes_fetched = 0

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be asked for and returned."""
        return self.state is FetchState.FETCHING and not self.is_paused and not self.is_revocation_pending

    @property
    def has_position(self) -> bool:
        """Whether `position` means something, validated or not."""
        return self.state is FetchState.FETCHING or self.state is FetchState.AWAIT_VALIDATION

    def wait(self, now_ms: int) -> Wait | None:
        """What the position waits for; None if the question that its state calls for is due."""
        if self.asked is not None:
            return _QUESTIONS[self.state]
        return Wait.POSITION_RETRY if self.retry_at_ms > now_ms else None

    def leave(self) -> None:
        """The partition is no longer assigned: what still comes for it changes nothing that is."""
        self.tracker.unsettled.pop(self.topic_partition, None)
        self.tracker = Tracker()

    def resume(self) -> None:
        """Return records again."""
        self.is_paused = False
        self.tracker.restarts += 1

    def seek(self, position: Position) -> None:
        """Read from `position`, without validation."""
        self._enter(FetchState.FETCHING)
        self.position = position
        self.reset = None
        self._forget_answers()

    def seek_unvalidated(self, position: Position) -> None:
        """Read from `position` once the leader has confirmed it, if it can be asked: that needs both epochs."""
        self.seek(position)
        self.validate_if_needed(self.leader)

    def request_reset(self, policy: OffsetReset) -> None:
        """Forget the position and find the one that `policy` means."""
        self._enter(FetchState.AWAIT_RESET)
        self.position = None
        self.reset = policy
        self._forget_answers()

    def follow_leader(self, leader: Leader) -> None:
        """Metadata names `leader`; a position that a former leader gave must fit the log of a newer one."""
        if leader == self.leader:
            return
        is_newer = leader.epoch > self.leader.epoch
        if leader.node_id != self.leader.node_id:
            self.tracker.restarts += 1
        self.leader = leader
        if self.state is not FetchState.INITIALIZING:  # the group is asked for that position, not the leader
            self._forget_answers()
        if is_newer:
            self.validate_if_needed(leader)

    def validate_if_needed(self, leader: Leader) -> None:
        """Have the position confirmed, where it and the leader have epochs to compare."""
        position = self.position
        if not self.has_position or position is None:
            return
        if leader.node_id == NO_NODE or leader.epoch == NO_EPOCH or position.epoch == NO_EPOCH:
            return
        self._enter(FetchState.AWAIT_VALIDATION)
        self._forget_answers()

    def complete_validation(self, position: Position | None = None) -> None:
        """The leader has confirmed the position, or named the one where the logs still agree."""
        if self.state is FetchState.AWAIT_VALIDATION:
            self._enter(FetchState.FETCHING)
            if position is not None:
                self.position = position
            self.retry_at_ms = 0

    def prefer_replica(self, node_id: int, until_ms: int) -> None:
        """Fetch from a replica nearby, as the leader advised, for a while (KIP-392)."""
        self.preferred_replica = node_id
        self.preferred_until_ms = until_ms

    def forget_preferred_replica(self) -> bool:
        """Fetch from the leader again; returns whether that is a change."""
        had = self.preferred_replica != NO_NODE
        self.preferred_replica = NO_NODE
        return had

    def replica_to_read(self, now_ms: int) -> int:
        """The broker to fetch from; -1 while there is none."""
        if self.preferred_replica != NO_NODE:
            if now_ms < self.preferred_until_ms:
                return self.preferred_replica
            self.preferred_replica = NO_NODE
        return self.leader.node_id

    def to_commit(self) -> OffsetAndMetadata | None:
        """The position as a commit has it; None while there is none."""
        if self.position is None or not self.has_position:
            return None
        return OffsetAndMetadata(self.position.offset, "", self.position.epoch)

    def _enter(self, state: FetchState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.topic_partition}: {self.state} cannot become {state}"
        self.state = state
        if state is FetchState.FETCHING:
            self.tracker.unsettled.pop(self.topic_partition, None)
            self.tracker.restarts += 1
        else:
            self.tracker.unsettled[self.topic_partition] = self

    def _forget_answers(self) -> None:
        self.asked = None
        self.retry_at_ms = 0
        self.preferred_replica = NO_NODE
