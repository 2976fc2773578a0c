"""How figures come about: both brokers in one run, in turn, round after round; ratios per round.

The speed of a machine (frequency, neighbours, where the scheduler puts two processes) changes from second to second, so
a round measures each case on both brokers in short turns (`turns`) and yields one ratio; the page gives the median of
these and their spread. Who goes first alternates. Each broker is warmed up by the load itself, longer in the first
round, in which the JVM compiles what the case needs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import frames, load
from benchmarks.admin import open_socket
from benchmarks.cases import SMALL_RECORD, Case, Figures
from benchmarks.lab import Bench
from benchmarks.processes import BrokerProcess
from benchmarks.profiling import watched
from benchmarks.progress import Progress
from benchmarks.sink import Sink
from benchmarks.turns import OwnTurn, Turns

BrokerFactory = Callable[[Path], BrokerProcess]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how often to measure."""

    rounds: int
    seconds: float
    first_warm_up_seconds: float
    warm_up_seconds: float
    is_quick: bool = False


FULL = Plan(rounds=5, seconds=3.0, first_warm_up_seconds=5.0, warm_up_seconds=1.0)
QUICK = Plan(rounds=2, seconds=0.5, first_warm_up_seconds=1.0, warm_up_seconds=0.2, is_quick=True)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One case on one broker in one round."""

    case: str
    broker: str
    round: int
    figures: Figures
    load_cpu_share: float
    broker_cpu_us_per_request: float
    load_cpu_us_per_request: float


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the load reaches against a server that only answers, and what a request costs the load there."""

    loop: str
    requests_per_second: float
    load_cpu_us_per_request: float


@dataclass(slots=True)
class Laboratory:
    """The brokers of a run: a factory per kind, and one long-lived broker of each for the load cases."""

    factories: Mapping[str, BrokerFactory]
    scratch: Path
    plan: Plan
    profile: Path | None = None
    failures: list[str] = field(default_factory=list)
    _brokers: dict[str, BrokerProcess] = field(default_factory=dict)
    _progress: Progress = field(default_factory=lambda: Progress(0))

    def run(self, cases: Sequence[Case]) -> list[Measurement]:
        """Every case on every broker, round after round."""
        due = [(case, number) for number in range(self.plan.rounds) for case in cases if number < case.rounds_max]
        self._progress = Progress(sum(len(self._names(case)) for case, _ in due))
        measurements = []
        for case, number in due:
            measurements += self._run_round(case, number)
        return measurements

    def _names(self, case: Case) -> list[str]:
        """The brokers that a case is measured on."""
        return [name for name in self.factories if name == "Tidelog" or not case.is_tidelog_only]

    def close(self) -> None:
        for broker in self._brokers.values():
            broker.kill()

    def _run_round(self, case: Case, number: int) -> list[Measurement]:
        names = self._names(case)
        if number % 2:
            names.reverse()
        turns = Turns(names)
        with ThreadPoolExecutor(len(names)) as threads:
            try:
                done = list(threads.map(lambda name: self._take_turns(case, name, number, turns), names))
            except BaseException:
                self.close()  # the cases of the threads end with their brokers
                raise
        return [each for each in done if each is not None]

    def _take_turns(self, case: Case, name: str, number: int, turns: Turns) -> Measurement | None:
        with OwnTurn(turns, name) as turn:
            measurement = self._measure(case, name, number, turn)
            outcome = "FAILED: " + self.failures[-1] if measurement is None else _figures_text(measurement)
            self._progress.show(f"round {number + 1}  {case.name:32} {name:13} {outcome}")
            return measurement

    def _measure(self, case: Case, name: str, number: int, turn: OwnTurn) -> Measurement | None:
        plan = self.plan
        warm_up = plan.warm_up_seconds if number else plan.first_warm_up_seconds
        bench = Bench(
            broker=self._broker(name),
            make_broker=self.factories[name],
            scratch=self.scratch,
            seconds=plan.seconds,
            warm_up_seconds=warm_up,
            fresh_warm_up_seconds=plan.first_warm_up_seconds,
            turn=turn,
            is_quick=plan.is_quick,
        )
        try:
            figures = self._profiled(case, name, bench)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.failures.append(f"{case.name} on {name}, round {number + 1}: {error}")
            self._discard(name)
            return None
        effort = bench.effort
        requests = max(1, effort.requests)
        total = effort.load_cpu_seconds + effort.broker_cpu_seconds
        return Measurement(
            case.name,
            name,
            number,
            figures,
            effort.load_cpu_seconds / total if total else 0.0,
            effort.broker_cpu_seconds / requests * 1e6,
            effort.load_cpu_seconds / requests * 1e6,
        )

    def _profiled(self, case: Case, name: str, bench: Bench) -> Figures:
        """Run the case; when a profile is asked for, with our broker watched."""
        if self.profile is None or name != "Tidelog":
            return case.run(bench)
        with watched(bench.broker.child.pid, bench.warm_up_seconds + bench.seconds, self.profile):
            return case.run(bench)

    def _broker(self, name: str) -> BrokerProcess:
        if name not in self._brokers:
            _say(f"starting {name}")
            self._brokers[name] = self.factories[name](
                self.scratch / f"{name.replace(' ', '-').lower()}-{len(self.failures)}"
            )
            self._brokers[name].start()
        return self._brokers[name]

    def _discard(self, name: str) -> None:
        """A broker that failed a case may be in any state: the next case gets a new one."""
        broker = self._brokers.pop(name, None)
        if broker is not None:
            broker.kill()


def calibrate(seconds: float) -> list[Ceiling]:
    """The load alone, against the sink, with frames of the sizes that the cases use."""
    small = frames.produce("bench-0", 0, frames.batch([SMALL_RECORD]))
    large = frames.produce("bench-0", 0, frames.batch_of_bytes(1 << 20, 1024))
    reply_bytes = 60
    ceilings = []

    def note(loop: str, sample: load.Sample) -> None:
        cost = sample.load_cpu_seconds / sample.requests * 1e6
        ceilings.append(Ceiling(loop, sample.requests_per_second, cost))
        _say(f"load alone  {loop:32} {sample.requests_per_second:12,.0f} requests/s {cost:8.1f} µs each")

    with Sink(len(small), reply_bytes) as sink:
        with open_socket(sink.address) as sock:
            note("one at a time", load.one_at_a_time(sock, [small], reply_bytes, seconds))
            note("16 in flight", load.in_flight(sock, small, reply_bytes, 16, seconds))
        socks = [open_socket(sink.address) for _ in range(200)]
        note("200 connections", load.many_connections(socks, [small] * 200, reply_bytes, seconds))
        for sock in socks:
            sock.close()
    with Sink(len(large), reply_bytes) as sink, open_socket(sink.address) as sock:
        note("1 MB batches", load.one_at_a_time(sock, [large], reply_bytes, seconds))
    fetch = frames.fetch(frames.NO_UUID, [(0, 0)], frames.FetchLimits())
    with Sink(len(fetch), 1 << 20) as sink, open_socket(sink.address) as sock:
        note("fetch 1 MB", load.fetch_in_turn(sock, [fetch], 1 << 20, seconds))
    return ceilings


def _figures_text(measurement: Measurement) -> str:
    figures = "  ".join(f"{key} {value:,.4g}" for key, value in measurement.figures.items())
    return f"{figures}  (load {measurement.load_cpu_share:.0%} of the CPU)"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
