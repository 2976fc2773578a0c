"""OffsetCommit: store the offsets that a consumer group has reached.

What the versions changed:

    1   adds the member and its generation, and a commit timestamp
    2   the retention time replaces the commit timestamp
    3   adds the throttle time
    4   the broker responds at once, and the client waits for the throttle time
    5   drops the retention time: only the broker decides it (KIP-211)
    6   adds leader epochs (KIP-320)
    7   adds static members (KIP-345)
    8   first flexible version
    9   the generation may be the member epoch of the newer group protocol (KIP-848)
    10  topic ids replace topic names (KIP-848)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(-1, since=6)
    commit_timestamp: int = int64(-1, since=1, until=1)
    committed_metadata: str | None = string(null_since=0)


class OffsetCommitRequestTopic(Struct):
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Message, api_key=ApiKey.OFFSET_COMMIT, versions=(0, 10), flexible_from=8):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(-1, since=1)  # -1 for commits from outside the group
    member_id: str = string(since=1)
    group_instance_id: str | None = string(None, since=7, null_since=7)
    retention_time_ms: int = int64(-1, since=2, until=4)  # -1 for the broker's own
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Message, api_key=ApiKey.OFFSET_COMMIT, versions=(0, 10), flexible_from=8):
    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
