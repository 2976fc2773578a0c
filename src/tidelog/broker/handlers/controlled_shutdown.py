"""ControlledShutdown: a broker that is about to stop has its leaderships moved to other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


async def handle(request: ControlledShutdownRequest, context: Context) -> ControlledShutdownResponse:
    """Answer with the partitions that the broker still leads; it asks again while there are any."""
    controller = context.node.in_cluster.controller
    remaining = await controller.shut_down(request.broker_id, request.broker_epoch)
    return ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(topic_name=topic, partition_index=index) for topic, index in remaining]
    )
