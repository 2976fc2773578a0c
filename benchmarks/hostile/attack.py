"""One broker under attack: requests are sent to it one by one, and a broker that stops serving is replaced.

Every wait has a deadline: for an answer, for the bystander, for a sign of life after a request that was not answered.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final, Self

from benchmarks.admin import Admin, AdminError
from benchmarks.hostile import report
from benchmarks.hostile.bystander import Bystander, BystanderSilentError
from benchmarks.hostile.contestants import Contestant
from benchmarks.hostile.measuring import STOPPED_SERVING, Outcome, measure
from benchmarks.hostile.preparing import prepare
from benchmarks.hostile.rendering import Target
from benchmarks.hostile.requests import HostileRequest
from benchmarks.processes import BrokerProcess, ProcessFailedError

CALM, VICTIM = "calm", "victim"
_BASELINE_SECONDS: Final = 5.0
_PROBES: Final = 8
"""Clients that look whether the broker still serves. Apache Kafka has three network threads, which take connections in
turns, and some requests occupy one of them for minutes: reading a list in which a name stands again and again takes
time with the square of its length there."""
_PROBE_SECONDS_MAX: Final = 3


class Attack:
    """Owns the broker, its topics and the bystander."""

    def __init__(self, contestant: Contestant, *, tries: int) -> None:
        """`tries` is how often a request that went beyond our limits is sent; the least counts."""
        self._contestant = contestant
        self._tries = tries
        self._running = contextlib.ExitStack()
        self._broker: BrokerProcess
        self._bystander: Bystander
        self._victim: Target
        self.baseline_ms = 0.0

    def __enter__(self) -> Self:
        self._start()
        self._bystander.begin()
        time.sleep(_BASELINE_SECONDS)
        self.baseline_ms = self._bystander.end().worst_ms
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def measure(self, request: HostileRequest) -> Outcome:
        """What the request did; the broker serves afterwards, or another one does."""
        best: Outcome | None = None
        for _ in range(self._tries):
            outcome = self._measure(request)
            if best is None or report.waited_ms(outcome) < report.waited_ms(best):
                best = outcome
            if report.is_within_bounds(outcome, self.baseline_ms):
                break
        assert best is not None, "it was tried"
        return best

    def _measure(self, request: HostileRequest) -> Outcome:
        seconds_max = self._contestant.answer_seconds_max
        frame = request.render(self._victim)
        try:
            outcome = measure(
                request, frame, self._broker.address, self._broker.child.pid, self._bystander, seconds_max
            )
            if outcome.failure is None and outcome.fate != "silent":
                return outcome
        except (BystanderSilentError, OSError, ProcessFailedError) as error:
            outcome = Outcome(request, len(frame), STOPPED_SERVING, 0, 0.0, 0.0, 0, str(error) or repr(error))
        if not self._is_serving():
            outcome = outcome._replace(fate=STOPPED_SERVING)
        if outcome.fate == STOPPED_SERVING:
            self._running.close()
            self._start()
        return outcome

    def _is_serving(self) -> bool:
        """Whether the broker answers clients that it does not know."""
        try:
            self._broker.child.check_alive()
            for _ in range(_PROBES):
                with Admin.connect(self._broker.address, _PROBE_SECONDS_MAX) as admin:
                    if not admin.serves():
                        return False
        except (OSError, AdminError, ProcessFailedError):
            return False
        return True

    def _start(self) -> None:
        contestant = self._contestant
        with contextlib.ExitStack() as starting:
            self._broker = starting.enter_context(contestant.start())
            with Admin.connect(self._broker.address) as admin:
                calm, self._victim = (Target(topic, admin.create(topic)) for topic in (CALM, VICTIM))
                prepare(self._broker.address, admin)
            pid = self._broker.child.pid if contestant.is_single_threaded else 0
            self._bystander = starting.enter_context(
                Bystander(self._broker.address, calm, pid, contestant.bystander_seconds_max)
            )
            self._running = starting.pop_all()
