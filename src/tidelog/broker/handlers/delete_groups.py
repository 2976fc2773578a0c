"""DeleteGroups: remove groups without members, and their offsets with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.coordinators import gather
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context


async def handle(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Ask the coordinator of each group; a group named twice is deleted once."""
    deletions = []
    for group_id in dict.fromkeys(request.groups_names):
        deletions.append(_delete(group_id, context))
        await context.node.slices.pause()
    return gather(deletions, lambda results: DeleteGroupsResponse(results=results))


def _delete(group_id: str, context: Context) -> DeletableGroupResult:
    def shape(outcome: ErrorCode | ApiError) -> DeletableGroupResult:
        code = outcome.code if isinstance(outcome, ApiError) else outcome
        return DeletableGroupResult(group_id=group_id, error_code=code)

    return context.node.groups.call(
        group_id, lambda shard, respond, now_ms: shard.delete_group(group_id, respond, now_ms), shape
    )
