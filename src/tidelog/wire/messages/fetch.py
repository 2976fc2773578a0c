"""Fetch: read record batches of partitions, as a consumer or as a follower.

The broker answers most of these requests with its own codec (`tidelog.wire.fetch`); this is the complete declaration.

What the versions changed:

    1   adds the throttle time
    2   message sets of magic 1
    3   a limit in bytes for the whole response; the order of the partitions now matters (KIP-74)
    4   record batches of magic 2; isolation level and aborted transactions (KIP-98)
    5   adds log start offsets
    6   storage errors are returned as KAFKA_STORAGE_ERROR
    7   fetch sessions (KIP-227)
    8   the broker responds at once, and the client waits for the throttle time
    9   adds the reader's leader epoch, which is checked (KIP-320)
    10  zstd is allowed
    11  consumers may read from the nearest replica (KIP-392)
    12  first flexible version; adds diverging epochs, and the current leader if it has changed
    13  topics are named by id (KIP-516)
    14  may fail with OFFSET_MOVED_TO_TIERED_STORAGE
    15  the replica's id moves into a tagged field, with its epoch (KIP-903)
    16  the response names endpoints of leaders (KIP-951)
    17  followers name the log directory they fetch for (KIP-853)
    18  a replica of the metadata log names the high watermark that it knows (KIP-1166); other replicas leave it out
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.primitives import Buffer
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, int64, record_batches, string, struct, uuid


class ReplicaState(Struct):
    replica_id: int = int32(-1)
    replica_epoch: int = int64(-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(-1, since=9)  # the reader's leader epoch; -1 is not checked
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(-1, since=12)  # for the check whether logs diverge; -1 from consumers
    log_start_offset: int = int64(-1, since=5)  # the follower's own; -1 from consumers
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, tag=0)
    high_watermark: int = int64(0x7FFFFFFFFFFFFFFF, since=18, tag=1)


class FetchTopic(Struct):
    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[int] = array(int32)


class FetchRequest(Message, api_key=ApiKey.FETCH, versions=(0, 18), flexible_from=12):
    cluster_id: str | None = string(None, since=12, null_since=12, tag=0)
    replica_id: int = int32(-1, until=14)  # -1 for consumers, -2 for debugging
    replica_state: ReplicaState = struct(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(0x7FFFFFFF, since=3)
    isolation_level: int = int8(since=4)  # 0: read uncommitted, 1: read committed
    session_id: int = int32(since=7)  # 0 while there is none
    session_epoch: int = int32(-1, since=7)  # -1 for no session, 0 to begin one
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11)


class EpochEndOffset(Struct):
    epoch: int = int32(-1)
    end_offset: int = int64(-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(-1)
    leader_epoch: int = int32(-1)


class SnapshotId(Struct):
    end_offset: int = int64(-1)
    epoch: int = int32(-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(-1, since=4)
    log_start_offset: int = int64(-1, since=5)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, since=12, tag=2)
    # Null for readers of uncommitted records.
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, since=4, null_since=4)
    preferred_read_replica: int = int32(-1, since=11)  # -1 to keep reading from this broker
    records: Buffer | None = record_batches()


class FetchableTopicResponse(Struct):
    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, null_since=0)


class FetchResponse(Message, api_key=ApiKey.FETCH, versions=(0, 18), flexible_from=12):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(since=7)
    session_id: int = int32(since=7)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)
