"""AlterReplicaLogDirs: move replicas to other log directories of the same broker.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, string


class AlterReplicaLogDirTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDir(Struct):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Message, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2), flexible_from=2):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Message, api_key=ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2), flexible_from=2):
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
