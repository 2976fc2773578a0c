"""How many requests of each API and version a broker serves, how long they take, and where the time goes.

Every request is counted when it comes. One in 32 is timed, and all of an API's first ones, which is enough for
quantiles; its slot becomes a `TimedSlot`:

    queue    from the beginning of the turn of the loop until it is handled: other requests of the turn come first
    local    until its reply is there; for a request that waits in purgatory, until it begins to wait
    remote   the rest, for a request that waits: for followers, for records, for other members
    send     from when its reply is there until the replies of the turn were handed to the system

A request that is not timed pays for a call and an addition, and nothing at all in a broker without metrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from tidelog.broker.routes import request_name
from tidelog.metrics import Distribution
from tidelog.network.connection import Reply, Slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.broker.request_log import RequestLog
    from tidelog.broker.routes import Route

_TIMED_AT_FIRST: Final = 64
_TIMED_MASK: Final = 31


class ApiMetrics:
    """The figures of one API. Times are in microseconds."""

    __slots__ = ("counts", "local", "name", "queue", "remote", "request_bytes", "send", "throttle", "total")

    def __init__(self, name: str, version_max: int) -> None:
        self.name = name
        self.counts = [0] * (version_max + 1)
        """Requests of each version."""
        self.total = Distribution()
        self.queue = Distribution()
        self.local = Distribution()
        self.remote = Distribution()
        self.send = Distribution()
        self.throttle = Distribution()
        self.request_bytes = Distribution()

    @property
    def count(self) -> int:
        return sum(self.counts)


class RequestMeter:
    """Measures all requests of one broker."""

    def __init__(self) -> None:
        self._by_route: dict[Route, ApiMetrics] = {}
        self._turn_began_ns = 0
        self._answered: list[TimedSlot] = []
        self.log: RequestLog | None = None
        """Set while requests are logged; all of them are timed then."""
        self.turns = Distribution()
        """How long turns took in which a request was timed, in microseconds."""

    def apis(self) -> Iterator[ApiMetrics]:
        """Every API that was used."""
        return iter(list(self._by_route.values()))

    def count(self, slot: Slot, route: Route, version: int) -> None:
        """A request is handled next."""
        api = self._by_route.get(route)
        if api is None:
            name = request_name(route.api_key).removesuffix("Request")
            api = self._by_route[route] = ApiMetrics(name, route.max_version)
        counts = api.counts
        counts[version] = count = counts[version] + 1
        if count <= _TIMED_AT_FIRST or not count & _TIMED_MASK or self.log is not None:
            self._time(slot, api, version)

    def _time(self, slot: Slot, api: ApiMetrics, version: int) -> None:
        now_ns = perf_counter_ns()
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
        meter.log.write(slot, api.name, version, queue_us, local_us, remote_us, send_us)
    api.request_bytes.record(slot.request_bytes)
    throttle_ms = slot.connection.throttle_ms
    if throttle_ms:
        api.throttle.record(throttle_ms * 1000)
