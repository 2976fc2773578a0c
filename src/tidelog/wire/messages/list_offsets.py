"""ListOffsets: the offset at a point in time.

The time -1 asks for the end of the log, -2 for its start, -3 for the record with the latest timestamp.

What the versions changed:

    0   returns up to a number of segment offsets before the time
    1   returns the one offset of the first record at or after the time, with its timestamp
    2   adds the isolation level and the throttle time
    3   the broker responds at once, and the client waits for the throttle time
    4   adds leader epochs (KIP-320)
    5   may fail with OFFSET_NOT_AVAILABLE while a new leader catches up
    6   first flexible version
    7   the record with the latest timestamp may be asked for: -3 (KIP-734)
    8   the start of the local log may be asked for: -4 (KIP-405)
    9   the end of the log in tiered storage may be asked for: -5 (KIP-1005)
    10  adds how long a broker may look into tiered storage (KIP-1075)
    11  the first offset that is not yet in tiered storage may be asked for: -6 (KIP-1023)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32(-1, since=4)  # -1 is not checked
    timestamp: int = int64()
    max_num_offsets: int = int32(1, until=0)


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message, api_key=ApiKey.LIST_OFFSETS, versions=(0, 11), flexible_from=6):
    replica_id: int = int32()  # -1 for consumers, -2 for debugging
    isolation_level: int = int8(since=2)  # 0: read uncommitted, 1: read committed
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(int64, until=0)
    timestamp: int = int64(-1, since=1)
    offset: int = int64(-1, since=1)
    leader_epoch: int = int32(-1, since=4)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message, api_key=ApiKey.LIST_OFFSETS, versions=(0, 11), flexible_from=6):
    throttle_time_ms: int = int32(since=2)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
