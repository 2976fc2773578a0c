"""DeleteShareGroupState: the group coordinator deletes the state of share partitions (KIP-932)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string, uuid


class PartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class DeleteShareGroupStateRequest(Message, api_key=ApiKey.DELETE_SHARE_GROUP_STATE, versions=(0, 0), flexible_from=0):
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class DeleteShareGroupStateResponse(Message, api_key=ApiKey.DELETE_SHARE_GROUP_STATE, versions=(0, 0), flexible_from=0):
    results: list[DeleteStateResult] = array(DeleteStateResult)
