"""When a request is out of date: rules by which the simulator knows that a broker must refuse it, whenever it comes.

A request that was delayed on its way reaches a broker after its sender was replaced: another controller, leader,
coordinator, producer or generation of a group has taken over, and the receiver has learned of it. Each rule says so of
one API by the state of the receiver. It never holds for a request that Kafka would take: a coordinator cannot tell, for
example, a repeated EndTxn of the present producer from a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tidelog.broker.topology.member import ClusterMember
from tidelog.coordination import CoordinatorRuntime
from tidelog.groups.shard import GroupShard
from tidelog.metadata import paths
from tidelog.records.header import HEADER_BYTES, MAGIC, MAGIC_POSITION, BatchHeader, read_header
from tidelog.storage.producers.state import ProducerEntry
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import EPOCH_BUMPS_FROM
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from tidelog.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tidelog.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from tidelog.wire.schema import Message, Struct

ShardT = TypeVar("ShardT", GroupShard, TransactionShard)

_CODES: Final = ("error_code", "partition_error_code")
_ALL: Final = -1
_BATCHES_KEPT: Final = 5
"""So many batches of a producer are known by their sequences, as in Kafka."""
_FORGOTTEN: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)

IsStale = Callable[[Simulation, BrokerProcess, Any], bool]

_LASTING: Final = "extra-"
"""Topics of this prefix are deleted: a delayed LeaderAndIsr would make them again, in Kafka, too."""


# --- from controllers ---


def _is_of_former_controller(_cluster: Simulation, broker: BrokerProcess, request: Any) -> bool:
    member = broker.node.topology
    if not isinstance(member, ClusterMember):
        return False
    return bool(
        request.controller_epoch < member.requests.controller_epoch or -1 < request.broker_epoch < member.broker_epoch
    )


def _is_stale_leader_and_isr(cluster: Simulation, broker: BrokerProcess, request: LeaderAndIsrRequest) -> bool:
    if _is_of_former_controller(cluster, broker, request):
        return True
    for topic in request.topic_states:
        for state in topic.partition_states:
            partition = broker.find_partition(topic.topic_name, state.partition_index)
            if partition is None or topic.topic_name.startswith(_LASTING) or partition.topic_id != topic.topic_id:
                return False
            if state.leader_epoch >= partition.leader_epoch:
                return False
    return bool(request.topic_states)


def _is_stale_alter_partition(cluster: Simulation, broker: BrokerProcess, request: AlterPartitionRequest) -> bool:
    if broker.active_controller_epoch() is None:
        return False
    for topic in request.topics:
        name = cluster.invariants.tree.topic_name(topic.topic_id)
        if name is None:
            continue
        for data in topic.partitions:
            state = cluster.invariants.tree.states.get((name, data.partition_index))
            if state is None:
                continue
            isr = tuple(each.broker_id for each in data.new_isr_with_epochs) or tuple(data.new_isr)
            if data.leader_epoch < state.leader_epoch:
                continue
            version = cluster.tree.node(paths.partition_state(name, data.partition_index)).version
            is_as_wanted = (request.broker_id, isr) == (state.leader, state.isr)
            if is_as_wanted or data.partition_epoch >= version:
                return False
    return bool(request.topics)


# --- from producers ---


def _entry(broker: BrokerProcess, topic: str, index: int, producer_id: int) -> ProducerEntry | None:
    partition = broker.find_partition(topic, index)
    if partition is None or not partition.is_leader:
        return None
    return partition.log.producer_state.producers.get(producer_id)


def _name_of(broker: BrokerProcess, topic: TopicProduceData) -> str:
    """The name of a topic that has only its id in newer versions; empty if the broker does not know it."""
    if topic.name or not broker.is_serving:
        return topic.name
    return broker.node.image.topic_name(topic.topic_id) or ""


def _is_stale_produce(cluster: Simulation, broker: BrokerProcess, request: ProduceRequest) -> bool:
    if not request.acks:
        return False  # it is not answered
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_BYTES or records[MAGIC_POSITION] != MAGIC:
                return False
            header = read_header(records)
            name = _name_of(broker, topic)
            entry = _entry(broker, name, data.index, header.producer_id)
            if entry is None:
                return False
            if header.producer_epoch >= entry.producer_epoch and not (
                header.is_transactional
                and topic.name  # in the versions with ids, writing to a partition adds it
                and entry.transaction_first_offset < 0
                and _has_left(cluster, request.transactional_id or "", (name, data.index))
            ):
                return False
    return bool(request.topic_data)


def _has_left(cluster: Simulation, transactional_id: str, partition: tuple[str, int]) -> bool:
    """Whether a coordinator says that a partition is not, or no longer, in the transaction of an id."""
    for broker in cluster.brokers:
        for shard in _shards(broker.node.transactions.edge.built if broker.is_serving else None):
            known = shard.get(transactional_id)
            if known is not None:
                return partition not in known.partitions
    return False


def offset_of_repeated(broker: BrokerProcess, request: ProduceRequest) -> int | None:
    """The offset of a batch that the log has, among the last of its idempotent producer.

    None for any other request, and where the broker may refuse it: it does not lead, or has not committed the batch.
    """
    if request.transactional_id is not None or request.acks != _ALL or len(request.topic_data) != 1:
        return None
    (topic,) = request.topic_data
    if len(topic.partition_data) != 1:
        return None
    (data,) = topic.partition_data
    records = data.records
    partition = broker.find_partition(_name_of(broker, topic), data.index)
    if records is None or len(records) < HEADER_BYTES or partition is None or not partition.is_leader:
        return None
    wanted = read_header(records)
    if wanted.producer_id < 0 or partition.is_offline:
        return None
    log = partition.log
    last: deque[tuple[int, BatchHeader]] = deque(maxlen=_BATCHES_KEPT)
    for batch in read_batches(log, log.log_start_offset, log.written_end_offset):
        header = read_header(batch)
        if header.producer_id == wanted.producer_id and not header.is_control:
            last.append((header.base_offset, header))
    if not last or last[-1][1].producer_epoch != wanted.producer_epoch:
        return None
    return next(
        (
            offset
            for offset, header in last
            if (header.base_sequence, header.last_offset_delta) == (wanted.base_sequence, wanted.last_offset_delta)
            and header.producer_epoch == wanted.producer_epoch
            and header.next_offset <= log.high_watermark
        ),
        None,
    )


def forgotten_batch(response: ProduceResponse, offset: int) -> str | None:
    """What is wrong with the answer to a batch that the log has at an offset."""
    (topic,) = response.responses
    (answer,) = topic.partition_responses
    if answer.error_code in _FORGOTTEN:
        return (
            f"answers {ErrorCode(answer.error_code).name} to a batch that {topic.name}-{answer.index} has at {offset}"
        )
    if answer.error_code == ErrorCode.NONE and answer.base_offset != offset:
        return f"has a batch of {topic.name}-{answer.index} at {offset} and puts it at {answer.base_offset}"
    return None


def _is_stale_marker(_cluster: Simulation, broker: BrokerProcess, request: WriteTxnMarkersRequest) -> bool:
    places = [
        (marker, topic.name, index)
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    for marker, topic, index in places:
        entry = _entry(broker, topic, index, marker.producer_id)
        if entry is None:
            return False
        if marker.coordinator_epoch >= entry.coordinator_epoch and marker.producer_epoch >= entry.producer_epoch:
            return False
    return bool(places)


# --- to coordinators ---


def _shards(runtime: CoordinatorRuntime[ShardT] | None) -> Iterator[ShardT]:
    if runtime is not None:
        for index in runtime.active_partitions():
            yield runtime.shard(index)


def _is_fenced(broker: BrokerProcess, transactional_id: str, producer_id: int, producer_epoch: int) -> bool:
    for shard in _shards(broker.node.transactions.edge.built):
        known = shard.get(transactional_id)
        if known is not None:
            return known.producer_id == producer_id and producer_epoch < known.producer_epoch
    return False


def _is_of_fenced_producer(_cluster: Simulation, broker: BrokerProcess, request: Any) -> bool:
    return _is_fenced(broker, request.transactional_id, request.producer_id, request.producer_epoch)


def _is_stale_end(cluster: Simulation, broker: BrokerProcess, request: EndTxnRequest) -> bool:
    """Where every end bumps the epoch, the one before the current epoch's is known again and answered as it was."""
    for shard in _shards(broker.node.transactions.edge.built):
        known = shard.get(request.transactional_id)
        if known is not None and known.protocol >= EPOCH_BUMPS_FROM and known.state is not TransactionState.ONGOING:
            return False
    return _is_of_fenced_producer(cluster, broker, request)


