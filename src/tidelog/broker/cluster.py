"""A broker's part in a cluster: it applies the controller's requests, replicates and connects to other brokers.

Every broker has a controller; one of them is active. Its requests are applied one after the other, whatever connection
they come by, each in slices. A broker without a cluster has none of this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, cast

from tidelog.broker.channels import BrokerChannels
from tidelog.broker.cluster_topics import ClusterTopics
from tidelog.broker.control_channel import ControlChannels
from tidelog.broker.controlled_shutdown import hand_leaderships_over
from tidelog.broker.controller_client import ControllerClient, ControllerUnavailable
from tidelog.broker.controller_service import ControllerService
from tidelog.broker.isr_changes import IsrChanges
from tidelog.broker.metadata_waiters import MetadataWaiters
from tidelog.broker.remote_transactions import RemoteTransactions
from tidelog.broker.replica_fetchers import ReplicaFetchers
from tidelog.broker.settings import registration_of
from tidelog.config import BrokerConfig
from tidelog.metadata import paths
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.errors import SessionExpiredError, StoreError
from tidelog.metadata.registrar import BrokerRegistrar
from tidelog.metadata.store import Store
from tidelog.metadata.tree import Endpoint, ProducerIdBlock, encode_log_dir_event
from tidelog.metadata.updates import apply_update, states_by_topic
from tidelog.replication.fetcher import FetcherSettings
from tidelog.replication.replica_set import IsrProposal, ReplicaRules
from tidelog.replication.role_changes import Errors, RoleChanges, StopReplicaOrder
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from tidelog.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tidelog.wire.primitives import NO_UUID
from tidelog.wire.schema import Message

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.replication.partition import Partition

logger = logging.getLogger(__name__)

_NO_BROKER_EPOCH: Final = -1
_NOTICE_PAUSE_S: Final = 1.0
"""Between two attempts to leave a notice in the tree, or to read from it."""
_REGISTRATION_PATIENCE: Final = 1.5
"""For how many session timeouts a broker waits at most until its earlier session has expired. One is not enough: the
ensemble checks sessions from tick to tick."""


class ClusterView:
    """The cluster as the replica manager sees it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.rules = ReplicaRules(node.config.replica_lag_time_max_ms, self._is_alive)

    def _is_alive(self, broker_id: int) -> bool:
        return self._node.image.broker(broker_id) is not None

    def is_known(self, topic: str, index: int) -> bool:
        return self._node.image.partition(topic, index) is not None

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        broker = self._node.image.broker(broker_id)
        return None if broker is None or broker.endpoint(listener) is None else broker.rack

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self._node.in_cluster.isr_changes.submit(partition, proposal)


