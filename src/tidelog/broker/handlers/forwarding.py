"""Requests that a member of a KRaft cluster hands on to the active controller. Its answer is the client's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.handlers._config_resources import ResourceType
from tidelog.broker.handlers.alter_configs import handle_incremental as alter_here
from tidelog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.wire.schema import Message


async def handle(request: Message, context: Context) -> Message:
    """Have the active controller carry out the request."""
    return await context.node.topology.forward(request, context.api_version, context.session)


async def handle_incremental(request: IncrementalAlterConfigsRequest, context: Context) -> Message:
    """Have the active controller alter settings. The levels of loggers are each broker's own, and are set here."""
    loggers = [each for each in request.resources if each.resource_type == ResourceType.BROKER_LOGGER]
    if not loggers:
        return await handle(request, context)
    others = [each for each in request.resources if each.resource_type != ResourceType.BROKER_LOGGER]
    here = await alter_here(
        IncrementalAlterConfigsRequest(resources=loggers, validate_only=request.validate_only), context
    )
    if others:
        rest = await handle(
            IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only), context
        )
        assert isinstance(rest, IncrementalAlterConfigsResponse), f"answered with {rest!r}"
        here.responses += rest.responses
    return here
