"""InitProducerId: a producer id for an idempotent producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """A new id and epoch 0, each time it is asked: without a transactional id there is nothing to resume.

    A producer that names its id and epoch (v3+, KIP-360) asks for the next epoch; since nothing is remembered about
    it here, it gets a new id, which serves the same end: its sequences start anew.
    """
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiError(ErrorCode.INVALID_REQUEST, "producer id and epoch are given together or not at all")
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "this broker does not coordinate transactions")
    return InitProducerIdResponse(producer_id=context.node.producer_ids.next_id(), producer_epoch=0)
