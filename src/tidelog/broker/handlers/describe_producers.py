"""DescribeProducers: the active producers of a partition, with their epochs and sequences."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.handlers._answers import Answers
from tidelog.metadata.topic_names import check_topic_name
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


async def handle(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    """Answer every partition for itself."""
    response = DescribeProducersResponse()
    answers: Answers[PartitionResponse] = Answers()
    for topic in request.topics:
        await context.pause()
        first = len(answers.all)
        for index in topic.partition_indexes:
            answers.add((topic.name, index), partial(_describe, topic.name, index, context))
            await context.pause()
        response.topics.append(TopicResponse(name=topic.name, partitions=answers.all[first:]))
    return response


def _describe(topic: str, index: int, context: Context) -> PartitionResponse:
    response = PartitionResponse(partition_index=index)
    try:
        context.check_allowed(AclOperation.READ, AclResourceType.TOPIC, topic)
        check_topic_name(topic)
        partition = context.node.replica_manager.partition(topic, index)
        partition.check_readable(-1)
        response.active_producers = [
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in partition.log.producer_state.active_producers()
        ]
    except ApiError as error:
        response.error_code, response.error_message = error.code, error.message
    return response
