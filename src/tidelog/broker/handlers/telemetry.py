"""GetTelemetrySubscriptions and PushTelemetry: the metrics that clients are asked for and send (KIP-714).

They are served by brokers that have `metrics.listeners`, whose pages show the values. A client is asked for nothing,
and then sends nothing, unless a subscription matches it (`tidelog config alter --client-metrics`).
"""

from __future__ import annotations

import logging
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.telemetry.otlp import OtlpError, points
from tidelog.records.compression import Codec, decompress
from tidelog.records.errors import CorruptRecordError, ExpansionError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tidelog.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node
    from tidelog.broker.telemetry.client_metrics import ClientMetrics
    from tidelog.broker.telemetry.subscriptions import Client

logger = logging.getLogger(__name__)

ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In the order that Kafka prefers."""
_EXPANSION_MAX: Final = 16
"""How many times `telemetry.max.bytes` metrics may have uncompressed: names repeat, so they compress well."""
_SMALL_BYTES: Final = 4096
"""Compressed metrics of up to this size are decompressed on the loop."""
_POINTS_AT_ONCE: Final = 50


def handle_get(request: GetTelemetrySubscriptionsRequest, context: Context) -> GetTelemetrySubscriptionsResponse:
    """Tell a client what to push, and how often."""
    node = context.node
    describe = partial(_describe, request.client_instance_id, context)
    client, error = _metrics_of(node).subscriptions.ask(
        request.client_instance_id, describe, context.slot.connection, node.clock.monotonic_ms()
    )
    if error:
        return GetTelemetrySubscriptionsResponse(error_code=error)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client.instance_id,
        subscription_id=client.wish.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED],
        push_interval_ms=client.wish.interval_ms,
        telemetry_max_bytes=node.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(client.wish.metrics),
    )


async def handle_push(request: PushTelemetryRequest, context: Context) -> PushTelemetryResponse:
    """Take over the metrics of a client."""
    node = context.node
    client, error = _metrics_of(node).subscriptions.push(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        len(request.metrics),
        node.config.telemetry_max_bytes,
        partial(_describe, request.client_instance_id, context),
        context.slot.connection,
        node.clock.monotonic_ms(),
    )
    if client is not None and not error and request.metrics:
        error = client.error = await _take(client, request, context)
    return PushTelemetryResponse(error_code=error)


async def _take(client: Client, request: PushTelemetryRequest, context: Context) -> ErrorCode:
    """Every value or, if the metrics turn out to be malformed, those before the fault."""
    node = context.node
    limit = _EXPANSION_MAX * node.config.telemetry_max_bytes
    unpack = partial(decompress, Codec(request.compression_type), request.metrics, limit)
    series = _metrics_of(node).series
    try:
        data = unpack() if len(request.metrics) <= _SMALL_BYTES else await node.background.run(unpack)
        for number, point in enumerate(points(data)):
            series.add(client.instance_id, client.properties, point)
            if number % _POINTS_AT_ONCE == 0:
                await context.pause()
    except (CorruptRecordError, ExpansionError, OtlpError) as problem:
        logger.warning("metrics of client %s are refused: %s", uuid_to_text(client.instance_id), problem)
        return ErrorCode.INVALID_RECORD
    return ErrorCode.NONE


def _metrics_of(node: Node) -> ClientMetrics:
    assert node.client_metrics is not None, "a broker without metrics.listeners does not have these routes"
    return node.client_metrics


def _describe(instance_id: bytes, context: Context) -> dict[str, str]:
    session = context.session
    name, version = session.client_software or ("unknown", "unknown")
    return {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": session.address,
        "client_source_port": _port_of(context.slot.connection.fd),
    }


def _port_of(descriptor: int) -> str:
    """The client's port, which only a new client with a subscription that may match it is asked for."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as peer:
            return str(peer.getpeername()[1])
    except OSError:
        return ""
