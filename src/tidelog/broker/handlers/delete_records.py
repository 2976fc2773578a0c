"""DeleteRecords: move the start of partitions forward; what lies before is gone for every reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tidelog.replication.delete_records import DeleteResult
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


async def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Delete before the given offsets; answered once every replica has followed."""
    done: asyncio.Future[list[DeleteResult]] = asyncio.get_running_loop().create_future()
    offsets = [
        (topic.name, partition.partition_index, partition.offset)
        for topic in request.topics
        for partition in topic.partitions
    ]
    context.node.replica_manager.delete_records(offsets, request.timeout_ms, done.set_result)
    context.node.socket_server.wake()  # if it has to wait, the end of the turn sets the timer
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for result in await done:
        topics.setdefault(result.topic, []).append(
            DeleteRecordsPartitionResult(
                partition_index=result.partition_index, low_watermark=result.low_watermark, error_code=result.error_code
            )
        )
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
