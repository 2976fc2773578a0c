"""The reply to a Produce of many partitions, made a few milliseconds at a time.

`wire.produce` writes replies in one go, which takes a microsecond and a half for each partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import encode_response
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.produce import TOPIC_IDS_FROM

if TYPE_CHECKING:
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.wire.produce import PartitionReply


async def reply_in_slices(
    slices: TimeSlices,
    version: int,
    correlation_id: int,
    replies: Iterable[tuple[bytes, PartitionReply]],
    throttle_ms: int = 0,
) -> bytes:
    """The whole frame. The replies of a topic stand together, wherever they were in the request."""
    topics: dict[bytes, TopicProduceResponse] = {}
    has_ids = version >= TOPIC_IDS_FROM
    for topic, reply in replies:
        await slices.pause()
        if topic not in topics:
            key = {"topic_id": topic} if has_ids else {"name": topic.decode()}
            topics[topic] = TopicProduceResponse(**key)
        topics[topic].partition_responses.append(
            PartitionProduceResponse(
                index=reply.partition_index,
                error_code=reply.error_code,
                base_offset=reply.base_offset,
                log_append_time_ms=reply.log_append_time_ms,
                log_start_offset=reply.log_start_offset,
                record_errors=[
                    BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                    for index, message in reply.record_errors
                ],
                error_message=reply.error_message,
            )
        )
    response = ProduceResponse(responses=list(topics.values()), throttle_time_ms=throttle_ms)
    body = await slices.run(response.encode_in_slices(version))
    return encode_response(ApiKey.PRODUCE, version, correlation_id, body)