class ClusterMember:
    """The parts of a broker that exist only in a cluster. Made after the other parts of its node."""

    def __init__(self, node: Node) -> None:
        config = node.config
        self._node = node
        self._lock = asyncio.Lock()
        self._registrar = BrokerRegistrar(
            node.metadata, _REGISTRATION_PATIENCE * config.zookeeper_session_timeout_ms / 1000
        )
        self.broker_epoch = _NO_BROKER_EPOCH
        """The epoch of this broker's registration."""
        self.channels = self._new_channels(self._endpoint_of, "broker", config.request_timeout_ms)
        self._to_controller = self._new_channels(self._endpoint_of_controller, "broker", config.request_timeout_ms)
        self.controller_client = ControllerClient(
            node.broker_id, lambda: node.image.controller_id, self._to_controller, node.surroundings.random
        )
        self.isr_changes = IsrChanges(
            node.broker_id,
            lambda: self.broker_epoch,
            self.controller_client,
            node.replica_manager.on_proposal_answered,
        )
        self.fetchers = ReplicaFetchers(
            node.broker_id,
            self.channels,
            FetcherSettings(
                partition_bytes_max=config.replica_fetch_max_bytes,
                response_bytes_max=config.replica_fetch_response_max_bytes,
                bytes_min=config.replica_fetch_min_bytes,
                wait_ms_max=config.replica_fetch_wait_max_ms,
                backoff_ms=config.replica_fetch_backoff_ms,
            ),
            node.replica_manager,
            node.slices,
            node.clock,
            lambda: self.broker_epoch,
            count=config.num_replica_fetchers,
            request_timeout_ms=config.replica_socket_timeout_ms,
            quota=node.replication_quotas.follower,
        )
        self.transactions = RemoteTransactions(self.channels, node.metadata, node.socket_server.wake)
        self.roles = RoleChanges(
            node.replica_manager, node.topics, self.fetchers, node.topics.leadership_listeners, node.clock
        )
        self._live_leaders: dict[int, Endpoint] = {}
        self._notices: set[asyncio.Task[None]] = set()
        self._control_connections = self._new_channels(
            self._endpoint_for_controller, "controller", config.controller_socket_timeout_ms
        )
        self._control_channels = ControlChannels(
            node.broker_id,
            (config.control_plane_name, config.inter_broker_name),
            self._control_connections,
            self.carry_out,
            timeout_ms=config.controller_socket_timeout_ms,
        )
        self.controller = ControllerService(
            node.broker_id,
            config,
            node.metadata,
            self._control_channels,
            node.surroundings,
            node.scheduler,
            node.slices.pause,
            self.register,
        )
        self.metadata_waiters = MetadataWaiters()
        self.topics = ClusterTopics(node, self.controller, self.controller_client, self.metadata_waiters)

    def _new_channels(
        self, endpoint_of: Callable[[int], Endpoint | None], role: str, request_timeout_ms: int
    ) -> BrokerChannels:
        """Connections to other brokers, in one of this broker's roles."""
        node = self._node
        return BrokerChannels(
            endpoint_of,
            node.listener_security.connector_for,
            client_id=f"{role}-{node.broker_id}",
            request_timeout_ms=request_timeout_ms,
            setup_timeout_ms=node.config.socket_connection_setup_timeout_ms,
        )

    def queue_sizes(self) -> dict[int, int]:
        """How many requests of this broker's controller wait for each broker."""
        return self._control_channels.queue_sizes()

    def start(self) -> None:
        """Begin what is done from time to time, and take a block of producer ids from the controller."""
        self._node.producer_ids.prefetch()
        period_ms = max(self._node.config.replica_lag_time_max_ms // 2, 1)
        self._node.scheduler.schedule(
            "isr-expiration", self._node.replica_manager.propose_shrinking, period_ms, period_ms
        )

    async def register(self, doubtful: Sequence[tuple[str, int]] = ()) -> None:
        """Register this broker in the cluster, with its present addresses.

        `doubtful` are partitions that it must not lead before others had the chance to.
        """
        node = self._node
        ports = node.socket_server.ports()
        registration = registration_of(node.config, node.broker_id, ports, node.clock.wall_ms())
        self.broker_epoch = await self._registrar.register(registration, doubtful)
        # A session that ended has taken the watch of changed settings with it.
        node.dynamic_config.look()
        if node.access is not None:
            node.access.look()
        if node.tokens is not None:
            node.tokens.look()

    async def wait_until_known(self, timeout_ms: int) -> bool:
        """Whether the controller has named this broker and itself, at the latest after `timeout_ms`.

        Before that, Metadata names no brokers, and some clients wait for minutes until they ask again.
        """
        image, broker_id = self._node.image, self._node.broker_id
        return await self.metadata_waiters.wait(
            lambda: image.controller_id >= 0 and image.broker(broker_id) is not None, timeout_ms
        )

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        """A block of producer ids of this broker's own. Raises ApiError, after which the producer tries again."""
        request = AllocateProducerIdsRequest(broker_id=self._node.broker_id, broker_epoch=self.broker_epoch)
        try:
            answer = await self.controller_client.send(request, timeout_ms=self._node.config.request_timeout_ms)
        except ControllerUnavailable as error:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        response = cast(AllocateProducerIdsResponse, answer)
        if response.error_code:
            code = ErrorCode(response.error_code)
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the controller allocates no ids: {code.name}")
        first = response.producer_id_start
        return ProducerIdBlock(self._node.broker_id, first, first + response.producer_id_len - 1)

    def report_offline(self, keys: Collection[tuple[str, int]]) -> None:
        """A log directory with these partitions failed: the controller elects other leaders."""
        self.fetchers.unfollow(keys)
        loop = asyncio.get_running_loop()
        for key in keys:
            # Not now: it may be a coordinator's own write that has failed, and it is in the middle of it.
            loop.call_soon(self._node.topics.resign, *key)
        task = loop.create_task(self._notify_of_failed_directory())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _notify_of_failed_directory(self) -> None:
        """Write a notice to the tree. The controller reads it and asks this broker which replicas are online."""
        prefix = f"{paths.LOG_DIR_EVENTS}/{paths.LOG_DIR_EVENT_PREFIX}"
        data = encode_log_dir_event(self._node.broker_id)
        while True:
            try:
                await self._node.metadata.run(_leave_notice, prefix, data)
                return
            except StoreError as error:
                logger.warning("the controller cannot be notified of a failed log directory yet: %s", error)
                await asyncio.sleep(_NOTICE_PAUSE_S)

    def update_config(self, config: BrokerConfig) -> None:
        """Settings of the broker were changed while it runs."""
        self.fetchers.set_count(config.num_replica_fetchers)
        self.controller.update_config(config)

    async def hand_over(self) -> None:
        """Before this broker stops: move its leaderships to other brokers.

        Not while the metadata cannot be reached: the controller could not move them, and would not reply.
        """
        node, config = self._node, self._node.config
        if config.controlled_shutdown_enable and node.metadata.is_reachable:
            await hand_leaderships_over(
                self.controller_client,
                node.broker_id,
                self.broker_epoch,
                has_peers=lambda: any(each != node.broker_id for each in node.image.broker_ids()),
                attempts=config.controlled_shutdown_max_retries,
                pause_ms=config.controlled_shutdown_retry_backoff_ms,
                timeout_ms=config.controller_socket_timeout_ms,
            )

    async def close(self) -> None:
        """Stop replicating and sending requests; resign as controller."""
        for task in list(self._notices):
            task.cancel()
        self._node.producer_ids.close()
        await self.topics.close()
        await self.controller.stop()
        await self.fetchers.close()
        await self.isr_changes.close()
        await self.transactions.close()
        await self.channels.close()
        await self._to_controller.close()
        await self._control_connections.close()

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        """Where another broker listens for brokers: by the image, or by the last LeaderAndIsr that named it."""
        broker = self._node.image.broker(broker_id)
        known = None if broker is None else broker.endpoint(self._node.config.inter_broker_name)
        return known or self._live_leaders.get(broker_id)

    def _endpoint_of_controller(self, broker_id: int) -> Endpoint | None:
        """Where the controller listens for brokers; those that have no control plane listener have the other one."""
        broker = self._node.image.broker(broker_id)
        known = None if broker is None else broker.endpoint(self._node.config.control_plane_name)
        return known or self._endpoint_of(broker_id)

    def _endpoint_for_controller(self, broker_id: int) -> Endpoint | None:
        """Where this broker's controller reaches a broker: by what it read from the tree itself."""
        return self._control_channels.endpoint_of(broker_id)

    def _check(self, broker_epoch: int, controller_epoch: int) -> None:
        """Raise ApiError for a request to an earlier registration of this broker, or from an earlier controller.

        The controller may read our registration before we have its epoch, so a larger epoch is no error.
        """
        if _NO_BROKER_EPOCH < broker_epoch < self.broker_epoch:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"this broker's epoch is {self.broker_epoch}")
        self.roles.check_controller(controller_epoch)

    # --- the controller's requests ---

    async def carry_out(self, request: Message) -> Message:
        """Apply a request of this broker's own controller."""
        apply, response_class = self._requests[type(request)]
        try:
            return await apply(self, request)
        except ApiError as error:
            return response_class(error_code=error.code)  # type: ignore[call-arg]

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Apply a LeaderAndIsr request; raises ApiError if it is refused as a whole."""
        async with self._lock:
            self._check(request.broker_epoch, request.controller_epoch)
            for leader in request.live_leaders:
                self._live_leaders[leader.broker_id] = Endpoint("", leader.host_name, leader.port)
            states = _states(request)
            await self._read_configs(topic for topic, _, _ in states)
            errors = await self._node.slices.run(self.roles.become_leader_or_follower(states))
            self._node.log_dir_moves.resume()
        self._node.socket_server.wake()
        return _leader_and_isr_response(states, errors)

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Apply a StopReplica request; raises ApiError if it is refused as a whole."""
        async with self._lock:
            self._check(request.broker_epoch, request.controller_epoch)
            orders = _orders(request)
            errors = await self._node.slices.run(self.roles.stop_replicas(orders))
            for name in dict.fromkeys(order.topic for order in orders if order.is_deleted):
                await self._node.topics.forget_deleted(name)
        self._node.socket_server.wake()
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(topic_name=topic, partition_index=index, error_code=code)
                for (topic, index), code in errors.items()
            ]
        )

    async def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Apply an UpdateMetadata request; raises ApiError if it is refused as a whole."""
        async with self._lock:
            self._check(request.broker_epoch, request.controller_epoch)
            gone = await self._node.slices.run(apply_update(self._node.image, request))
            states = ((name, state) for name, _, found in states_by_topic(request) for state in found)
            await self._node.slices.run(self.roles.give_up_moved(states))
        if gone:
            self._node.topics.on_deleted(gone)
        self.metadata_waiters.check()
        self._node.socket_server.wake()
        return UpdateMetadataResponse()

    _requests: ClassVar[Mapping[type[Message], tuple[Callable[..., Awaitable[Message]], type[Message]]]] = {
        LeaderAndIsrRequest: (lead_and_follow, LeaderAndIsrResponse),
        StopReplicaRequest: (stop_replicas, StopReplicaResponse),
        UpdateMetadataRequest: (update_metadata, UpdateMetadataResponse),
    }

    async def _read_configs(self, topics: Iterable[str]) -> None:
        """Read the settings of topics that are new here, before their logs are opened."""
        new = [name for name in dict.fromkeys(topics) if self._node.topics.is_new(name)]
        if new:
            overrides = await self._read_overrides(new)
            for name, values in zip(new, overrides, strict=True):
                self._node.image.set_overrides(name, values)

    async def _read_overrides(self, topics: list[str]) -> list[dict[str, str]]:
        """Read settings of topics, as soon as the tree can be reached: the controller sends a request only once.

        Raises ApiError if the session ends: then this broker registers again, and the controller sends it everything.
        """
        while True:
            try:
                return await self._node.metadata.run(_read_all_overrides, topics)
            except SessionExpiredError as error:
                logger.warning("the settings of %d new topics cannot be read: %s", len(topics), error)
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
            except StoreError as error:
                logger.warning("the settings of %d new topics cannot be read yet: %s", len(topics), error)
                await asyncio.sleep(_NOTICE_PAUSE_S)


def _read_all_overrides(store: Store, topics: list[str]) -> list[dict[str, str]]:
    return [read_overrides(store, ConfigEntity("topics", name)) for name in topics]


def _leave_notice(store: Store, prefix: str, data: bytes) -> None:
    store.create(prefix, data, sequential=True)


def _states(request: LeaderAndIsrRequest) -> list[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    """Topic, topic id and state of every partition, from whichever field the version has them in."""
    states = [
        (topic.topic_name, topic.topic_id, state) for topic in request.topic_states for state in topic.partition_states
    ]
    states += [(state.topic_name, NO_UUID, state) for state in request.ungrouped_partition_states]
    return states


def _leader_and_isr_response(
    states: list[tuple[str, bytes, LeaderAndIsrPartitionState]], errors: Errors
) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse()
    topics: dict[bytes, LeaderAndIsrTopicError] = {}
    for name, topic_id, state in states:
        error = LeaderAndIsrPartitionError(
            topic_name=name,
            partition_index=state.partition_index,
            error_code=errors[name, state.partition_index],
        )
        response.partition_errors.append(error)
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = LeaderAndIsrTopicError(topic_id=topic_id)
            response.topics.append(topic)
        topic.partition_errors.append(error)
    return response


def _orders(request: StopReplicaRequest) -> list[StopReplicaOrder]:
    """Every partition of a request, from whichever field the version has them in."""
    orders = [
        StopReplicaOrder(topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    is_deleted = request.delete_partitions
    orders += [
        StopReplicaOrder(topic.name, index, -1, is_deleted)
        for topic in request.topics
        for index in topic.partition_indexes
    ]
    orders += [
        StopReplicaOrder(partition.topic_name, partition.partition_index, -1, is_deleted)
        for partition in request.ungrouped_partitions
    ]
    return orders
