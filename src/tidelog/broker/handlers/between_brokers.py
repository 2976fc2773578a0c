"""What brokers and controllers ask of each other: LeaderAndIsr, AlterPartition, AllocateProducerIds and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.wire.schema import Message


async def handle(request: Message, context: Context) -> Message:
    """Carry out the request; which ones there are is up to the topology. The next ones go before those of clients."""
    connection = context.slot.connection
    connection.server.serve_first(connection)
    return await context.node.topology.serve_broker(request, context.api_version)
