"""ShareGroupHeartbeat and ShareGroupDescribe (KIP-932).

ShareGroupHeartbeat: join, stay in and leave a share group. Partitions that the group is to read for the first time get
their stored state before the heartbeat is decided, so that they are in the first assignment.
ShareGroupDescribe: share groups, their members and assignments.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.coordinators.replies import Eventual
from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._operations import NOT_ASKED
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.sharing.schemas import ShareKey
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from tidelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

logger = logging.getLogger(__name__)


def handle_heartbeat(request: ShareGroupHeartbeatRequest, context: Context) -> Any:
    """Ask the group's coordinator, now or when states of its partitions are there."""
    context.node.shares.check_served()
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if context.denied_topics(AclOperation.DESCRIBE, request.subscribed_topic_names or ()):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    shard = context.node.groups.shard_of(request.group_id)
    shard.check_may_share(request.group_id)
    state_epoch, missing = shard.shares.missing_states(request)
    if missing:
        return _initialize_first(request, state_epoch, missing, context)
    return _heartbeat(request, context)


async def _initialize_first(
    request: ShareGroupHeartbeatRequest, state_epoch: int, missing: Any, context: Context
) -> Eventual[ShareGroupHeartbeatResponse]:
    """Initialize states. Those that fail now are tried again with a later heartbeat."""
    done = {}
    for topic_id, topic in missing.items():
        try:
            for index in sorted(topic.partitions):
                await context.node.shares.states.initialize(ShareKey(request.group_id, topic_id, index), state_epoch)
        except ApiError as error:
            logger.warning("the state of %s for share group %s is not there: %s", topic.name, request.group_id, error)
        else:
            done[topic_id] = topic
    if done:
        outcome = await context.node.groups.ask(
            request.group_id,
            lambda shard, _respond, now_ms: shard.shares.initialized(request.group_id, done, now_ms),
        )
        if isinstance(outcome, ApiError):
            return _shape(outcome)
    return _heartbeat(request, context)


def _heartbeat(request: ShareGroupHeartbeatRequest, context: Context) -> Eventual[ShareGroupHeartbeatResponse]:
    client_id, client_host = context.client_id or "", f"/{context.session.address}"
    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, now_ms: shard.share_heartbeat(request, client_id, client_host, now_ms),
        _shape,
    )


def _shape(outcome: ShareGroupHeartbeatResponse | ApiError) -> ShareGroupHeartbeatResponse:
    if isinstance(outcome, ApiError):
        return ShareGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.message)
    return outcome


async def handle_describe(request: ShareGroupDescribeRequest, context: Context) -> ShareGroupDescribeResponse:
    """Look at each group."""
    answers: Answers[DescribedGroup] = Answers()
    for group_id in request.group_ids:
        answers.add(group_id, partial(_describe, group_id, request.include_authorized_operations, context))
        await context.pause()
    return ShareGroupDescribeResponse(groups=answers.all)


def _describe(group_id: str, wants_operations: bool, context: Context) -> DescribedGroup:
    try:
        context.check_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
        context.node.shares.check_served()
        described = context.node.groups.shard_of(group_id).shares.describe(group_id)
        names = (
            partitions.topic_name for member in described.members for partitions in member.assignment.topic_partitions
        )
        if context.denied_topics(AclOperation.DESCRIBE, names):
            text = "The group has described topic(s) that the client is not authorized to describe."
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    except ApiError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    described.authorized_operations = (
        context.operations_allowed(AclResourceType.GROUP, group_id) if wants_operations else NOT_ASKED
    )
    return described
