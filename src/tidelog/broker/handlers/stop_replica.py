"""StopReplica: the controller orders to stop following partitions, and to delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


async def handle(request: StopReplicaRequest, context: Context) -> StopReplicaResponse:
    """Apply it, in its turn among the controller's requests."""
    return await context.node.in_cluster.stop_replicas(request)
