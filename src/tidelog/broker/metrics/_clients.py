"""What clients have pushed (KIP-714), and how much of it: `kafka.server:type=client-metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.broker.metrics._shapes import counter, gauge

if TYPE_CHECKING:
    from tidelog.broker.telemetry.client_metrics import ClientMetrics
    from tidelog.metrics import Family
    from tidelog.timing import Clock


class ClientFamilies:
    """The clients of this broker that push metrics."""

    def __init__(self, metrics: ClientMetrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock

    def families(self) -> Iterator[Family]:
        series, subscriptions = self._metrics.series, self._metrics.subscriptions
        subscriptions.sweep(self._clock.monotonic_ms())
        name = "kafka_server_client_metrics"
        yield gauge(f"{name}_instance_count", "Clients that have asked for subscriptions.", subscriptions.client_count)
        yield counter(f"{name}_throttle", "Requests that came too early.", subscriptions.throttled)
        yield counter(
            f"{name}_unknown_subscription_request",
            "Metrics for a subscription that had changed.",
            subscriptions.unknown_subscriptions,
        )
        yield gauge("tidelog_client_metrics_series", "Series of clients that are kept.", len(series))
        yield counter("tidelog_client_metrics_points", "Values that clients have sent.", series.received)
        yield counter(
            "tidelog_client_metrics_dropped_points", "Values that were beyond a limit, or odd.", series.dropped
        )
        yield from series.families()
