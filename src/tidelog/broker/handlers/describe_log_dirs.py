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
    from tidelog.broker.serving.context import Context
    from tidelog.storage.directories.manager import DirectoryDescription

Wanted = dict[str, set[int]]


async def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Describe the partitions asked for, or all; a failed directory is named with its error."""
    wanted: Wanted | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
            await context.pause()
    results = [await _describe(directory, wanted, context) for directory in context.node.log_manager.describe_dirs()]
    return DescribeLogDirsResponse(results=results)


async def _describe(directory: DirectoryDescription, wanted: Wanted | None, context: Context) -> DescribeLogDirsResult:
    if directory.is_offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for entry in directory.partitions:
        if wanted is None or entry.partition in wanted.get(entry.topic, ()):
            topics.setdefault(entry.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=entry.partition,
                    partition_size=entry.size_bytes,
                    offset_lag=entry.offset_lag,
                    is_future_key=entry.is_future,
                )
            )
        await context.pause()
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
    )
