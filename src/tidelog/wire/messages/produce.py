"""Produce: append record batches to partitions.

The broker reads most of these requests with its own codec (`tidelog.wire.produce`); this is the complete declaration.

What the versions changed:

    0   message sets of magic 0
    1   adds the throttle time
    2   message sets of magic 1; the response has the append time
    3   record batches of magic 2, and a transactional id
    4   storage errors are returned as KAFKA_STORAGE_ERROR
    5   adds the log start offset
    6   the broker responds at once, and the client waits for the throttle time
    7   zstd is allowed
    8   errors name the records that caused them (KIP-467)
    9   first flexible version
    10  the response names the current leader and its endpoint (KIP-951)
    11  errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
    12  the broker adds the partitions to the transaction (KIP-890)
    13  topic ids instead of names (KIP-516); UNKNOWN_TOPIC_ID
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.primitives import Buffer
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, record_batches, string, struct, uuid


class PartitionProduceData(Struct):
    index: int = int32()
    records: Buffer | None = record_batches()


class TopicProduceData(Struct):
    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, api_key=ApiKey.PRODUCE, versions=(0, 13), flexible_from=9):
    transactional_id: str | None = string(None, since=3, null_since=3)
    acks: int = int16()  # -1: when all in-sync replicas have it, 0: no response, 1: when the leader has it
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(None, null_since=0)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(-1)
    leader_epoch: int = int32(-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()  # -1 if nothing was written
    log_append_time_ms: int = int64(-1, since=2)  # -1 unless the topic uses log append time
    log_start_offset: int = int64(-1, since=5)
    # The rejected records, if only some were rejected.
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = string(None, since=8, null_since=8)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Struct):
    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, null_since=0)


class ProduceResponse(Message, api_key=ApiKey.PRODUCE, versions=(0, 13), flexible_from=9):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(since=1)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
