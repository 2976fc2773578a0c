"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete: what operators see and remove of groups.

ListGroups: the groups that this broker coordinates, by state (v4+) and type (v5+) if asked.
DescribeGroups: state, protocol and members of groups; one that does not exist is Dead, an error from version 6 on.
DeleteGroups: remove groups without members, and their offsets with them.
OffsetDelete: forget offsets of topics that a group does not read any more (KIP-496).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.coordinators.replies import Eventual, gather, settled
from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._groups import check_group_id
from tidelog.broker.handlers._operations import NOT_ASKED
from tidelog.broker.handlers._parts import in_parts
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.handlers._groups import GroupOperation
    from tidelog.broker.serving.context import Context


_CLASSIC: Final = "classic"
_DEAD: Final = "Dead"
_MISSING_IS_ERROR_FROM: Final = 6
_SHARE: Final = "share"


async def handle_list(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """List what is loaded; states and types are compared without regard to case."""
    coordinator = context.node.groups
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.has_loads else ErrorCode.NONE
    response = ListGroupsResponse(error_code=error)
    sees_all = context.is_allowed(AclOperation.DESCRIBE, AclResourceType.CLUSTER, is_logged=False)
    # Groups come and go between two steps, so the list of those that are here now is made first.
    for group in [group for shard in coordinator.shards() for group in shard.groups()]:
        if not sees_all and not context.is_allowed(
            AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, is_logged=False
        ):
            continue
        if (not states or group.state_name.lower() in states) and (not types or group.kind in types):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or ("" if group.kind == _CLASSIC else group.kind),
                    group_state=group.state_name,
                    group_type=group.kind,
                )
            )
        await context.pause()
    for share in [group for shard in coordinator.shards() for group in shard.shares.groups()]:
        if not sees_all and not context.is_allowed(
            AclOperation.DESCRIBE, AclResourceType.GROUP, share.group_id, is_logged=False
        ):
            continue
        if (not states or share.state_name.lower() in states) and (not types or _SHARE in types):
            response.groups.append(
                ListedGroup(
                    group_id=share.group_id,
                    protocol_type=_SHARE,
                    group_state=share.state_name,
                    group_type=_SHARE,
                )
            )
        await context.pause()
    return response


async def handle_describe(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
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
    if described.group_state == _DEAD and context.api_version >= _MISSING_IS_ERROR_FROM:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
    described.authorized_operations = (
        context.operations_allowed(AclResourceType.GROUP, group_id) if wants_operations else NOT_ASKED
    )
    return described


GROUPS_AT_ONCE: Final = 500
"""Groups whose deletion is under way at the same time: what waits for one commit is answered in one go."""


async def handle_delete(request: DeleteGroupsRequest, context: Context) -> Eventual[DeleteGroupsResponse]:
    """Ask the coordinator of each group; a group named twice is deleted once."""
    names = list(dict.fromkeys(request.groups_names))
    response = DeleteGroupsResponse()
    shares = [group_id for group_id in names if _is_share_group(group_id, context)]
    if shares:
        response.results += [await _delete_share_group(group_id, context) for group_id in shares]
        names = [group_id for group_id in names if group_id not in shares]
    for start in range(0, len(names), GROUPS_AT_ONCE):
        deletions = []
        for group_id in names[start : start + GROUPS_AT_ONCE]:
            deletions.append(_delete(group_id, context))
            await context.node.slices.pause()
        if len(names) <= GROUPS_AT_ONCE:
            return gather(deletions, lambda results: DeleteGroupsResponse(results=[*response.results, *results]))
        response.results += [await settled(found) for found in deletions]
    return response


def _is_share_group(group_id: str, context: Context) -> bool:
    try:
        return context.node.groups.shard_of(group_id).shares.get(group_id) is not None
    except ApiError:
        return False


async def _delete_share_group(group_id: str, context: Context) -> DeletableGroupResult:
    """The states of its partitions go first: a group that is gone could not name them any more."""
    from tidelog.broker.handlers.share_offsets import delete_states

    coordinator = context.node.groups
    try:
        context.check_allowed(AclOperation.DELETE, AclResourceType.GROUP, group_id)
        group = coordinator.shard_of(group_id).shares.check_empty(group_id)
        for topic_id in list(group.initialized):
            await delete_states(group, topic_id, context)
    except ApiError as error:
        return _not_deleted(group_id, error)
    outcome = await coordinator.ask(group_id, lambda shard, _respond, _now_ms: shard.shares.delete(group_id))
    return _not_deleted(group_id, outcome) if isinstance(outcome, ApiError) else DeletableGroupResult(group_id=group_id)


def _delete(group_id: str, context: Context) -> Eventual[DeletableGroupResult]:
    if not context.is_allowed(AclOperation.DELETE, AclResourceType.GROUP, group_id):
        return _not_deleted(group_id, ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))

    def shape(outcome: ErrorCode | ApiError) -> DeletableGroupResult:
        if isinstance(outcome, ErrorCode):
            if outcome is ErrorCode.NONE:
                return DeletableGroupResult(group_id=group_id)
            outcome = ApiError(outcome)
        return _not_deleted(group_id, outcome)

    return context.node.groups.call(
        group_id, lambda shard, respond, now_ms: shard.delete_group(group_id, respond, now_ms), shape
    )


def _not_deleted(group_id: str, error: ApiError) -> DeletableGroupResult:
    return DeletableGroupResult(
        group_id=group_id, error_code=error.code, error_message=error.message or error.code.text
    )


async def handle_delete_offsets(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Ask the group's coordinator about partitions of topics that exist; a partition named twice is deleted once."""
    context.check_allowed(AclOperation.DELETE, AclResourceType.GROUP, request.group_id)
    check_group_id(request.group_id)
    image = context.node.image
    response = OffsetDeleteResponse()
    answered: set[tuple[str, int]] = set()
    denied = context.denied_topics(AclOperation.READ, (topic.name for topic in request.topics))
    # A missing group is an error of the whole response, so the coordinator is asked even if no topic exists.
    topics = [(topic.name, topic.partitions) for topic in request.topics] or [("", [])]
    for part in in_parts(topics):
        wanted = dict.fromkeys((name, each.partition_index) for name, partitions in part for each in partitions)
        new = [key for key in wanted if key not in answered]
        answered.update(new)
        deletable = [key for key in new if image.topic(key[0]) is not None and key[0] not in denied]
        outcome = await context.node.groups.ask(request.group_id, _deleting(request.group_id, deletable))
        if isinstance(outcome, ApiError):
            return OffsetDeleteResponse(error_code=outcome.code)
        for name, index in new:
            if not response.topics or response.topics[-1].name != name:
                response.topics.append(OffsetDeleteResponseTopic(name=name))
            code = outcome.get((name, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if name in denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics[-1].partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        await context.node.slices.pause()
    return response


def _deleting(group_id: str, partitions: Sequence[tuple[str, int]]) -> GroupOperation:
    return lambda shard, _respond, now_ms: shard.delete_offsets(group_id, partitions, now_ms)
