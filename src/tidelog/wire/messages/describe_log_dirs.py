"""DescribeLogDirs: the log directories of a broker, what is in them and how large it is.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
    3   adds an error code for the whole response
    4   adds the size of the volume and the space left on it (KIP-827)
    5   says whether the directory takes no new partitions (KIP-1066)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class DescribeLogDirsRequest(Message, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5), flexible_from=2):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, null_since=0)  # null for all


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()  # behind the high watermark or, of a future replica, behind the current one
    is_future_key: bool = boolean()  # true while it is being moved to this directory


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(-1, since=4)
    usable_bytes: int = int64(-1, since=4)
    is_cordoned: bool = boolean(since=5)


class DescribeLogDirsResponse(Message, api_key=ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5), flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
