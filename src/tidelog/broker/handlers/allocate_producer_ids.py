"""AllocateProducerIds: a broker asks the controller for its next block of producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context


async def handle(request: AllocateProducerIdsRequest, context: Context) -> AllocateProducerIdsResponse:
    """The block belongs to the broker once it is in the tree."""
    controller = context.node.in_cluster.controller
    block = await controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.last - block.first + 1)
