"""LeaderAndIsr, UpdateMetadata and StopReplica for the brokers that a change concerns, one of each for a broker.

A change of many partitions collects here what each broker must do, then sends it at once. Order matters and is Kafka's:
leaders and followers first, then the metadata for clients, then the replicas that stop.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.controller.context import ControllerContext, LiveBroker
from tidelog.controller.partitions import LEADER_DURING_DELETE, Leadership
from tidelog.metadata.tree import ReplicaAssignment
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from tidelog.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from tidelog.wire.messages.update_metadata import (
    FULL,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tidelog.wire.partitions import TopicPartition
from tidelog.wire.primitives import NO_UUID
from tidelog.wire.schema import Message

_PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Lets other work run if this one has had its slice of time."""

logger = logging.getLogger(__name__)


class ControlPlane(Protocol):
    """The queues to the brokers: one for each, in order. A request is retried while its broker is in the plane."""

    def add_broker(self, broker: LiveBroker) -> None:
        """Open a queue to a broker; one that the plane knows, under another epoch, loses what waits for it."""

    def remove_broker(self, broker_id: int) -> None:
        """Close the queue to a broker and drop what waits in it."""

    def send(self, broker_id: int, request: Message, on_response: Callable[[Message], object]) -> None:
        """Queue a request. `on_response` gets the answer, never before this call returns, or nothing ever."""

    def close(self) -> None:
        """Close every queue and drop what waits in them."""


class ReplicaDeletions(NamedTuple):
    """What a broker answered to the deletion of replicas: an error for all, or one for each partition."""

    broker_id: int
    error: int
    partitions: dict[TopicPartition, int]