def _is_stale_add_partitions(_cluster: Simulation, broker: BrokerProcess, request: AddPartitionsToTxnRequest) -> bool:
    return not request.transactions and _is_fenced(
        broker,
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
    )


def _is_of_former_generation(broker: BrokerProcess, group_id: str, member_id: str, generation: int) -> bool:
    if generation < 0:
        return False
    for shard in _shards(broker.node.groups.built):
        group = shard.group(group_id)
        if group is None or group.is_empty:
            continue
        if group.consumer is None:
            return generation < group.generation
        member = group.consumer.members.get(member_id)
        return member is not None and member.classic is None and generation < member.member_epoch
    return False


def _is_stale_commit(
    _cluster: Simulation, broker: BrokerProcess, request: OffsetCommitRequest | TxnOffsetCommitRequest
) -> bool:
    generation = request.generation_id_or_member_epoch
    return _is_of_former_generation(broker, request.group_id, request.member_id, generation)


def _is_stale_in_group(_cluster: Simulation, broker: BrokerProcess, request: Any) -> bool:
    return _is_of_former_generation(broker, request.group_id, request.member_id, request.generation_id)


def _is_stale_member(_cluster: Simulation, broker: BrokerProcess, request: ConsumerGroupHeartbeatRequest) -> bool:
    for shard in _shards(broker.node.groups.built):
        group = shard.group(request.group_id)
        if group is not None and group.consumer is not None:
            member = group.consumer.members.get(request.member_id)
            # The epoch before the present one may still be named: the response may have been lost.
            return member is not None and 0 < request.member_epoch < min(member.member_epoch, member.previous_epoch)
    return False


