"""The request log: a line for every request, or for the slow ones, with where the time went.

The logger `tidelog.request` writes every request at DEBUG, as Kafka's request logger does; its level can be changed
while the broker runs. `tidelog.slow.request.ms` has requests logged at WARNING that keep the broker busy for longer:
waiting for records, for followers or for other members does not count. While neither is asked for, a request costs
nothing more.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidelog.network.log_rate_limit import LogRateLimit

if TYPE_CHECKING:
    from tidelog.broker.requests.hooks import Hooked
    from tidelog.broker.requests.request_meter import RequestMeter
    from tidelog.network.connection import Slot

every_request = logging.getLogger("tidelog.request")
slow_requests = logging.getLogger("tidelog.request.slow")
slow_requests.addFilter(LogRateLimit())

_LINE: Final = (
    "api=%s version=%d client=%s connection=%s principal=%s listener=%s bytes=%d total_ms=%.3f queue_ms=%.3f "
    "local_ms=%.3f remote_ms=%.3f send_ms=%.3f throttle_ms=%d"
)


class RequestLog:
    """Decides whether requests are timed, and writes about them."""

    def __init__(self, slow_ms: int) -> None:
        """`slow_ms` is -1 if slow requests are not logged."""
        self.meter: RequestMeter | None = None
        """Times requests; None while nothing needs that."""
        self._slow_us = slow_ms * 1000 if slow_ms >= 0 else -1
        self._dispatcher: Hooked | None = None
        self._has_metrics = False

    def use(self, dispatcher: Hooked, *, has_metrics: bool) -> None:
        """Time the requests of this dispatcher where that is needed, for metrics or for the log."""
        self._dispatcher = dispatcher
        self._has_metrics = has_metrics
        self.refresh()

    def refresh(self) -> None:
        """The level of a logger has changed."""
        assert self._dispatcher is not None, "used before"
        is_logged = self._slow_us >= 0 or every_request.isEnabledFor(logging.DEBUG)
        if is_logged or self._has_metrics:
            self._meter(self._dispatcher).set_log(self.write if is_logged else None)
        meter = self.meter if is_logged or self._has_metrics else None
        countdowns, time = (None, None) if meter is None else (meter.countdowns, meter.time)
        hooks = self._dispatcher.hooks
        self._dispatcher.set_hooks(replace(hooks, countdowns=countdowns, time=time, is_logged=is_logged))

    def _meter(self, dispatcher: Hooked) -> RequestMeter:
        if self.meter is None:
            from tidelog.broker.requests.request_meter import RequestMeter

            self.meter = RequestMeter(dispatcher.routes.values())
        return self.meter

    def write(
        self, slot: Slot, api: str, version: int, queue_us: int, local_us: int, remote_us: int, send_us: int
    ) -> None:
        """A request was answered."""
        is_slow = 0 <= self._slow_us <= queue_us + local_us + send_us
        if not is_slow and not every_request.isEnabledFor(logging.DEBUG):
            return
        connection = slot.connection
        session = connection.session
        total_us = queue_us + local_us + remote_us + send_us
        (slow_requests.warning if is_slow else every_request.debug)(
            _LINE,
            *(api, version, session.client_id, connection.address, session.principal, session.listener),
            *(slot.request_bytes, total_us / 1000, queue_us / 1000, local_us / 1000, remote_us / 1000, send_us / 1000),
            connection.throttle_ms,
        )
