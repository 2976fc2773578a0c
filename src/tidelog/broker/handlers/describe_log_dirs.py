"""DescribeLogDirs: each log directory with its space and the sizes of the partitions in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.storage.log_manager import DirectoryDescription


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Describe the partitions asked for, or all; a failed directory is named with its error."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(directory, wanted) for directory in context.node.log_manager.describe_dirs()]
    )


def _describe(directory: DirectoryDescription, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    if directory.is_offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for entry in directory.partitions:
        if wanted is None or (entry.topic, entry.partition) in wanted:
            topics.setdefault(entry.topic, []).append(
                DescribeLogDirsPartition(partition_index=entry.partition, partition_size=entry.size_bytes)
            )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )
