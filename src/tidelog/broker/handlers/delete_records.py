"""DeleteRecords: move the start of partitions forward; what lies before is gone for every reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.coordinators import Reply
from tidelog.replication.delete_records import DeleteResult
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Delete before the given offsets; answered once every replica has followed."""
    offsets = [
        (topic.name, partition.partition_index, partition.offset)
        for topic in request.topics
        for partition in topic.partitions
    ]
    reply = Reply(_response)
    context.node.replica_manager.delete_records(offsets, request.timeout_ms, reply)
    if not reply.is_there:
        context.node.socket_server.wake()  # the end of the turn sets the timer
    response: DeleteRecordsResponse = reply.result()
    return response


def _response(results: list[DeleteResult]) -> DeleteRecordsResponse:
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            DeleteRecordsPartitionResult(
                partition_index=result.partition_index, low_watermark=result.low_watermark, error_code=result.error_code
            )
        )
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
