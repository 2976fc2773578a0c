"""A member of a KRaft cluster: Apache Kafka's controllers decide, and say so in the metadata log.

This broker follows the log (`quorum_link`), applies what it says (`quorum_changes`), is registered and sends heartbeats
(`quorum_lifecycle`), and hands clients' changes on to the active controller (`quorum_forwarding`). What the leaders and
followers, coordinators and handlers do is the same as in every other topology.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from tidelog.broker.configuration.settings import registration_of
from tidelog.broker.topology.channels import BrokerChannels
from tidelog.broker.topology.controller_client import allocate_producer_ids
from tidelog.broker.topology.internal_topics import NO_OVERRIDES, AutomaticTopic, automatic_topic
from tidelog.broker.topology.isr_changes import IsrChanges
from tidelog.broker.topology.metadata_waiters import ELECT_LEADER, TOPIC, MetadataWaiters
from tidelog.broker.topology.quorum_changes import QuorumChanges
from tidelog.broker.topology.quorum_directories import ReplicaDirectories
from tidelog.broker.topology.quorum_forwarding import FORWARDED, Forwarding
from tidelog.broker.topology.quorum_lifecycle import Lifecycle
from tidelog.broker.topology.remote_transactions import RemoteTransactions
from tidelog.broker.topology.replica_fetchers import ReplicaFetchers
from tidelog.broker.topology.topology import BrokerParts, ControllerFigures, QuorumFeature
from tidelog.metadata.producer_ids import ProducerIdAllocator
from tidelog.metadata.quorum.projection import QUORUM_FEATURES
from tidelog.replication.fetcher import Fetcher, FetcherSettings
from tidelog.replication.replica_selection import RackAwareReplicaSelector, replica_selector
from tidelog.replication.replica_set import IsrProposal, ReplicaRules
from tidelog.tasks import OwnedTasks
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.topology.quorum_link import QuorumLink
    from tidelog.config import BrokerConfig
    from tidelog.controller.events import ElectionType, Targets
    from tidelog.coordination import ProducerEpoch
    from tidelog.metadata.image import ClusterImage, TopicImage
    from tidelog.metadata.quorum.state import Touched
    from tidelog.metadata.store import Store
    from tidelog.metadata.tree import Endpoint, ReplicaAssignment
    from tidelog.network.session import Session
    from tidelog.replication.partition import Partition
    from tidelog.transactions import MarkerOrder
    from tidelog.wire.api_keys import ApiKey
    from tidelog.wire.partitions import PartitionKey, TopicPartition
    from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

_CREATION_TIMEOUT_MS: Final = 30_000


class QuorumView:
    """The cluster as the replica manager sees it."""

    def __init__(self, settings: CurrentSettings, image: ClusterImage, link: QuorumLink) -> None:
        self._image = image
        self._link = link
        self.rules = ReplicaRules(settings.config.replica_lag_time_max_ms, self._may_be_in_sync)
        self.submit: Callable[[Partition, IsrProposal], None]
        """Takes proposals to the controller; set when there is a way to it, before any partition is opened."""

    def _may_be_in_sync(self, broker_id: int) -> bool:
        broker = self._link.state.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def is_known(self, topic: str, index: int) -> bool:
        return self._image.partition(topic, index) is not None

    def rack_of(self, broker_id: int, listener: str) -> str | None:
        broker = self._image.broker(broker_id)
        return None if broker is None or broker.endpoint(listener) is None else broker.rack

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self.submit(partition, proposal)


class QuorumTopics:
    """Topics as clients change them: the dispatcher forwards such requests, so only what brokers need comes here."""

    def __init__(
        self, settings: CurrentSettings, image: ClusterImage, forwarding: Forwarding, waiters: MetadataWaiters
    ) -> None:
        self._settings = settings
        self._image = image
        self._forwarding = forwarding
        self._waiters = waiters
        self._being_created: set[str] = set()

    async def create(
        self,
        name: str,  # noqa: ARG002 - as below: the interface has them
        partition_count: int,  # noqa: ARG002
        replication_factor: int,  # noqa: ARG002
        assignments: Mapping[int, Sequence[int]] | None,  # noqa: ARG002
        overrides: Mapping[str, str],  # noqa: ARG002
        *,
        validate_only: bool = False,  # noqa: ARG002
    ) -> TopicImage:
        """The controller creates topics."""
        raise _only_the_controller()

    async def add_partitions(
        self,
        name: str,  # noqa: ARG002
        count: int,  # noqa: ARG002
        assignments: Sequence[Sequence[int]] | None,  # noqa: ARG002
        *,
        validate_only: bool = False,  # noqa: ARG002
    ) -> None:
        """The controller adds partitions."""
        raise _only_the_controller()

    async def delete(self, name: str) -> bytes:  # noqa: ARG002
        """The controller deletes topics."""
        raise _only_the_controller()

    async def wait_created(self, counts: Mapping[str, int], timeout_ms: int, /) -> Collection[str]:
        """The topics that this broker does not know with so many partitions within the time given."""

        def missing() -> list[str]:
            return [name for name, count in counts.items() if self._image.partition_count(name) < count]

        await self._waiters.wait(lambda: not missing(), timeout_ms)
        return missing()

    async def wait_deleted(self, names: Collection[str], timeout_ms: int, /) -> Collection[str]:
        """The topics that this broker still knows after the time given."""
        await self._waiters.wait(lambda: all(self._image.topic(name) is None for name in names), timeout_ms)
        return [name for name in names if self._image.topic(name) is not None]

    async def create_automatically(self, name: str, overrides: Mapping[str, str] = NO_OVERRIDES, /) -> None:
        """Ask the controller for a topic that a client named, or that a coordinator needs, unless it exists."""
        count, factor, settings = automatic_topic(name, self._settings.config)
        await self.create_needed(name, AutomaticTopic(count, factor, {**settings, **overrides}))

    async def create_needed(self, name: str, topic: AutomaticTopic, /) -> None:
        """Ask the controller for this topic unless it exists.

        As in Kafka it is this broker that asks: whoever caused it was allowed to. Clients retry until they know the
        leaders.
        """
        if self._image.topic(name) is not None or name in self._being_created:
            return
        self._being_created.add(name)
        try:
            await self._create(name, topic)
        finally:
            self._being_created.discard(name)

    async def _create(self, name: str, topic: AutomaticTopic) -> None:
        count, factor, settings = topic
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=factor,
                    configs=[CreatableTopicConfig(name=each, value=value) for each, value in settings.items()],
                )
            ],
            timeout_ms=_CREATION_TIMEOUT_MS,
        )
        answer = await self._forwarding.send(request)
        for result in cast(CreateTopicsResponse, answer).topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                raise ApiError(ErrorCode(result.error_code), result.error_message)


class Membership(NamedTuple):
    """What a broker knows before its parts are made: who it is, and the way to the quorum."""

    link: QuorumLink
    cluster_id: str
    directory_ids: Mapping[str, bytes]
    """The ids of the log directories by their paths."""
    previous_epoch: int
    on_failure: Callable[[Exception], None]
    """Called when the metadata cannot be followed any more."""
    close: Callable[[], None]
    """Closes the copy of the metadata log."""


class QuorumMember:
    """One broker of a KRaft cluster. Made after the parts that it works with."""

    def __init__(self, parts: BrokerParts, view: QuorumView, membership: Membership) -> None:
        config, base = parts.settings.config, parts.base
        link = membership.link
        self._parts = parts
        self._membership = membership
        self._link = link
        self._tasks = OwnedTasks()
        self.waiters = MetadataWaiters()
        self.lifecycle = Lifecycle(
            config,
            link,
            membership.cluster_id,
            [
                identifier
                for path, identifier in membership.directory_ids.items()
                if path in base.log_manager.live_directories()
            ],
            membership.previous_epoch,
        )
        self.channels = BrokerChannels(
            self._endpoint_of,
            parts.listener_security.connector_for,
            client_id=f"broker-{parts.broker_id}",
            request_timeout_ms=config.request_timeout_ms,
            setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        )
        self.isr_changes = IsrChanges(
            parts.broker_id,
            lambda: self.lifecycle.epoch,
            link.controller,
            parts.replica_manager.on_proposal_answered,
            self._epoch_of,
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
            lambda: self.lifecycle.epoch,
            count=config.num_replica_fetchers,
            request_timeout_ms=config.replica_socket_timeout_ms,
            quota=parts.replication_quotas.follower,
        )
        self._transactions = RemoteTransactions(self.channels, parts.metadata, parts.network.wake)
        self.directories = ReplicaDirectories(
            parts.broker_id, lambda: self.lifecycle.epoch, link.controller, base.log_manager, membership.directory_ids
        )
        self.changes = QuorumChanges(parts, link, self.replica_fetchers, self.waiters, self.directories)
        self._forwarding = Forwarding(link.controller, config.request_timeout_ms)
        self.topics = QuorumTopics(parts.settings, parts.image, self._forwarding, self.waiters)
        self.producer_ids = ProducerIdAllocator(
            partial(
                allocate_producer_ids,
                link.controller,
                parts.broker_id,
                lambda: self.lifecycle.epoch,
                config.request_timeout_ms,
            )
        )

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        """Where another broker listens for brokers. One that is fenced may still be a leader for a moment."""
        name = self._parts.settings.config.inter_broker_name
        broker = self._link.state.brokers.get(broker_id)
        return None if broker is None else next((each for each in broker.endpoints if each.listener == name), None)

    def _epoch_of(self, broker_id: int) -> int:
        broker = self._link.state.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    @property
    def is_controller(self) -> bool:
        """Changes are forwarded from here, so a client need not look for another broker."""
        return True

    @property
    def final_epoch(self) -> int:
        return self.lifecycle.epoch

    # --- start and stop ---

    def open(self, _store: Store, *, is_unclean: bool) -> None:
        """Nothing yet: roles are taken when the metadata has this broker's registration."""

    def on_new_session(self, look: Callable[[], None]) -> None:
        """There is no session that could end."""

    async def join(self) -> None:
        """Register, follow the log up to the registration, and take the roles that the metadata has then.

        Not before: the controllers may still have an earlier life of this broker in sync, and its logs may have lost
        records since. They take it out of the in-sync replicas when they register this one.
        """
        config = self._parts.settings.config
        await self.lifecycle.register(self._endpoints())
        touched = await self._link.catch_up(config.initial_broker_registration_timeout_ms, self.lifecycle.epoch)
        await self.changes.apply(touched)
        await self.changes.serve()
        self._tasks.spawn(self._follow())
        self.producer_ids.prefetch()
        period_ms = max(config.replica_lag_time_max_ms // 2, 1)
        self._parts.base.scheduler.schedule(
            "isr-expiration", self._parts.replica_manager.propose_shrinking, period_ms, period_ms
        )

    async def _follow(self) -> None:
        """Follow the metadata. Who cannot read a change no longer knows the cluster, and must not go on."""
        try:
            await self._link.follow(self._apply)
        except Exception as error:
            logger.exception("the metadata cannot be followed any more")
            self._membership.on_failure(error)

    async def _apply(self, touched: Touched) -> None:
        await self.changes.apply(touched)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        parts = self._parts
        return registration_of(
            parts.settings.config, parts.broker_id, parts.network.ports(), parts.base.clock.wall_ms()
        ).endpoints

    def serve(self, _store: Store, address: str) -> None:
        """Clients can be served: ask the controllers to be let in."""
        self.lifecycle.ready()
        logger.info("broker %d joined cluster %s on %s", self._parts.broker_id, self._membership.cluster_id, address)

    async def wait_until_known(self, timeout_ms: int) -> bool:
        """Whether the metadata shows this broker to clients, at the latest after `timeout_ms`."""
        image, broker_id = self._parts.image, self._parts.broker_id
        return await self.waiters.wait(lambda: image.broker(broker_id) is not None, timeout_ms)

    async def hand_over(self) -> None:
        """Let the controllers move this broker's leaderships to others."""
        if self._parts.settings.config.controlled_shutdown_enable:
            await self.lifecycle.stop_serving()

    async def close(self) -> None:
        """Stop following, replicating and sending requests."""
        self._tasks.cancel()
        await self._tasks.wait()
        await self.lifecycle.close()
        self.producer_ids.close()
        await self.replica_fetchers.close()
        await self.isr_changes.close()
        await self.directories.close()
        await self._forwarding.close()
        await self._transactions.close()
        await self.channels.close()
        await self._link.close()
        self._membership.close()

    async def leave(self, _seconds: float) -> None:
        """The controllers fence a broker that sends no heartbeats."""

    # --- changes that this broker makes or asks for ---

    async def register(self) -> None:
        """A registration cannot be changed while it lasts: other addresses take effect with the next start."""
        logger.warning("advertised.listeners has changed: a member of a KRaft cluster has to be started again for it")

    def follow_settings(self, config: BrokerConfig) -> None:
        self.replica_fetchers.set_count(config.num_replica_fetchers)

    def allow_unclean_elections(self, topic: str) -> None:
        """The controllers read the settings of topics themselves."""

    def report_offline(self, keys: Collection[PartitionKey]) -> None:
        """The controllers elect other leaders."""
        self.replica_fetchers.unfollow(keys)
        loop = asyncio.get_running_loop()
        for key in keys:
            # Not now: it may be a coordinator's own write that has failed, and it is in the middle of it.
            loop.call_soon(self._parts.topics.resign, *key)
        offline = self._parts.base.log_manager.offline_directories()
        self.lifecycle.report_failed(
            [identifier for path, identifier in self._membership.directory_ids.items() if path in offline]
        )

    # --- what clients and brokers ask for ---

    async def elect_leaders(
        self, _partitions: Sequence[TopicPartition], _election_type: ElectionType, _deadline_ms: int
    ) -> Mapping[TopicPartition, ApiError | None]:
        """The controller elects leaders; the dispatcher forwards the request."""
        raise _only_the_controller()

    async def alter_reassignments(
        self,
        targets: Targets,  # noqa: ARG002
    ) -> Mapping[TopicPartition, ApiError | None]:
        """The controller moves replicas; the dispatcher forwards the request."""
        raise _only_the_controller()

    async def list_reassignments(
        self, _partitions: tuple[TopicPartition, ...] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """The controller knows the moves; the dispatcher forwards the request."""
        raise _only_the_controller()

    async def serve_broker(self, request: Message, version: int) -> Message:
        """No broker orders another one here, and the dispatcher has no route for it."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{type(request).__name__} {version} is not served in KRaft mode")

    async def forward(self, request: Message, version: int, session: Session) -> Message:
        return await self._forwarding.forward(request, version, session)

    # --- transactions that span brokers ---

    def settle_marker(self, order: MarkerOrder, partition: PartitionKey, report: Callable[[ErrorCode], None]) -> bool:
        """Another broker leads the partition, or it was deleted: the image has every partition there is."""
        known = self._parts.image.partition(*partition)
        if known is None:
            report(ErrorCode.NONE)
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
        levels = self._link.state.features
        return {
            name: QuorumFeature(lowest, highest, levels.get(name, 0))
            for name, (lowest, highest) in QUORUM_FEATURES.items()
        }

    # --- figures ---

    def controller_figures(self) -> ControllerFigures:
        """The controllers have figures of their own."""
        return ControllerFigures(is_active=False)

    def fetchers(self) -> Iterable[tuple[tuple[int, int], Fetcher]]:
        return self.replica_fetchers.fetchers()

    def bytes_fetched(self) -> tuple[int, int]:
        return self.replica_fetchers.bytes_fetched()

    def waiting(self) -> Mapping[str, int]:
        return {TOPIC: 0, ELECT_LEADER: 0, **self.waiters.counts}


class QuorumPlan:
    """The metadata log fills the image; what it says of settings is in the tree from the start."""

    apis: frozenset[ApiKey] = frozenset()
    forwarded: frozenset[ApiKey] = FORWARDED

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._view: QuorumView

    def new_image(self, loaded: ClusterImage) -> ClusterImage:
        return loaded

    def view(self, settings: CurrentSettings, image: ClusterImage) -> QuorumView:
        self._view = QuorumView(settings, image, self._membership.link)
        return self._view

    def replica_selector(self, config: BrokerConfig) -> RackAwareReplicaSelector | None:
        return replica_selector(config.replica_selector_class)

    def build(self, parts: BrokerParts, _loaded: ClusterImage) -> QuorumMember:
        return QuorumMember(parts, self._view, self._membership)

    async def close(self) -> None:
        await self._membership.link.close()
        self._membership.close()


def _only_the_controller() -> ApiError:
    return ApiError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
