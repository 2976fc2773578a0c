"""ReadShareGroupStateSummary: the start offsets of share partitions, without their batches (KIP-932).

What the versions changed:

    1   adds the number of records done behind the start offset (KIP-1226)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string, uuid


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(
    Message, api_key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions=(0, 1), flexible_from=0
):
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(-1, since=1)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(
    Message, api_key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions=(0, 1), flexible_from=0
):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
