"""A broker's place: what differs between one that is alone and a member of a cluster, as one interface.

Three questions, and nothing else about a broker depends on their answers. Where do changes of the metadata come from:
from this broker's own tree, from a controller's requests. Who decides on leaders, topics and ids: this broker, the
controller. How is a change asked for: directly, or by a request to the controller. Handlers read the image whatever the
topology; which partitions this broker leads follows from what the topology is sent.

`TopologyPlan` is what is known before a broker's parts exist, and makes the `Topology` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.broker.topology.internal_topics import NO_OVERRIDES
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.foundation import Foundation
    from tidelog.broker.hosting.hosted_topics import HostedTopics
    from tidelog.broker.hosting.log_dir_moves import LogDirMoves
    from tidelog.broker.security.listener_security import ListenerSecurity
    from tidelog.broker.topology.internal_topics import AutomaticTopic
    from tidelog.config import BrokerConfig
    from tidelog.controller.events import ElectionType, Targets
    from tidelog.coordination import ProducerEpoch
    from tidelog.metadata.image import ClusterImage, TopicImage
    from tidelog.metadata.producer_ids import ProducerIdAllocator
    from tidelog.metadata.store import Store
    from tidelog.metadata.store_queue import StoreQueue
    from tidelog.metadata.tree import ReplicaAssignment
    from tidelog.network.session import Session
    from tidelog.network.socket_server import SocketServer
    from tidelog.quotas import ReplicationQuotas
    from tidelog.replication.fetcher import Fetcher
    from tidelog.replication.replica_manager import ClusterView, ReplicaManager
    from tidelog.replication.replica_selection import RackAwareReplicaSelector
    from tidelog.transactions import MarkerOrder
    from tidelog.wire.api_keys import ApiKey
    from tidelog.wire.partitions import PartitionKey, TopicPartition
    from tidelog.wire.schema import Message


class TopicChanges(Protocol):
    """Topics as clients change them. Every method raises ApiError."""

    async def create(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]] | None,
        overrides: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> TopicImage:
        """Make a topic, or only say what would be made."""

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Let a topic grow to `count` partitions."""

    async def delete(self, name: str) -> bytes:
        """Delete a topic and return the id it had."""

    async def wait_created(self, counts: Mapping[str, int], timeout_ms: int, /) -> Collection[str]:
        """Of topics with so many partitions: those that cannot be used within the time given."""

    async def wait_deleted(self, names: Collection[str], timeout_ms: int, /) -> Collection[str]:
        """Of topics that are deleted: those that clients still see after the time given."""

    async def create_automatically(self, name: str, overrides: Mapping[str, str] = NO_OVERRIDES, /) -> None:
        """Create a topic that a client named, or that a coordinator needs, unless it exists.

        `overrides` are settings that it gets beside those that follow from its name.
        """

    async def create_needed(self, name: str, topic: AutomaticTopic, /) -> None:
        """Create this topic, which an application needs, unless it exists. In a cluster it has no leaders yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFigures:
    """What is to be known of the controller on this broker."""

    is_active: bool
    cluster: Mapping[str, int] = field(default_factory=dict)
    """Counts over the cluster by the names of their metrics, on the active controller."""
    queued_events: int = 0
    queued_requests: Mapping[int, int] = field(default_factory=dict)
    """How many of its requests wait for each broker."""
    unclean_elections: int = 0
    event_counts: Mapping[str, list[int]] = field(default_factory=dict)
    """How long events took, as counts by duration, by the names of their metrics; none without a queue of events."""


class QuorumFeature(NamedTuple):
    """A feature that only clusters of its kind have: what this broker supports of it, and the level in effect."""

    lowest: int
    highest: int
    finalised: int
    """0 where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """The parts of a broker that its topology works with."""

    broker_id: int
    settings: CurrentSettings
    image: ClusterImage
    metadata: StoreQueue
    base: Foundation
    network: SocketServer
    listener_security: ListenerSecurity
    replication_quotas: ReplicationQuotas
    replica_manager: ReplicaManager
    topics: HostedTopics
    log_dir_moves: LogDirMoves


