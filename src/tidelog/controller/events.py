"""The controller's events, as values, and the queue in which they wait: one event is processed at a time.

Events that carry a request have a `reply`, which gets the outcome, or NOT_CONTROLLER when the event is dropped because
this broker stops being controller.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from tidelog.controller.request_batch import ReplicaDeletions
from tidelog.metadata.tree import ProducerIdBlock, ReplicaAssignment
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrResponse
from tidelog.wire.partitions import TopicPartition

T_contra = TypeVar("T_contra", contravariant=True)

Targets: TypeAlias = Mapping[TopicPartition, tuple[int, ...] | None]
"""Where partitions are to move; None cancels a move under way."""


class Priority(IntEnum):
    HIGH = 0
    LOW = 1


class ElectionType(IntEnum):
    """By their numbers in ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionTrigger(Enum):
    TREE = "a node of the tree"
    ADMIN = "an admin client"


class Reply(Generic[T_contra]):
    """Takes the outcome of a request once: later outcomes are ignored."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[T_contra], object]) -> None:
        self._callback: Callable[[T_contra], object] | None = callback

    def __call__(self, outcome: T_contra) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback(outcome)


class Event:
    """Something that the controller reacts to."""

    priority: ClassVar[Priority] = Priority.LOW

    def fail(self, code: ErrorCode) -> None:
        """The event was not processed, or not to its end: answer the request that it carries, if any."""


class Request(Event):
    """An event that carries a request, which is answered with an ApiError if the event is not processed."""

    reply: Reply[Any]

    def fail(self, code: ErrorCode) -> None:
        self.reply(ApiError(code))


@dataclass(frozen=True, slots=True)
class Startup(Event):
    """The broker is registered and takes part in elections from now on."""


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """`/controller` was made or changed."""


@dataclass(frozen=True, slots=True)
class Reelect(Event):
    """`/controller` is gone."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerAndReelect(Event):
    """There is a new session with the tree, after one that ended."""


@dataclass(frozen=True, slots=True)
class Expire(Event):
    """The session with the tree is over."""


@dataclass(frozen=True, slots=True)
class Shutdown(Event):
    """The broker stops."""


@dataclass(frozen=True, slots=True)
class BrokerChange(Event):
    """Brokers came or went. Before all else: what waits may be for a broker that is gone."""

    priority: ClassVar[Priority] = Priority.HIGH


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """A broker changed its registration."""

    broker_id: int
    priority: ClassVar[Priority] = Priority.HIGH


@dataclass(frozen=True, slots=True)
class TopicChange(Event):
    """Topics came or went."""


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """A topic's assignment changed."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion(Event):
    """Topics are to be deleted."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(Event):
    """Leaders changed their ISR in the tree, as versions before AlterPartition did."""


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(Event):
    """Log directories of brokers failed."""


@dataclass(frozen=True, slots=True)
class TreeReassignment(Event):
    """`/admin/reassign_partitions` was made, or may have been."""


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable(Event):
    """`unclean.leader.election.enable` was switched on: for a topic, or by default."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection(Event):
    """It is time to look whether preferred leaders should be elected."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered(Event):
    broker_id: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class ReplicaDeletionsAnswered(Event):
    deletions: ReplicaDeletions


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection(Event):
    """Leaders are to be elected: of these partitions, or of those in `/admin/preferred_replica_election`."""

    partitions: tuple[TopicPartition, ...] | None = None
    election_type: ElectionType = ElectionType.PREFERRED
    trigger: ElectionTrigger = ElectionTrigger.TREE
    reply: Reply[Mapping[TopicPartition, int | ApiError]] | None = None
    """Gets the new leader of each partition, or why there is none."""

    def fail(self, code: ErrorCode) -> None:
        if self.reply is not None:
            self.reply({partition: ApiError(code) for partition in self.partitions or ()})


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Request):
    """A broker is about to stop."""

    broker_id: int
    broker_epoch: int
    reply: Reply[list[TopicPartition] | ApiError]
    """Gets the partitions that the broker still leads."""


@dataclass(frozen=True, slots=True)
class ApiReassignment(Request):
    """AlterPartitionReassignments."""

    targets: Targets
    reply: Reply[Mapping[TopicPartition, ApiError | None] | ApiError]


@dataclass(frozen=True, slots=True)
class ListReassignments(Request):
    """ListPartitionReassignments; None is for all."""

    partitions: tuple[TopicPartition, ...] | None
    reply: Reply[Mapping[TopicPartition, ReplicaAssignment] | ApiError]


@dataclass(frozen=True, slots=True)
class AlterPartition(Event):
    """A leader wants another ISR."""

    request: AlterPartitionRequest
    version: int
    reply: Reply[AlterPartitionResponse]

    def fail(self, code: ErrorCode) -> None:
        self.reply(AlterPartitionResponse(error_code=code))


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Request):
    """A broker needs producer ids."""

    broker_id: int
    broker_epoch: int
    reply: Reply[ProducerIdBlock | ApiError]


class EventQueue:
    """Events by priority, then in the order in which they came."""

    def __init__(self, on_put: Callable[[], object] = lambda: None) -> None:
        """`on_put` is called after each event that was added."""
        self._events: list[tuple[Priority, int, Event]] = []
        self._count = 0
        self._on_put = on_put

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._events, (event.priority, self._count, event))
        self._on_put()

    def pop(self) -> Event | None:
        return heapq.heappop(self._events)[2] if self._events else None

    def clear_and_put(self, event: Event) -> None:
        """Drop what waits, since it was for a controller that this broker is no longer, then add `event`.

        A shutdown stays: the session may expire while the broker stops.
        """
        before = sorted(self._events, key=lambda entry: entry[:2])
        self._events = [entry for entry in before if isinstance(entry[2], Shutdown)]
        for _, _, each in before:
            if not isinstance(each, Shutdown):
                each.fail(ErrorCode.NOT_CONTROLLER)
        self.put(event)
