"""InitializeShareGroupState: the group coordinator creates the persistent state of share partitions (KIP-932)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string, uuid


class PartitionData(Struct):
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(
    Message, api_key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions=(0, 0), flexible_from=0
):
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(
    Message, api_key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions=(0, 0), flexible_from=0
):
    results: list[InitializeStateResult] = array(InitializeStateResult)
