"""A member of a cluster whose brokers share a metadata tree: a controller, on one of them, decides.

Every member has a controller; one of them is active, and orders what each broker leads and follows
(`broker.topology.controller_requests`). A change that a client asks this broker for goes to the tree if this broker's
controller is the active one; what this broker itself needs is asked of the active one by a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.configuration.settings import registration_of
from tidelog.broker.runtime.deadlines import within
from tidelog.broker.topology.channels import BrokerChannels
from tidelog.broker.topology.cluster_topics import ClusterTopics
from tidelog.broker.topology.control_channel import ControlChannels
from tidelog.broker.topology.controlled_shutdown import hand_leaderships_over
from tidelog.broker.topology.controller_client import ControllerClient, allocate_producer_ids
from tidelog.broker.topology.controller_figures import counts_of, figures_of
from tidelog.broker.topology.controller_requests import NO_BROKER_EPOCH, ControllerRequests
from tidelog.broker.topology.controller_service import ControllerService
from tidelog.broker.topology.isr_changes import IsrChanges
from tidelog.broker.topology.metadata_waiters import ELECT_LEADER, MetadataWaiters
from tidelog.broker.topology.remote_transactions import RemoteTransactions
from tidelog.broker.topology.replica_fetchers import ReplicaFetchers
from tidelog.broker.topology.topic_planning import TopicPlanner
from tidelog.broker.topology.topology import BrokerParts, ControllerFigures, QuorumFeature
from tidelog.config import BrokerConfig
from tidelog.metadata import paths
from tidelog.metadata.errors import StoreError
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.producer_ids import ProducerIdAllocator
from tidelog.metadata.registrar import BrokerRegistrar
from tidelog.metadata.store import Store
from tidelog.metadata.tree import Endpoint, ReplicaAssignment, encode_log_dir_event
from tidelog.replication.fetcher import Fetcher, FetcherSettings
from tidelog.replication.replica_selection import RackAwareReplicaSelector, replica_selector
from tidelog.replication.replica_set import IsrProposal, ReplicaRules
from tidelog.tasks import OwnedTasks
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from tidelog.wire.partitions import PartitionKey, TopicPartition
from tidelog.wire.schema import Message

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.controller.events import ElectionType, Targets
    from tidelog.coordination import ProducerEpoch
    from tidelog.network.session import Session
    from tidelog.replication.partition import Partition
    from tidelog.transactions import MarkerOrder

logger = logging.getLogger(__name__)

_NOTICE_PAUSE_S: Final = 1.0
"""Between two attempts to leave a notice in the tree."""
_REGISTRATION_PATIENCE: Final = 1.5
"""For how many session timeouts a broker waits at most until its earlier session has expired. One is not enough: the
ensemble checks sessions from tick to tick."""


class SharedView:
    """The cluster as the replica manager sees it."""

    def __init__(self, settings: CurrentSettings, image: ClusterImage) -> None:
        self._image = image
        self.rules = ReplicaRules(settings.config.replica_lag_time_max_ms, self._is_alive)
        self.submit: Callable[[Partition, IsrProposal], None]
        """Takes proposals to the controller; set when there is a way to it, before any partition is opened."""

    def _is_alive(self, broker_id: int) -> bool:
        return self._image.broker(broker_id) is not None

    def is_known(self, topic: str, index: int) -> bool:
        return self._image.partition(topic, index) is not None

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        broker = self._image.broker(broker_id)
        return None if broker is None or broker.endpoint(listener) is None else broker.rack

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self.submit(partition, proposal)


class ClusterMember:
    """One broker of a cluster. Made after the parts that it works with."""

    def __init__(self, parts: BrokerParts, view: SharedView, in_sync_at_start: Collection[PartitionKey]) -> None:
        """`in_sync_at_start` are the partitions that this broker was in sync for when it started, by the tree."""
        config, base = parts.settings.config, parts.base
        self._parts = parts
        self._image = parts.image
        self._clock = base.clock
        self._in_sync_at_start = in_sync_at_start
        self._doubtful: Sequence[PartitionKey] = ()
        self._looks: list[Callable[[], None]] = []
        self._notices = OwnedTasks()
        self._registrar = BrokerRegistrar(
            parts.metadata, _REGISTRATION_PATIENCE * config.zookeeper_session_timeout_ms / 1000
        )
        self.broker_epoch = NO_BROKER_EPOCH
        """The epoch of this broker's registration."""
        self.channels = self._new_channels(self._endpoint_of, "broker", config.request_timeout_ms)
        self._to_controller = self._new_channels(self._endpoint_of_controller, "broker", config.request_timeout_ms)
        self.controller_client = ControllerClient(
            parts.broker_id, lambda: parts.image.controller_id, self._to_controller, base.surroundings.random
        )
        self.isr_changes = IsrChanges(
            parts.broker_id,
            lambda: self.broker_epoch,
            self.controller_client,
            parts.replica_manager.on_proposal_answered,
        )
        view.submit = self.isr_changes.submit
        self.replica_fetchers = ReplicaFetchers(
            parts.broker_id,
            self.channels,
            FetcherSettings(
                partition_bytes_max=config.replica_fetch_max_bytes,
                response_bytes_max=config.replica_fetch_response_max_bytes,
                bytes_min=config.replica_fetch_min_bytes,
                wait_ms_max=config.replica_fetch_wait_max_ms,
                backoff_ms=config.replica_fetch_backoff_ms,
            ),
            parts.replica_manager,
            base.slices,
            base.clock,
            lambda: self.broker_epoch,
            count=config.num_replica_fetchers,
            request_timeout_ms=config.replica_socket_timeout_ms,
            quota=parts.replication_quotas.follower,
        )
        self._transactions = RemoteTransactions(self.channels, parts.metadata, parts.network.wake)
        self.metadata_waiters = MetadataWaiters()
        self.requests = ControllerRequests(
            parts, self.replica_fetchers, self.metadata_waiters, lambda: self.broker_epoch
        )
        self._control_connections = self._new_channels(
            self._endpoint_for_controller, "controller", config.controller_socket_timeout_ms
        )
        self._control_channels = ControlChannels(
            parts.broker_id,
            (config.control_plane_name, config.inter_broker_name),
            self._control_connections,
            self.requests.carry_out,
            timeout_ms=config.controller_socket_timeout_ms,
        )
        self.controller = ControllerService(
            parts.broker_id,
            config,
            parts.metadata,
            self._control_channels,
            base.surroundings,
            base.scheduler,
            base.slices.pause,
            self.register,
        )
        planner = TopicPlanner(parts.settings, parts.image, parts.metadata, base.background, base.surroundings.random)
        self.topics = ClusterTopics(
            parts.settings, parts.image, parts.metadata, planner, self.controller, self.metadata_waiters
        )
        self.producer_ids = ProducerIdAllocator(
            partial(
                allocate_producer_ids,
                self.controller_client,
                parts.broker_id,
                lambda: self.broker_epoch,
                config.request_timeout_ms,
            )
        )
        self._served: Mapping[type[Message], Callable[[Any, int], Awaitable[Message]]] = {
            **{kind: _without_version(apply) for kind, (apply, _) in self.requests.handlers.items()},
            AlterPartitionRequest: self.controller.alter_partition,
            AllocateProducerIdsRequest: self._serve_producer_ids,
            ControlledShutdownRequest: self._serve_shutdown,
        }

    def _new_channels(
        self, endpoint_of: Callable[[int], Endpoint | None], role: str, request_timeout_ms: int
    ) -> BrokerChannels:
        """Connections to other brokers, in one of this broker's roles."""
        parts = self._parts
        return BrokerChannels(
            endpoint_of,
            parts.listener_security.connector_for,
            client_id=f"{role}-{parts.broker_id}",
            request_timeout_ms=request_timeout_ms,
            setup_timeout_ms=parts.settings.config.socket_connection_setup_timeout_ms,
        )

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        """Where another broker listens for brokers: by the image, or by the last LeaderAndIsr that named it."""
        broker = self._image.broker(broker_id)
        known = None if broker is None else broker.endpoint(self._parts.settings.config.inter_broker_name)
        return known or self.requests.last_address_of(broker_id)

    def _endpoint_of_controller(self, broker_id: int) -> Endpoint | None:
        """Where the controller listens for brokers; those that have no control plane listener have the other one."""
        broker = self._image.broker(broker_id)
        known = None if broker is None else broker.endpoint(self._parts.settings.config.control_plane_name)
        return known or self._endpoint_of(broker_id)

    def _endpoint_for_controller(self, broker_id: int) -> Endpoint | None:
        """Where this broker's controller reaches a broker: by what it read from the tree itself."""
        return self._control_channels.endpoint_of(broker_id)

    @property
    def final_epoch(self) -> int:
        """A registration in the tree does not name the one before."""
        return NO_BROKER_EPOCH

    @property
    def is_controller(self) -> bool:
        return self.controller.is_active

    # --- start and stop ---

    def open(self, _store: Store, *, is_unclean: bool) -> None:
        """Nothing yet: the controller says what to lead and follow.

        Partitions that this broker was in sync for, and whose log is not sure to have what it acknowledged, are
        remembered: it must not lead them before others had the chance to.
        """
        log_manager = self._parts.base.log_manager
        self._doubtful = [key for key in self._in_sync_at_start if is_unclean or log_manager.get_log(*key) is None]

    def on_new_session(self, look: Callable[[], None]) -> None:
        """A session that ended has taken its watches with it."""
        self._looks.append(look)

    async def join(self) -> None:
        """Register, take a block of producer ids, and begin what is done from time to time.

        Nothing is served before the registration: requests to the earlier registration, which the controller may still
        consider alive, would make this broker lead with logs that may have lost records.
        """
        await self._register(self._doubtful)
        self.producer_ids.prefetch()
        period_ms = max(self._parts.settings.config.replica_lag_time_max_ms // 2, 1)
        self._parts.base.scheduler.schedule(
            "isr-expiration", self._parts.replica_manager.propose_shrinking, period_ms, period_ms
        )

    def serve(self, store: Store, address: str) -> None:
        """Take part in elections of the controller."""
        self.controller.start(store)
        logger.info("broker %d joined cluster %s on %s", self._parts.broker_id, self._image.cluster_id, address)

    async def wait_until_known(self, timeout_ms: int) -> bool:
        """Whether the controller has named this broker and itself, at the latest after `timeout_ms`.

        Before that, Metadata names no brokers, and some clients wait for minutes until they ask again.
        """
        image, broker_id = self._image, self._parts.broker_id
        return await self.metadata_waiters.wait(
            lambda: image.controller_id >= 0 and image.broker(broker_id) is not None, timeout_ms
        )

    async def hand_over(self) -> None:
        """Before this broker stops: move its leaderships to other brokers.

        Not while the metadata cannot be reached: the controller could not move them, and would not reply.
        """
        parts, config = self._parts, self._parts.settings.config
        if config.controlled_shutdown_enable and parts.metadata.is_reachable:
            await hand_leaderships_over(
                self.controller_client,
                parts.broker_id,
                self.broker_epoch,
                has_peers=lambda: any(each != parts.broker_id for each in parts.image.broker_ids()),
                attempts=config.controlled_shutdown_max_retries,
                pause_ms=config.controlled_shutdown_retry_backoff_ms,
                timeout_ms=config.controller_socket_timeout_ms,
            )

    async def close(self) -> None:
        """Stop replicating and sending requests; resign as controller."""
        self._notices.cancel()
        self.producer_ids.close()
        await self.controller.stop()
        await self.replica_fetchers.close()
        await self.isr_changes.close()
        await self._transactions.close()
        await self.channels.close()
        await self._to_controller.close()
        await self._control_connections.close()

    async def leave(self, seconds: float) -> None:
        """End the session, so that other brokers lead at once."""
        metadata = self._parts.metadata
        metadata.limit_waits(0.0)
        try:
            await within(seconds, "the metadata", metadata.close())
        except StoreError as error:
            logger.error("the session with the metadata could not be ended: %s", error)

    # --- changes that this broker makes or asks for ---

    async def register(self) -> None:
        """Register this broker in the cluster, with its present addresses."""
        await self._register(())

    async def _register(self, doubtful: Sequence[PartitionKey]) -> None:
        """`doubtful` are partitions that this broker must not lead before others had the chance to."""
        parts = self._parts
        registration = registration_of(
            parts.settings.config, parts.broker_id, parts.network.ports(), self._clock.wall_ms()
        )
        self.broker_epoch = await self._registrar.register(registration, doubtful)
        for look in self._looks:
            look()

    def follow_settings(self, config: BrokerConfig) -> None:
        self.replica_fetchers.set_count(config.num_replica_fetchers)
        self.controller.update_config(config)

    def allow_unclean_elections(self, topic: str) -> None:
        self.controller.enable_unclean_elections(topic)

    def report_offline(self, keys: Collection[PartitionKey]) -> None:
        """The controller elects other leaders."""
        self.replica_fetchers.unfollow(keys)
        loop = asyncio.get_running_loop()
        for key in keys:
            # Not now: it may be a coordinator's own write that has failed, and it is in the middle of it.
            loop.call_soon(self._parts.topics.resign, *key)
        self._notices.spawn(self._notify_of_failed_directory())

    async def _notify_of_failed_directory(self) -> None:
        """Write a notice to the tree. The controller reads it and asks this broker which replicas are online."""
        prefix = f"{paths.LOG_DIR_EVENTS}/{paths.LOG_DIR_EVENT_PREFIX}"
        data = encode_log_dir_event(self._parts.broker_id)
        while True:
            try:
                await self._parts.metadata.run(_leave_notice, prefix, data)
                return
            except StoreError as error:
                logger.warning("the controller cannot be notified of a failed log directory yet: %s", error)
                await asyncio.sleep(_NOTICE_PAUSE_S)

    # --- what clients and brokers ask for ---

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election_type: ElectionType, deadline_ms: int
    ) -> Mapping[TopicPartition, ApiError | None]:
        outcomes = await self.controller.elect_leaders(tuple(partitions), election_type)
        elected = {partition: leader for partition, leader in outcomes.items() if isinstance(leader, int)}
        left_ms = deadline_ms - self._clock.monotonic_ms()
        await self.metadata_waiters.wait(lambda: not _unknown_leaders(elected, self._image), left_ms, ELECT_LEADER)
        late = _unknown_leaders(elected, self._image)
        return {
            partition: (ApiError(ErrorCode.REQUEST_TIMED_OUT) if partition in late else None)
            if isinstance(outcome, int)
            else outcome
            for partition, outcome in outcomes.items()
        }

    async def alter_reassignments(self, targets: Targets) -> Mapping[TopicPartition, ApiError | None]:
        return await self.controller.alter_reassignments(targets)

    async def list_reassignments(
        self, partitions: tuple[TopicPartition, ...] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        return await self.controller.list_reassignments(partitions)

    async def serve_broker(self, request: Message, version: int) -> Message:
        return await self._served[type(request)](request, version)

    async def _serve_producer_ids(self, request: AllocateProducerIdsRequest, _version: int) -> Message:
        """The block belongs to the broker once it is in the tree."""
        block = await self.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
        return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)

    async def _serve_shutdown(self, request: ControlledShutdownRequest, _version: int) -> Message:
        """Answer with the partitions that the broker still leads; it asks again while there are any."""
        remaining = await self.controller.shut_down(request.broker_id, request.broker_epoch)
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining
            ]
        )

    async def forward(self, request: Message, version: int, _session: Session) -> Message:
        """Clients ask the controller's broker itself, and the dispatcher forwards nothing."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{type(request).__name__} {version} is not forwarded")

    # --- transactions that span brokers ---

    def settle_marker(self, order: MarkerOrder, partition: PartitionKey, report: Callable[[ErrorCode], None]) -> bool:
        """Another broker leads the partition, or it may be deleted."""
        known = self._image.partition(*partition)
        if known is None:
            self._transactions.look_up(partition, report)
            return True
        if known.leader_id < 0 or known.leader_id == self._parts.broker_id:
            return False  # without a leader the partition itself says that it is not led here
        self._transactions.write_marker(known.leader_id, order, partition, report)
        return True

    def verify(
        self,
        broker_id: int,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        respond: Callable[[dict[PartitionKey, ErrorCode]], None],
        *,
        adds: bool = False,
    ) -> None:
        self._transactions.verify(broker_id, transactional_id, producer, partitions, respond, adds=adds)

    # --- coordinators on other brokers ---

    async def ask(self, broker_id: int, request: Message) -> Message:
        return await self.channels.ask(broker_id, request)

    def quorum_features(self) -> Mapping[str, QuorumFeature]:
        """None: there is no quorum."""
        return {}

    # --- figures ---

    def controller_figures(self) -> ControllerFigures:
        controller = self.controller.controller
        return ControllerFigures(
            is_active=controller.is_active,
            cluster=figures_of(controller.context) if controller.is_active else {},
            queued_events=len(controller.events),
            queued_requests=self._control_channels.queue_sizes(),
            unclean_elections=controller.unclean_elections,
            event_counts=counts_of(self.controller.event_times),
        )

    def fetchers(self) -> Iterable[tuple[tuple[int, int], Fetcher]]:
        return self.replica_fetchers.fetchers()

    def bytes_fetched(self) -> tuple[int, int]:
        return self.replica_fetchers.bytes_fetched()

    def waiting(self) -> Mapping[str, int]:
        return self.metadata_waiters.counts


class MemberPlan:
    """The controller fills the image; only settings of topics are read from the tree."""

    apis: frozenset[ApiKey] = frozenset(
        {
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.ALTER_PARTITION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
        }
    )
    forwarded: frozenset[ApiKey] = frozenset()

    def __init__(self) -> None:
        self._view: SharedView

    def new_image(self, loaded: ClusterImage) -> ClusterImage:
        image = ClusterImage(loaded.cluster_id)
        for topic in loaded.topics():
            image.set_overrides(topic.name, loaded.overrides(topic.name))
        return image

    def view(self, settings: CurrentSettings, image: ClusterImage) -> SharedView:
        self._view = SharedView(settings, image)
        return self._view

    def replica_selector(self, config: BrokerConfig) -> RackAwareReplicaSelector | None:
        return replica_selector(config.replica_selector_class)

    def build(self, parts: BrokerParts, loaded: ClusterImage) -> ClusterMember:
        in_sync = [
            (topic.name, partition.index)
            for topic in loaded.topics()
            for partition in topic.partitions
            if parts.broker_id in partition.isr
        ]
        return ClusterMember(parts, self._view, in_sync)

    async def close(self) -> None:
        """Nothing was opened."""


def _without_version(apply: Callable[..., Awaitable[Message]]) -> Callable[[Any, int], Awaitable[Message]]:
    return lambda request, _version: apply(request)


def _leave_notice(store: Store, prefix: str, data: bytes) -> None:
    store.create(prefix, data, sequential=True)


def _unknown_leaders(elected: Mapping[TopicPartition, int], image: ClusterImage) -> set[TopicPartition]:
    """The partitions that have, in the image, another leader than was elected."""
    return {
        partition
        for partition, leader in elected.items()
        if (known := image.partition(*partition)) is None or known.leader_id != leader
    }