RULES: Final[dict[int, tuple[type[Message], type[Message], IsStale]]] = {
    ApiKey.LEADER_AND_ISR: (LeaderAndIsrRequest, LeaderAndIsrResponse, _is_stale_leader_and_isr),
    ApiKey.STOP_REPLICA: (StopReplicaRequest, StopReplicaResponse, _is_of_former_controller),
    ApiKey.UPDATE_METADATA: (UpdateMetadataRequest, UpdateMetadataResponse, _is_of_former_controller),
    ApiKey.ALTER_PARTITION: (AlterPartitionRequest, AlterPartitionResponse, _is_stale_alter_partition),
    ApiKey.PRODUCE: (ProduceRequest, ProduceResponse, _is_stale_produce),
    ApiKey.WRITE_TXN_MARKERS: (WriteTxnMarkersRequest, WriteTxnMarkersResponse, _is_stale_marker),
    ApiKey.ADD_PARTITIONS_TO_TXN: (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, _is_stale_add_partitions),
    ApiKey.ADD_OFFSETS_TO_TXN: (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, _is_of_fenced_producer),
    ApiKey.END_TXN: (EndTxnRequest, EndTxnResponse, _is_stale_end),
    ApiKey.TXN_OFFSET_COMMIT: (TxnOffsetCommitRequest, TxnOffsetCommitResponse, _is_stale_commit),
    ApiKey.OFFSET_COMMIT: (OffsetCommitRequest, OffsetCommitResponse, _is_stale_commit),
    ApiKey.SYNC_GROUP: (SyncGroupRequest, SyncGroupResponse, _is_stale_in_group),
    ApiKey.HEARTBEAT: (HeartbeatRequest, HeartbeatResponse, _is_stale_in_group),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        _is_stale_member,
    ),
}
"""Request, response and rule of each API whose requests are sent late."""


def is_accepted(response: Struct) -> bool:
    """Whether a response refuses less than everything."""
    if getattr(response, "error_code", 0):
        return False
    codes = list(_codes_of_parts(response))
    return not codes or 0 in codes


def _codes_of_parts(struct: Struct) -> Iterator[int]:
    for name in struct.fields:
        parts = getattr(struct, name)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Struct):
                codes = [getattr(part, each) for each in _CODES if each in part.fields]
                yield from codes
                if not codes:
                    yield from _codes_of_parts(part)
