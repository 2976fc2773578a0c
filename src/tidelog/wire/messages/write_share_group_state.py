"""WriteShareGroupState: the leader of a partition writes what has changed of its share partitions (KIP-932).

What the versions changed:

    1   adds the number of records done behind the start offset (KIP-1226)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.fields import OWN_TAGS
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()  # 0: available, 2: acknowledged, 3: being archived, 4: archived
    delivery_count: int = int16()
    # Tidelog's own, by the wall clock: when what is available may be delivered, since when the rest is being archived.
    time_ms: int = int64(tag=OWN_TAGS)


class PartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(-1, since=1)
    state_batches: list[StateBatch] = array(StateBatch)


class WriteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class WriteShareGroupStateRequest(Message, api_key=ApiKey.WRITE_SHARE_GROUP_STATE, versions=(0, 1), flexible_from=0):
    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)


class WriteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class WriteShareGroupStateResponse(Message, api_key=ApiKey.WRITE_SHARE_GROUP_STATE, versions=(0, 1), flexible_from=0):
    results: list[WriteStateResult] = array(WriteStateResult)
