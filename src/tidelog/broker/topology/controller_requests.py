"""The controller's requests, applied to this broker: what it knows, and what it leads and follows.

They are applied one after the other, whatever connection they come by, each in slices. UpdateMetadata changes the
image; LeaderAndIsr and StopReplica change roles, by the one path that there is for it (`replication.role_changes`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.errors import SessionExpiredError, StoreError
from tidelog.metadata.tree import Endpoint
from tidelog.metadata.updates import apply_update, states_by_topic
from tidelog.replication.role_changes import Errors, Followers, RoleChanges, StopReplicaOrder
from tidelog.wire.errors import ApiError, ErrorCode
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
    from tidelog.broker.topology.metadata_waiters import MetadataWaiters
    from tidelog.broker.topology.topology import BrokerParts
    from tidelog.metadata.store import Store

logger = logging.getLogger(__name__)

NO_BROKER_EPOCH: Final = -1
_PAUSE_S: Final = 1.0
"""Between two attempts to read from the tree."""


class ControllerRequests:
    """Applies what controllers order, those of this broker and of others."""

    def __init__(
        self,
        parts: BrokerParts,
        followers: Followers,
        waiters: MetadataWaiters,
        broker_epoch: Callable[[], int],
    ) -> None:
        """`broker_epoch` is the epoch of this broker's registration; `waiters` wait for changes of the image."""
        self._image = parts.image
        self._metadata = parts.metadata
        self._slices = parts.base.slices
        self._topics = parts.topics
        self._log_dir_moves = parts.log_dir_moves
        self._wake = parts.network.wake
        self._waiters = waiters
        self._broker_epoch = broker_epoch
        self._lock = asyncio.Lock()
        self._live_leaders: dict[int, Endpoint] = {}
        self._roles = RoleChanges(
            parts.replica_manager, parts.topics, followers, parts.topics.leadership_listeners, parts.base.clock
        )
        self.handlers: Mapping[type[Message], tuple[Callable[..., Awaitable[Message]], type[Message]]] = {
            LeaderAndIsrRequest: (self.lead_and_follow, LeaderAndIsrResponse),
            StopReplicaRequest: (self.stop_replicas, StopReplicaResponse),
            UpdateMetadataRequest: (self.update_metadata, UpdateMetadataResponse),
        }
        """By the class of a request: what applies it, and the class of its response."""

    async def carry_out(self, request: Message) -> Message:
        """Apply a request of this broker's own controller, whose errors have no dispatcher to become a response."""
        apply, response_class = self.handlers[type(request)]
        try:
            return await apply(request)
        except ApiError as error:
            return response_class(error_code=error.code)  # type: ignore[call-arg]

    @property
    def controller_epoch(self) -> int:
        """The epoch of the latest controller that this broker has heard of."""
        return self._roles.controller_epoch

    def last_address_of(self, broker_id: int) -> Endpoint | None:
        """Where a leader listens for brokers, by the last LeaderAndIsr that named it."""
        return self._live_leaders.get(broker_id)

    def _check(self, broker_epoch: int, controller_epoch: int) -> None:
        """Raise ApiError for a request to an earlier registration of this broker, or from an earlier controller.

        The controller may read our registration before we have its epoch, so a larger epoch is no error.
        """
        if NO_BROKER_EPOCH < broker_epoch < self._broker_epoch():
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"this broker's epoch is {self._broker_epoch()}")
        self._roles.check_controller(controller_epoch)

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Apply a LeaderAndIsr request; raises ApiError if it is refused as a whole."""
        async with self._lock:
            self._check(request.broker_epoch, request.controller_epoch)
            for leader in request.live_leaders:
                self._live_leaders[leader.broker_id] = Endpoint("", leader.host_name, leader.port)
            states = _states(request)
            await self._read_configs(topic for topic, _, _ in states)
            errors = await self._slices.run(self._roles.become_leader_or_follower(states))
            self._log_dir_moves.resume()
        self._wake()
        return _leader_and_isr_response(states, errors)

    async def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Apply a StopReplica request; raises ApiError if it is refused as a whole."""
        async with self._lock:
            self._check(request.broker_epoch, request.controller_epoch)
            orders = _orders(request)
            errors = await self._slices.run(self._roles.stop_replicas(orders))
            for name in dict.fromkeys(order.topic for order in orders if order.is_deleted):
                await self._topics.forget_deleted(name)
        self._wake()
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
            gone = await self._slices.run(apply_update(self._image, request))
            states = ((name, state) for name, _, found in states_by_topic(request) for state in found)
            await self._slices.run(self._roles.give_up_moved(states))
        if gone:
            self._topics.on_deleted(gone)
        self._waiters.check()
        self._wake()
        return UpdateMetadataResponse()

    async def _read_configs(self, topics: Iterable[str]) -> None:
        """Read the settings of topics that are new here, before their logs are opened."""
        new = [name for name in dict.fromkeys(topics) if self._topics.is_new(name)]
        if new:
            overrides = await self._read_overrides(new)
            for name, values in zip(new, overrides, strict=True):
                self._image.set_overrides(name, values)

    async def _read_overrides(self, topics: list[str]) -> list[dict[str, str]]:
        """Read settings of topics, as soon as the tree can be reached: the controller sends a request only once.

        Raises ApiError if the session ends: then this broker registers again, and the controller sends it everything.
        """
        while True:
            try:
                return await self._metadata.run(_read_all_overrides, topics)
            except SessionExpiredError as error:
                logger.warning("the settings of %d new topics cannot be read: %s", len(topics), error)
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
            except StoreError as error:
                logger.warning("the settings of %d new topics cannot be read yet: %s", len(topics), error)
                await asyncio.sleep(_PAUSE_S)


def _read_all_overrides(store: Store, topics: list[str]) -> list[dict[str, str]]:
    return [read_overrides(store, ConfigEntity("topics", name)) for name in topics]


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
