"""InitProducerId: a producer id and epoch, for an idempotent producer or for a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._transactions import error_for_version
from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tidelog.broker.coordinators.replies import Eventual
    from tidelog.broker.serving.context import Context
    from tidelog.coordination import ProducerEpoch

_FENCED_SINCE: Final = 4


async def handle(request: InitProducerIdRequest, context: Context) -> Eventual[InitProducerIdResponse]:
    """Allocate an id. For a transactional id, fence its earlier producer and abort an open transaction.

    A producer without a transactional id that sends its id and epoch (v3+, KIP-360) wants the next epoch. The broker
    has no state of it, so it gets a new id, which has the same effect: its sequences start at 0.
    """
    refusal = _denial(request, context)
    if refusal is not None:
        return _refusal(refusal)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refusal(ErrorCode.INVALID_REQUEST)
    with metadata_errors_translated():
        await context.node.topology.producer_ids.ready()
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=context.node.topology.producer_ids.next_id(), producer_epoch=0)
    return _initialize(request, request.transactional_id, context)


def _denial(request: InitProducerIdRequest, context: Context) -> ErrorCode | None:
    """An idempotent producer must be allowed to write to the cluster, or to any topic at all."""
    if request.transactional_id is not None:
        is_allowed = context.is_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        return None if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    access = context.node.access
    if (
        access is None
        or context.is_allowed(AclOperation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, is_logged=False)
        or access.allows_on_any(context.session, AclOperation.WRITE, AclResourceType.TOPIC)
    ):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _initialize(
    request: InitProducerIdRequest, transactional_id: str, context: Context
) -> Eventual[InitProducerIdResponse]:
    from tidelog.coordination import ProducerEpoch

    timeout_ms = request.transaction_timeout_ms
    if transactional_id and not 0 < timeout_ms <= context.node.config.transaction_max_timeout_ms:
        return _refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    expected = ProducerEpoch(request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None

    def shape(outcome: ProducerEpoch | ApiError) -> InitProducerIdResponse:
        if isinstance(outcome, ApiError):
            return _refusal(error_for_version(outcome.code, context.api_version, _FENCED_SINCE))
        return InitProducerIdResponse(producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch)

    return context.node.transactions.call(
        "init",
        transactional_id,
        lambda shard, now_ms: shard.initialize(transactional_id, timeout_ms, expected, now_ms),
        shape,
    )


def _refusal(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
