"""ConsumerGroupHeartbeat: join, stay in and leave a group whose partitions the broker assigns (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._groups import check_consumer_protocol
from tidelog.groups.consumer.checks import Asker
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_OWN_IDS_FROM: Final = 1


def handle(request: ConsumerGroupHeartbeatRequest, context: Context) -> ConsumerGroupHeartbeatResponse:
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
