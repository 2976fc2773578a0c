"""DeleteRecords: move the start of partitions forward; -1 means to the high watermark.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()  # -1 for the high watermark


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Message, api_key=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_from=2):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()  # the new start of the log
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Message, api_key=ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_from=2):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
