"""FindCoordinator: the broker that coordinates a group (key type 0), a transactional id (1) or a share partition (2).

The coordinators of share partitions are for other brokers, from version 6 on.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._topics import create_automatically
from tidelog.metadata.image import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from tidelog.broker.coordinators.edge import CoordinatorEdge
    from tidelog.broker.serving.context import Context

logger = logging.getLogger(__name__)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SEVERAL_FROM: Final = 4
_SHARE_FROM: Final = 6
_TOPICS: Final = {_GROUP: OFFSETS_TOPIC, _TRANSACTION: TRANSACTIONS_TOPIC, _SHARE: SHARE_STATE_TOPIC}
_RESOURCES: Final = {_GROUP: AclResourceType.GROUP, _TRANSACTION: AclResourceType.TRANSACTIONAL_ID}
_NO_ERROR: Final = "NONE"
"""The error message of Kafka's older responses without an error; newer ones have an empty text for each key."""


def handle(
    request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """Respond with the address on the client's listener."""
    topic = _TOPICS.get(request.key_type)
    if request.key_type == _SHARE and not _may_find_shares(context):
        topic = None
    if topic is not None and context.node.image.topic(topic) is None:
        return _first_use(topic, request, context)
    if context.api_version >= _SEVERAL_FROM:
        return _answer_several(request, context)
    return _answer(request, context)


async def _first_use(topic: str, request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Create the coordinator's internal topic."""
    try:
        await create_automatically(topic, context)
    except ApiError as error:
        logger.error("the topic of a coordinator cannot be created: %s", error)
    if context.api_version >= _SEVERAL_FROM:
        return await _answer_several(request, context)
    return _answer(request, context)


async def _answer_several(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    answers: Answers[Coordinator] = Answers()
    for key in request.coordinator_keys:
        answers.add(key, partial(_find, request.key_type, key, context))
        await context.pause()
    return FindCoordinatorResponse(coordinators=answers.all)


def _answer(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    one = _find(request.key_type, request.key, context)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message or _NO_ERROR,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key_type: int, key: str, context: Context) -> Coordinator:
    node = context.node
    try:
        if key_type in _RESOURCES:
            context.check_allowed(AclOperation.DESCRIBE, _RESOURCES[key_type], key)
            edge: CoordinatorEdge[Any] = node.groups if key_type == _GROUP else node.transactions.edge
            broker_id = edge.find(key)
        elif key_type == _SHARE and context.api_version >= _SHARE_FROM:
            node.shares.check_served()
            context.check_allowed(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
            _check_share_key(key)
            broker_id = node.shares.edge.find(key)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"there are no coordinators of type {key_type}")
        broker = node.image.broker(broker_id)
        endpoint = None if broker is None else broker.endpoint(context.session.listener)
        if endpoint is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {broker_id} is not on this listener")
    except ApiError as error:
        message = error.message or error.code.text
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=message)
    return Coordinator(key=key, node_id=broker_id, host=endpoint.host, port=endpoint.port, error_message="")


def _may_find_shares(context: Context) -> bool:
    return context.api_version >= _SHARE_FROM and context.is_allowed(
        AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, is_logged=False
    )


def _check_share_key(key: str) -> None:
    """A key is `group:topic id:partition`; the group may have colons of its own."""
    parts = key.rsplit(":", 2)
    if len(parts) < 3 or not all(parts) or not (parts[2].isascii() and parts[2].isdigit()):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} does not name a share partition as group:topic id:partition")
