"""FetchSnapshot: a replica of the metadata log reads a snapshot of it, piece by piece (KIP-630).

Structs that Kafka calls alike in request and response end in `Response` here.

What the versions changed:

    1   adds the directory of the replica, and the endpoints of leaders (KIP-853)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.primitives import Buffer
from tidelog.wire.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uint16,
    uuid,
)


class SnapshotId(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class PartitionSnapshot(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = struct(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = uuid(since=1, tag=0)


class TopicSnapshot(Struct):
    name: str = string()
    partitions: list[PartitionSnapshot] = array(PartitionSnapshot)


class FetchSnapshotRequest(Message, api_key=ApiKey.FETCH_SNAPSHOT, versions=(0, 1), flexible_from=0):
    cluster_id: str | None = string(None, null_since=0, tag=0)
    replica_id: int = int32(-1)
    max_bytes: int = int32(0x7FFFFFFF)
    topics: list[TopicSnapshot] = array(TopicSnapshot)


class SnapshotIdResponse(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionSnapshotResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotIdResponse = struct(SnapshotIdResponse)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Buffer | None = record_batches()


class TopicSnapshotResponse(Struct):
    name: str = string()
    partitions: list[PartitionSnapshotResponse] = array(PartitionSnapshotResponse)


class NodeEndpoint(Struct):
    node_id: int = int32(since=1)
    host: str = string(since=1)
    port: int = uint16(since=1)


class FetchSnapshotResponse(Message, api_key=ApiKey.FETCH_SNAPSHOT, versions=(0, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[TopicSnapshotResponse] = array(TopicSnapshotResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, since=1, tag=0)