class RequestBatch:
    """The requests of one change. Add to it, then `send` it once."""

    def __init__(
        self,
        controller_id: int,
        listener: str,
        context: ControllerContext,
        control_plane: ControlPlane,
        on_leader_and_isr: Callable[[int, LeaderAndIsrResponse], object],
        on_deletions: Callable[[ReplicaDeletions], object],
        pause: Pause,
    ) -> None:
        """`listener` is the listener by which brokers reach each other."""
        self._controller_id = controller_id
        self._listener = listener
        self._context = context
        self._control_plane = control_plane
        self._on_leader_and_isr = on_leader_and_isr
        self._on_deletions = on_deletions
        self._pause = pause
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata_brokers: set[int] = set()
        self._metadata: dict[TopicPartition, None] = {}
        self._metadata_type = 0
        self._states: dict[
            tuple[TopicPartition, bool], tuple[Leadership, ReplicaAssignment, LeaderAndIsrPartitionState]
        ] = {}

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        leadership: Leadership,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        """Inform the brokers of the partition's replicas of its leader; every broker gets its metadata."""
        for broker_id in broker_ids:
            states = self._leader_and_isr.setdefault(broker_id, {})
            before = states.get(partition)
            was_new = before is not None and before.is_new
            states[partition] = self._state(partition, leadership, assignment, is_new or was_new)
        self.add_metadata(self._context.live_brokers, (partition,))

    def _state(
        self, partition: TopicPartition, leadership: Leadership, assignment: ReplicaAssignment, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        """One for all brokers that are sent the same: there may be thousands of partitions of three replicas each."""
        key = partition, is_new
        made = self._states.get(key)
        if made is not None and made[0] is leadership and made[1] is assignment:
            return made[2]
        state = LeaderAndIsrPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=list(leadership.isr),
            partition_epoch=leadership.partition_epoch,
            replicas=list(assignment.replicas),
            adding_replicas=list(assignment.adding),
            removing_replicas=list(assignment.removing),
            is_new=is_new,
            leader_recovery_state=leadership.recovery_state,
        )
        self._states[key] = leadership, assignment, state
        return state

    def add_stop_replica(self, broker_id: int, partition: TopicPartition, *, delete: bool) -> None:
        """A broker stops its replica of the partition, and deletes it if so asked."""
        states = self._stop_replica.setdefault(broker_id, {})
        before = states.get(partition)
        states[partition] = StopReplicaPartitionState(
            partition_index=partition.partition,
            leader_epoch=self._context.leader_epoch(partition),
            delete_partition=delete or (before is not None and before.delete_partition),
        )

    def add_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """Inform brokers of the live brokers, and of these partitions' leaders."""
        self._metadata_brokers.update(broker_ids)
        self._metadata.update(dict.fromkeys(partitions))

    def add_all_metadata(self, broker_ids: Iterable[int]) -> None:
        """Inform brokers of every partition's leader. Topics that they know from before and that are gone are removed.

        Kafka's controller names the topics that there are, and the others stay known to a broker that was cut off when
        they were deleted. Its brokers ignore the type of a request, except in a migration to KRaft.
        """
        self.add_metadata(broker_ids, self._context.partitions_with_leaders())
        self._metadata_type = FULL

    def _metadata_state(self, partition: TopicPartition, leadership: Leadership) -> UpdateMetadataPartitionState:
        context = self._context
        replicas = context.assignment(partition).replicas
        is_deleted = partition.topic in context.topics_to_delete
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=leadership.controller_epoch,
            leader=LEADER_DURING_DELETE if is_deleted else leadership.leader,
            leader_epoch=0 if is_deleted else leadership.leader_epoch,
            isr=list(leadership.isr),
            zk_version=0 if is_deleted else leadership.partition_epoch,
            replicas=list(replicas),
            offline_replicas=context.offline_replicas(partition),
        )

    async def send(self) -> None:
        """Queue the requests. A broker that is gone gets none: it is sent everything when it registers again."""
        await self._send_leader_and_isr()
        await self._send_metadata()
        await self._send_stop_replica()

    async def _send_leader_and_isr(self) -> None:
        for broker_id, states in sorted(self._leader_and_isr.items()):
            broker = self._context.live_brokers.get(broker_id)
            if broker is None:
                continue
            topics: dict[str, LeaderAndIsrTopicState] = {}
            for partition, state in states.items():
                topic = topics.get(partition.topic)
                if topic is None:
                    topic = topics[partition.topic] = LeaderAndIsrTopicState(
                        topic_name=partition.topic,
                        topic_id=self._context.topic_ids.get(partition.topic, NO_UUID),
                    )
                topic.partition_states.append(state)
                await self._pause()
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=broker.epoch,
                topic_states=list(topics.values()),
                live_leaders=self._live_leaders({state.leader for state in states.values()}),
            )
            logger.info(
                "broker %d is sent the leaders of %d partitions, of which it leads %d",
                broker_id,
                len(states),
                sum(state.leader == broker_id for state in states.values()),
            )
            self._control_plane.send(broker_id, request, self._leader_and_isr_answered(broker_id))
        self._leader_and_isr.clear()

    def _live_leaders(self, leaders: set[int]) -> list[LeaderAndIsrLiveLeader]:
        return [
            LeaderAndIsrLiveLeader(broker_id=broker_id, host_name=endpoint.host, port=endpoint.port)
            for broker_id in sorted(leaders & self._context.live_brokers.keys())
            for endpoint in self._context.live_brokers[broker_id].registration.endpoints
            if endpoint.listener == self._listener
        ]

    def _leader_and_isr_answered(self, broker_id: int) -> Callable[[Message], object]:
        def on_response(response: Message) -> None:
            assert isinstance(response, LeaderAndIsrResponse), f"LeaderAndIsr was answered with {response!r}"
            self._on_leader_and_isr(broker_id, response)

        return on_response

    async def _send_metadata(self) -> None:
        receivers = sorted(self._metadata_brokers & self._context.live_brokers.keys())
        if receivers:
            topics = await self._metadata_topics()
            brokers = [_metadata_broker(broker) for _, broker in sorted(self._context.live_brokers.items())]
            for broker_id in receivers:
                request = UpdateMetadataRequest(
                    controller_id=self._controller_id,
                    type=self._metadata_type,
                    controller_epoch=self._context.epoch,
                    broker_epoch=self._context.live_brokers[broker_id].epoch,
                    topic_states=topics,
                    live_brokers=brokers,
                )
                self._control_plane.send(broker_id, request, _log_metadata_error(broker_id))
        self._metadata_brokers.clear()
        self._metadata.clear()
        self._metadata_type = 0

    async def _metadata_topics(self) -> list[UpdateMetadataTopicState]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in self._metadata:
            leadership = self._context.leaderships.get(partition)
            if leadership is None:
                continue  # it never had a leader
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = UpdateMetadataTopicState(
                    topic_name=partition.topic, topic_id=self._context.topic_ids.get(partition.topic, NO_UUID)
                )
            topic.partition_states.append(self._metadata_state(partition, leadership))
            await self._pause()
        return list(topics.values())

    async def _send_stop_replica(self) -> None:
        for broker_id, states in sorted(self._stop_replica.items()):
            broker = self._context.live_brokers.get(broker_id)
            if broker is None:
                continue
            topics: dict[str, StopReplicaTopicState] = {}
            for partition, state in states.items():
                topic = topics.get(partition.topic)
                if topic is None:
                    topic = topics[partition.topic] = StopReplicaTopicState(topic_name=partition.topic)
                topic.partition_states.append(state)
                await self._pause()
            request = StopReplicaRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=broker.epoch,
                topic_states=list(topics.values()),
            )
            deleted = {partition for partition, state in states.items() if state.delete_partition}
            self._control_plane.send(broker_id, request, self._stop_replica_answered(broker_id, deleted))
        self._stop_replica.clear()

    def _stop_replica_answered(self, broker_id: int, deleted: set[TopicPartition]) -> Callable[[Message], object]:
        def on_response(response: Message) -> None:
            assert isinstance(response, StopReplicaResponse), f"StopReplica was answered with {response!r}"
            found = {}
            for each in response.partition_errors:
                partition = TopicPartition(each.topic_name, each.partition_index)
                if partition in deleted and partition.topic in self._context.topics_with_deletion_started:
                    found[partition] = each.error_code
            if found:
                self._on_deletions(ReplicaDeletions(broker_id, response.error_code, found))

        return on_response


def _metadata_broker(broker: LiveBroker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=_PROTOCOL_IDS.get(endpoint.security_protocol, 0),
            )
            for endpoint in broker.registration.endpoints
        ],
        rack=broker.registration.rack,
    )


def _log_metadata_error(broker_id: int) -> Callable[[Message], object]:
    def on_response(response: Message) -> None:
        code = getattr(response, "error_code", 0)
        if code:
            logger.error("broker %d answers UpdateMetadata with %s", broker_id, ErrorCode(code).name)

    return on_response
