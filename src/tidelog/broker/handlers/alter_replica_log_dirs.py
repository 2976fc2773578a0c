"""AlterReplicaLogDirs: moves a replica to another log directory.

A replica that lies there already is confirmed; another one begins to move, and DescribeLogDirs shows how far it is. One
that is not there yet gets REPLICA_NOT_AVAILABLE and is created in that directory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

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
    node = context.node
    try:
        context.check_allowed(AclOperation.ALTER, AclResourceType.CLUSTER)
        node.log_dir_moves.move(topic, index, path)
    except ApiError as error:
        logger.info("%s-%d does not move to %s: %s", topic, index, path, error)
        return error.code
    except LogDirFailure as failure:
        node.replica_manager.fail_log_dir(failure)
        return failure.code
    return ErrorCode.NONE
