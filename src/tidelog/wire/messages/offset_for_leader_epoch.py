"""OffsetForLeaderEpoch: where an epoch ended in the leader's log, for followers and consumers that may have diverged.

What the versions changed:

    1   adds the epoch found to the response
    2   adds the current leader epoch, which is checked (KIP-320), and the throttle time
    3   adds the replica id; -2 may see offsets beyond the high watermark
    4   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32(-1, since=2)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Message, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), flexible_from=4):
    replica_id: int = int32(-2, since=3)  # -1 for consumers, -2 for debugging
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(-1, since=1)
    end_offset: int = int64(-1)  # -1 if the epoch is not known


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Message, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(0, 4), flexible_from=4):
    throttle_time_ms: int = int32(since=2)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
