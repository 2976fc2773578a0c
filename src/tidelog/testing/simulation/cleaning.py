"""Log compaction inside simulated brokers.

The cleaner of the broker is the real one; its worker runs the real jobs on the loop of its broker instead of in a
process, one group of segments at a time, with virtual time in between. So a broker dies, loses its directory or
truncates a log in the middle of a cleaning. Now and then the worker dies by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from tidelog.broker import delayed_delivery
from tidelog.replication import delayed
from tidelog.storage.cleaner.jobs import CleanJob, Event, JobDone, JobFailed
from tidelog.storage.cleaner.worker import do
from tidelog.storage.waiting import index
from tidelog.testing.simulation.loop import SimulatedLoop
from tidelog.testing.simulation.replacing import replaced

_GROUP_SECONDS_MAX: Final = 0.2
_DEATHS: Final = 0.03

COMPACTING_BROKER: Final = {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "300"}
COMPACTING_COORDINATORS: Final = {
    "offsets.topic.segment.bytes": "2000",
    "transaction.state.log.segment.bytes": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "100",
}
COMPACTED_TOPIC: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1500",
}


class SimulatedWorker:
    """A worker of the cleaner, in the time of its broker."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._events: Iterator[Event] | None = None

    def begin(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        assert self._events is None, "a worker does one job at a time"
        self._events = events = do(job, lambda: True, lambda _progress: None)
        self._go_on(events, on_event, on_lost)

    def _go_on(
        self, events: Iterator[Event], on_event: Callable[[Event], None], on_lost: Callable[[str], None]
    ) -> None:
        seconds = self._loop.world.between(0.001, _GROUP_SECONDS_MAX)
        self._loop.call_later(seconds, self._step, events, on_event, on_lost)

    def _step(self, events: Iterator[Event], on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        if self._events is not events:
            return
        if self._loop.world.random.random() < _DEATHS:
            self._events = None
            on_lost("the simulated worker died")
            return
        event = next(events)
        is_last = isinstance(event, JobDone | JobFailed)
        if is_last:
            self._events = None
        on_event(event)
        if not is_last:
            self._go_on(events, on_event, on_lost)

    def abandon(self, on_gone: Callable[[], None]) -> None:
        self._events = None
        self._loop.call_soon(on_gone)

    def close(self) -> None:
        self._events = None

    async def wait_closed(self) -> None:
        """Nothing runs beside the loop."""


@contextmanager
def soon_settled() -> Iterator[None]:
    """Let brokers look after delayed records more often, and settle small logs: a simulation is short."""
    shift = 2
    with ExitStack() as changes:
        for owner, name, value in (
            (delayed_delivery, "_HOUSEKEEPING_MS", 700),
            (index, "_LOCATIONS_SHIFT", shift),
            (index, "LOCATION_STEP", 1 << shift),
            (delayed, "LOCATION_STEP", 1 << shift),
        ):
            changes.enter_context(replaced(owner, name, value))
        yield
