"""ConsumerGroupDescribe: groups of the newer protocol, their members and where each is on its way (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.handlers._groups import check_consumer_protocol
from tidelog.broker.handlers._operations import GROUP_OPERATIONS, NOT_ASKED
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: ConsumerGroupDescribeRequest, context: Context) -> ConsumerGroupDescribeResponse:
    """Look at each group."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    return ConsumerGroupDescribeResponse(
        groups=[_describe(group_id, operations, context) for group_id in request.group_ids]
    )


def _describe(group_id: str, operations: int, context: Context) -> DescribedGroup:
    try:
        check_consumer_protocol(context)
        described = context.node.groups.shard_of(group_id).describe_consumer_group(group_id)
    except ApiError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    described.authorized_operations = operations
    return described
