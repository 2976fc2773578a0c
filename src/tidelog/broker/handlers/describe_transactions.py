"""DescribeTransactions: the state of transactional ids that this broker coordinates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.handlers._answers import Answers
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


async def handle(request: DescribeTransactionsRequest, context: Context) -> DescribeTransactionsResponse:
    """Answer every id for itself."""
    answers: Answers[TransactionState] = Answers()
    for name in request.transactional_ids:
        answers.add(name, partial(_describe, name, context))
        await context.pause()
    return DescribeTransactionsResponse(transaction_states=answers.all)


def _describe(transactional_id: str, context: Context) -> TransactionState:
    try:
        context.check_allowed(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, transactional_id)
        found = context.node.transactions.shard_of(transactional_id).get(transactional_id)
    except ApiError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    if found is None:
        return TransactionState(transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    from tidelog.transactions.schemas import by_topic

    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(found.partitions).items()
            if context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic, is_logged=False)
        ],
    )
