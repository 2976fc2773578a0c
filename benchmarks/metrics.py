"""`python -m benchmarks metrics`: what `metrics.listeners` costs on the path of a record.

Two brokers, one with metrics, take single records one at a time, in turns; the processor time of a request is compared.
With `--instructions` both run under Valgrind's Cachegrind instead, which counts instructions outside of the kernel: the
figure does not depend on what else the machine does. What a shorter run took is subtracted: it has the start in it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import tempfile
from pathlib import Path

from benchmarks import frames, load, tidelog_broker
from benchmarks.admin import Admin, open_socket
from benchmarks.cases import ACKS_ALL, SMALL_RECORD
from benchmarks.lab import reply_size
from benchmarks.processes import HOST, free_port
from benchmarks.tidelog_broker import TidelogBroker

TOPIC = "cost"
FEW, MANY = 1_000, 6_000
"""Requests of the two runs under Cachegrind."""


SERVE = """
import sys
from tidelog.__main__ import main
from tidelog.broker.metrics import event_loop
event_loop._BEAT_SECONDS = event_loop.STALL_SECONDS = 3600.0
sys.exit(main())
"""
"""Under Cachegrind a second has few requests: what is done so many times a second would count for too much."""


QUIET = {"log.cleaner.enable": "false", "log.initial.task.delay.ms": "3600000"}
"""Nothing begins on its own in the one run and not in the other."""


class Counted(TidelogBroker):
    """A broker under Cachegrind."""

    start_seconds_max = 600.0

    def command(self) -> list[str]:
        counts = str(self.directory / "counts")
        tool = ("valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={counts}")
        python, _, _, *words = super().command()
        return [*tool, python, "-c", SERVE, *words]

    def instructions(self) -> int:
        """What the process executed; it has ended."""
        found = re.search(r"^summary: (\d+)", (self.directory / "counts").read_text(), re.MULTILINE)
        assert found is not None, "Cachegrind writes a summary"
        return int(found[1])


def settings_of(has_metrics: bool) -> dict[str, str]:
    return {"metrics.listeners": f"http://{HOST}:{free_port()}"} if has_metrics else {}


def send(broker: TidelogBroker, seconds: float, requests_max: int | None = None) -> int:
    """Single records, one at a time; how many."""
    with open_socket(broker.address) as sock:
        frame = frames.produce(TOPIC, 0, frames.batch([SMALL_RECORD]), ACKS_ALL)
        reply_bytes = reply_size(sock, frame)
        return load.one_at_a_time(sock, [frame], reply_bytes, seconds, requests_max).requests


def processor_time(rounds: int, seconds: float) -> None:
    """Compare processor time a request."""
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        brokers = [TidelogBroker(Path(directory) / str(on), settings_of(on)) for on in (False, True)]
        try:
            for broker in brokers:
                broker.start()
                with Admin.connect(broker.address) as admin:
                    admin.create(TOPIC, 1)
                send(broker, seconds)
            for number in range(rounds):
                used = {}
                for broker in brokers if number % 2 else reversed(brokers):
                    before = broker.usage().cpu_seconds
                    requests = send(broker, seconds)
                    used[broker] = (broker.usage().cpu_seconds - before) / requests * 1e6
                off, on = (used[broker] for broker in brokers)
                ratios.append(on / off)
                print(f"{off:.1f} µs a request without metrics, {on:.1f} with: {on / off:.3f}")
        finally:
            for broker in brokers:
                if broker.is_spawned:
                    broker.stop()
    print(f"median {statistics.median(ratios):.3f} of {rounds} rounds")


def instructions() -> None:
    """Compare instructions a request."""
    a_request: list[float] = []
    for has_metrics in (False, True):
        counts = []
        for requests in (FEW, MANY):
            with tempfile.TemporaryDirectory() as directory:
                broker = Counted(Path(directory), {**QUIET, **settings_of(has_metrics)})
                broker.start()
                with Admin.connect(broker.address) as admin:
                    admin.create(TOPIC, 1)
                send(broker, 3600.0, requests)
                broker.stop()
                counts.append(broker.instructions())
        a_request.append((counts[1] - counts[0]) / (MANY - FEW))
        print(f"{a_request[-1]:,.0f} instructions a request {'with' if has_metrics else 'without'} metrics", flush=True)
    print(f"ratio {a_request[1] / a_request[0]:.4f}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks metrics", description=__doc__)
    parser.add_argument("--instructions", action="store_true", help="count instructions with Valgrind")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    if not options.instructions:
        processor_time(options.rounds, options.seconds)
    elif shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    else:
        instructions()
    return 0
