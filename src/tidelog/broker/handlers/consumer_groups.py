"""Groups whose partitions the broker assigns (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

ConsumerGroupHeartbeat: join, stay in and leave a group whose partitions the broker assigns (KIP-848).
ConsumerGroupDescribe: groups of the newer protocol, their members and assignments (KIP-848).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._groups import check_consumer_protocol
from tidelog.broker.handlers._operations import NOT_ASKED
from tidelog.groups.consumer.checks import Asker
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.coordinators.replies import Eventual
    from tidelog.broker.serving.context import Context


_OWN_IDS_FROM: Final = 1


def handle_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> Eventual[ConsumerGroupHeartbeatResponse]:
    """Ask the group's coordinator."""
    check_consumer_protocol(context)
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if context.denied_topics(AclOperation.DESCRIBE, request.subscribed_topic_names or ()):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    gives_own_id = context.api_version >= _OWN_IDS_FROM
    access, session = context.node.access, context.session
    topic_filter = None if access is None else access.topic_filter(session)
    asker = Asker(context.client_id or "", f"/{session.address}", gives_own_id, topic_filter)
    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, now_ms: shard.consumer_heartbeat(request, asker, now_ms),
        _shape,
    )


def _shape(outcome: ConsumerGroupHeartbeatResponse | ApiError) -> ConsumerGroupHeartbeatResponse:
    if isinstance(outcome, ApiError):
        return ConsumerGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.message)
    return outcome


async def handle_describe(request: ConsumerGroupDescribeRequest, context: Context) -> ConsumerGroupDescribeResponse:
    """Look at each group."""
    answers: Answers[DescribedGroup] = Answers()
    for group_id in request.group_ids:
        answers.add(group_id, partial(_describe, group_id, request.include_authorized_operations, context))
        await context.pause()
    return ConsumerGroupDescribeResponse(groups=answers.all)


def _describe(group_id: str, wants_operations: bool, context: Context) -> DescribedGroup:
    try:
        context.check_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
        check_consumer_protocol(context)
        described = context.node.groups.shard_of(group_id).describe_consumer_group(group_id)
        _check_topics(described, context)
    except ApiError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    described.authorized_operations = (
        context.operations_allowed(AclResourceType.GROUP, group_id) if wants_operations else NOT_ASKED
    )
    return described


def _check_topics(described: DescribedGroup, context: Context) -> None:
    """A group may read topics that its name gives no right to see, those that a pattern matches among them."""
    names = (
        partitions.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for partitions in assignment.topic_partitions
    )
    if context.denied_topics(AclOperation.DESCRIBE, names):
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