class Topology(Protocol):
    """One broker's place. The methods of a start are called in the order in which they stand here."""

    @property
    def topics(self) -> TopicChanges: ...
    @property
    def producer_ids(self) -> ProducerIdAllocator: ...
    @property
    def final_epoch(self) -> int:
        """The epoch that a stop leaves behind for the next registration to name; -1 where registrations name none."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker takes the changes that only a controller may make."""

    # --- start and stop ---

    def open(self, store: Store, /, *, is_unclean: bool) -> None:
        """The logs are loaded: open what this broker is known to have. `is_unclean` after a crash."""

    def on_new_session(self, look: Callable[[], None]) -> None:
        """Call `look` whenever this broker has a new session with the tree: watches ended with the last one."""

    async def join(self) -> None:
        """Take the place among other brokers. Clients are served after it."""

    def serve(self, store: Store, address: str, /) -> None:
        """Clients are served at `address`: take part in what brokers decide together."""

    async def wait_until_known(self, timeout_ms: int, /) -> bool:
        """Whether Metadata can name this broker and the controller, at the latest after `timeout_ms`."""

    async def hand_over(self) -> None:
        """Before this broker stops: let others have what they can take over."""

    async def close(self) -> None:
        """Take no more part in anything."""

    async def leave(self, seconds: float, /) -> None:
        """After a failure that leaves nothing to serve: let other brokers know at once."""

    # --- changes that this broker makes or asks for ---

    async def register(self) -> None:
        """This broker's addresses have changed."""

    def follow_settings(self, config: BrokerConfig) -> None:
        """Settings of the broker were changed while it runs."""

    def allow_unclean_elections(self, topic: str) -> None:
        """A topic allows unclean elections from now on."""

    def report_offline(self, keys: Collection[PartitionKey]) -> None:
        """A log directory with these partitions failed."""

    # --- what clients and brokers ask for ---

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election_type: ElectionType, deadline_ms: int, /
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Elect leaders and wait until they are known here, at the latest at `deadline_ms` of the monotonic clock.

        Returns why a partition has no new leader; None if it has.
        """

    async def alter_reassignments(self, targets: Targets) -> Mapping[TopicPartition, ApiError | None]:
        """Begin to move replicas, or end a move where there is no target; why a partition is not moved."""

    async def list_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None, /
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """The moves under way: of these partitions, or all."""

    async def serve_broker(self, request: Message, version: int) -> Message:
        """Carry out a request of another broker, one of `TopologyPlan.apis`. Raises ApiError."""

    async def forward(self, request: Message, version: int, session: Session, /) -> Message:
        """The response of the active controller to a client's request, one of `TopologyPlan.forwarded`."""

    # --- transactions that span brokers ---

    def settle_marker(
        self, order: MarkerOrder, partition: PartitionKey, report: Callable[[ErrorCode], None], /
    ) -> bool:
        """Whether a marker is not this broker's to write; `report` then gets what became of it, now or later."""

    def verify(
        self,
        broker_id: int,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        respond: Callable[[dict[PartitionKey, ErrorCode]], None],
        /,
        *,
        adds: bool = False,
    ) -> None:
        """Ask another broker's coordinator whether partitions are part of a transaction (KIP-890), or to add them."""

    # --- coordinators on other brokers ---

    async def ask(self, broker_id: int, request: Message, /) -> Message:
        """Another broker's response to a request. Raises ApiError where there is none."""

    def quorum_features(self) -> Mapping[str, QuorumFeature]:
        """What ApiVersions names beside the features that every kind of cluster has."""

    # --- figures ---

    def controller_figures(self) -> ControllerFigures: ...

    def fetchers(self) -> Iterable[tuple[tuple[int, int], Fetcher]]:
        """What this broker's followers fetch with, each with its leader and number."""

    def bytes_fetched(self) -> tuple[int, int]:
        """What was fetched from leaders since the start, and how much of it for partitions that a reassignment adds."""

    def waiting(self) -> Mapping[str, int]:
        """How many requests wait until the controller has carried out what they ask for, by Kafka's names."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a broker knows before its parts are made."""

    broker_id: int
    store: Store
    loaded: ClusterImage
    """What the metadata says of the cluster."""
    image: ClusterImage
    """What this broker knows of it at first."""
    plan: TopologyPlan
    failed_directories: Mapping[str, str]
    """The log directories that do not say whose they are, with the reasons."""


class TopologyPlan(Protocol):
    """A topology before the parts of its broker are made."""

    apis: frozenset[ApiKey]
    """What other brokers ask of a broker with this topology."""
    forwarded: frozenset[ApiKey]
    """What clients ask for, and a controller that is no broker carries out."""

    def new_image(self, loaded: ClusterImage) -> ClusterImage:
        """What this broker knows of the cluster at first, given what the tree says."""

    def view(self, settings: CurrentSettings, image: ClusterImage, /) -> ClusterView | None:
        """The cluster as the replica manager is to see it; None without others."""

    def replica_selector(self, config: BrokerConfig, /) -> RackAwareReplicaSelector | None:
        """What chooses a replica near a consumer; None where every consumer reads from the leader."""

    def build(self, parts: BrokerParts, loaded: ClusterImage, /) -> Topology:
        """The topology itself; `loaded` is what the tree said when the broker started."""

    async def close(self) -> None:
        """The broker does not start: close what was opened for it."""
