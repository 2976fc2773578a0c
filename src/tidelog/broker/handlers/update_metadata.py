"""UpdateMetadata: the controller sends the live brokers and the partition leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.context import Context
    from tidelog.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(request: UpdateMetadataRequest, context: Context) -> UpdateMetadataResponse:
    """Apply it to the image, in its turn among the controller's requests."""
    return await context.node.in_cluster.update_metadata(request)
