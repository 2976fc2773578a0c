"""AlterPartition: a leader asks the controller for another ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(request: AlterPartitionRequest, context: Context) -> AlterPartitionResponse:
    """Answer once the ISR is in the tree, or refused."""
    return await context.node.in_cluster.controller.alter_partition(request, context.api_version)
