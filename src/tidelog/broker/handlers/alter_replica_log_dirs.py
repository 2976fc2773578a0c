"""AlterReplicaLogDirs: moves a replica to another log directory.

A replica that lies there already is confirmed. Moving one while it serves is not built, and is refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

logger = logging.getLogger(__name__)


async def handle(request: AlterReplicaLogDirsRequest, context: Context) -> AlterReplicaLogDirsResponse:
    """Answer each partition once; of two directories for the same one the last counts."""
    topics: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            codes = topics.setdefault(topic.name, {})
            await context.pause()
            for index in topic.partitions:
                codes[index] = _code_of(directory.path, topic.name, index, context)
                await context.pause()
    response = AlterReplicaLogDirsResponse()
    for name, codes in topics.items():
        result = AlterReplicaLogDirTopicResult(topic_name=name)
        response.results.append(result)
        for index, code in codes.items():
            result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
            await context.pause()
    return response


def _code_of(path: str, topic: str, index: int, context: Context) -> ErrorCode:
    log_manager = context.node.log_manager
    if path in log_manager.offline_directories():
        return ErrorCode.KAFKA_STORAGE_ERROR
    if path not in log_manager.live_directories():
        return ErrorCode.LOG_DIR_NOT_FOUND
    log = log_manager.get_log(topic, index)
    if log is None:
        is_offline = (topic, index) in log_manager.offline_partitions()
        return ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if log.parent_directory == path:
        return ErrorCode.NONE
    logger.warning("%s is not moved to %s: moving replicas between log.dirs is not supported yet", log.name, path)
    return ErrorCode.UNSUPPORTED_VERSION
