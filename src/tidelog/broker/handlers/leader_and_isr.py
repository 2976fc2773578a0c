"""LeaderAndIsr: the controller orders which partitions this broker leads and follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse


async def handle(request: LeaderAndIsrRequest, context: Context) -> LeaderAndIsrResponse:
    """Apply it, in its turn among the controller's requests."""
    return await context.node.in_cluster.lead_and_follow(request)
