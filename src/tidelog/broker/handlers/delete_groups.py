"""DeleteGroups: remove groups without members, and their offsets with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.coordinators import Reply, gather
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

GROUPS_AT_ONCE: Final = 500
"""Groups whose deletion is under way at the same time: what waits for one commit is answered in one go."""


async def handle(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Ask the coordinator of each group; a group named twice is deleted once."""
    names = list(dict.fromkeys(request.groups_names))
    response = DeleteGroupsResponse()
    for start in range(0, len(names), GROUPS_AT_ONCE):
        deletions = []
        for group_id in names[start : start + GROUPS_AT_ONCE]:
            deletions.append(_delete(group_id, context))
            await context.node.slices.pause()
        if len(names) <= GROUPS_AT_ONCE:
            return gather(deletions, lambda results: DeleteGroupsResponse(results=results))
        response.results += [await found if isinstance(found, Reply) else found for found in deletions]
    return response


def _delete(group_id: str, context: Context) -> DeletableGroupResult:
    if not context.is_allowed(AclOperation.DELETE, AclResourceType.GROUP, group_id):
        return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def shape(outcome: ErrorCode | ApiError) -> DeletableGroupResult:
        code = outcome.code if isinstance(outcome, ApiError) else outcome
        return DeletableGroupResult(group_id=group_id, error_code=code)

    return context.node.groups.call(
        group_id, lambda shard, respond, now_ms: shard.delete_group(group_id, respond, now_ms), shape
    )
