"""ReadShareGroupState: the leader of a partition reads the state of its share partitions (KIP-932)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.fields import OWN_TAGS
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(Message, api_key=ApiKey.READ_SHARE_GROUP_STATE, versions=(0, 0), flexible_from=0):
    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()  # 0: available, 2: acknowledged, 3: being archived, 4: archived
    delivery_count: int = int16()
    # Tidelog's own, by the wall clock: when what is available may be delivered, since when the rest is being archived.
    time_ms: int = int64(tag=OWN_TAGS)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(Message, api_key=ApiKey.READ_SHARE_GROUP_STATE, versions=(0, 0), flexible_from=0):
    results: list[ReadStateResult] = array(ReadStateResult)
