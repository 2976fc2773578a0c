"""DescribeGroups: state, protocol and members of groups; one that does not exist is Dead, and that is no error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._operations import NOT_ASKED
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context


async def handle(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    """Look at each group."""
    answers: Answers[DescribedGroup] = Answers()
    for group_id in request.groups:
        answers.add(group_id, partial(_describe, group_id, request.include_authorized_operations, context))
        await context.pause()
    return DescribeGroupsResponse(groups=answers.all)


def _describe(group_id: str, wants_operations: bool, context: Context) -> DescribedGroup:
    try:
        context.check_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
        described = context.node.groups.shard_of(group_id).describe(group_id)
    except ApiError as error:
        return DescribedGroup(error_code=error.code, group_id=group_id)
    described.authorized_operations = (
        context.operations_allowed(AclResourceType.GROUP, group_id) if wants_operations else NOT_ASKED
    )
    return described
