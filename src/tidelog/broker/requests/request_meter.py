"""How many requests of each API and version a broker serves, how long they take, and where the time goes.

Every request is counted when it comes: each version of an API has a countdown until the next request that is timed, so
the requests that came are known without another number. While few come, all of them are timed; while many come, about
250 a second and at least one in 256, which is enough for quantiles. The slot of such a request becomes a `TimedSlot`:

    queue    from the beginning of the turn of the loop until it is handled: other requests of the turn come first
    local    until its reply is there; for a request that waits in purgatory, until it begins to wait
    remote   the rest, for a request that waits: for followers, for records, for other members
    send     from when its reply is there until the replies of the turn were handed to the system

A request that is not timed pays for a subtraction, and for nothing at all in a broker without metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from tidelog.broker.requests.routes import request_name
from tidelog.metrics import Distribution
from tidelog.network.connection import Slot
from tidelog.network.send_queue import Reply

if TYPE_CHECKING:
    from tidelog.broker.requests.routes import Route

_TIMED_EVERY_NS: Final = 4_000_000
"""About so often, requests of one version of an API are timed if more come."""
_INTERVAL_MAX: Final = 256


WriteLine = Callable[[Slot, str, int, int, int, int, int], None]
"""`(slot, api, version, queue, local, remote, send)`, times in microseconds: logs a request that was answered."""


class ApiMetrics:
    """The figures of one API. Times are in microseconds."""

    __slots__ = (
        "_intervals",
        "_timed_at_ns",
        "_until",
        "countdown",
        "local",
        "name",
        "queue",
        "remote",
        "request_bytes",
        "send",
        "throttle",
        "total",
    )

    def __init__(self, name: str, countdown: list[int]) -> None:
        self.name = name
        self.countdown = countdown
        """For each version, the requests until the next that is timed; the dispatcher counts down."""
        self._until = [1] * len(countdown)
        """How many requests have come when the countdown is at 0."""
        self._intervals = [1] * len(countdown)
        self._timed_at_ns = [0] * len(countdown)
        self.total = Distribution()
        self.queue = Distribution()
        self.local = Distribution()
        self.remote = Distribution()
        self.send = Distribution()
        self.throttle = Distribution()
        self.request_bytes = Distribution()

    @property
    def counts(self) -> list[int]:
        """The requests that came, of each version."""
        return [until - left for until, left in zip(self._until, self.countdown, strict=True)]

    @property
    def count(self) -> int:
        return sum(self.counts)

    def timed(self, version: int, now_ns: int, *, is_next_timed: bool) -> None:
        """A request is timed: set its countdown again."""
        elapsed_ns, self._timed_at_ns[version] = now_ns - self._timed_at_ns[version], now_ns
        interval = self._intervals[version]
        if is_next_timed:
            interval = 1
        elif elapsed_ns < _TIMED_EVERY_NS:
            interval = min(interval * 2, _INTERVAL_MAX)
        elif elapsed_ns > 2 * _TIMED_EVERY_NS:
            interval = max(interval * _TIMED_EVERY_NS // elapsed_ns, 1)
        self._intervals[version] = interval
        self._until[version] += interval
        self.countdown[version] = interval

    def time_next(self) -> None:
        """Time the next request of each version."""
        for version, left in enumerate(self.countdown):
            self._until[version] -= left - 1
            self.countdown[version] = 1


class RequestMeter:
    """Measures all requests of one broker."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._by_route: dict[Route, ApiMetrics] = {}
        # The first request of each version is timed, and makes the figures of its API.
        self.countdowns: Mapping[int, list[int]] = {
            int(route.api_key): [1] * (route.max_version + 1) for route in routes
        }
        self._turn_began_ns = 0
        self._answered: list[TimedSlot] = []
        self.log: WriteLine | None = None
        """Set while requests are logged; all of them are timed then."""
        self.turns = Distribution()
        """How long turns took in which a request was timed, in microseconds."""

    def set_log(self, log: WriteLine | None) -> None:
        """Log requests from now on, or no longer."""
        self.log = log
        if log is not None:
            for api in self._by_route.values():
                api.time_next()

    def apis(self) -> Iterator[ApiMetrics]:
        """Every API that was used."""
        return iter(list(self._by_route.values()))

    def time(self, slot: Slot, route: Route, version: int) -> None:
        """A request whose countdown is at 0 is handled next."""
        api = self._by_route.get(route)
        if api is None:
            name = request_name(route.api_key).removesuffix("Request")
            api = self._by_route[route] = ApiMetrics(name, self.countdowns[route.api_key])
        now_ns = perf_counter_ns()
        api.timed(version, now_ns, is_next_timed=self.log is not None)
        if not self._turn_began_ns:
            self._turn_began_ns = now_ns
            slot.connection.server.after_flush(self._end_turn)
        slot.__class__ = TimedSlot
        assert isinstance(slot, TimedSlot), "it has just become one"
        slot.metrics = self, api, version
        slot.times_ns = [self._turn_began_ns, now_ns, 0, 0]

    def answered(self, slot: TimedSlot) -> None:
        """The reply of a request is there, and leaves when this turn ends."""
        if not self._answered and not self._turn_began_ns:
            slot.connection.server.after_flush(self._end_turn)
        self._answered.append(slot)

    def _end_turn(self) -> None:
        """The replies of a turn have left."""
        now_ns = perf_counter_ns()
        if self._turn_began_ns:
            self.turns.record((now_ns - self._turn_began_ns) // 1000)
            self._turn_began_ns = 0
        answered, self._answered = self._answered, []
        for slot in answered:
            _record(slot, now_ns)


class TimedSlot(Slot):
    """The slot of a request that is timed. Its class is given to a slot that exists, so it has no fields of its own."""

    __slots__ = ()

    metrics: tuple[RequestMeter, ApiMetrics, int]
    """The last is the version of the request."""

    def fill(self, reply: Reply) -> None:
        times_ns = self.times_ns
        if not times_ns[3]:
            times_ns[3] = perf_counter_ns()
            self.metrics[0].answered(self)
        super().fill(reply)

    def park(self, abandon: Callable[[], object] | None = None) -> None:
        if not self.times_ns[2]:
            self.times_ns[2] = perf_counter_ns()
        if abandon is None:
            super().park()
        else:
            super().park(abandon)


def _record(slot: TimedSlot, now_ns: int) -> None:
    """Record where the time of a request went."""
    meter, api, version = slot.metrics
    began_ns, handled_ns, parked_ns, filled_ns = slot.times_ns
    waits_from_ns = parked_ns if 0 < parked_ns < filled_ns else filled_ns
    queue_us = (handled_ns - began_ns) // 1000
    local_us = (waits_from_ns - handled_ns) // 1000
    remote_us = (filled_ns - waits_from_ns) // 1000
    send_us = (now_ns - filled_ns) // 1000
    api.total.record((now_ns - began_ns) // 1000)
    api.queue.record(queue_us)
    api.local.record(local_us)
    api.remote.record(remote_us)
    api.send.record(send_us)
    if meter.log is not None:
        meter.log(slot, api.name, version, queue_us, local_us, remote_us, send_us)
    api.request_bytes.record(slot.request_bytes)
    throttle_ms = slot.connection.throttle_ms
    if throttle_ms:
        api.throttle.record(throttle_ms * 1000)
