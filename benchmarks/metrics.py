"""`python -m benchmarks metrics`: what `metrics.listeners` costs on the path of a record.

Two brokers, one with metrics, take single records one at a time, in many short turns, and the processor time of a
request is compared. What else runs on the machine only ever adds to it, so the figure is the ratio of the tenth
percentiles; the median over pairs of turns and its spread are printed beside it. On a loaded machine,
`chrt -r 1 python -m benchmarks metrics` keeps other processes from it.

With `--instructions` both run under Valgrind's Cachegrind instead, which counts instructions outside of the kernel: the
figure does not depend on what else the machine does. What a shorter run took is subtracted: it has the start in it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks import frames, load, tidelog_broker
from benchmarks.admin import Admin, open_socket
from benchmarks.cases import ACKS_ALL, SMALL_RECORD
from benchmarks.lab import reply_size
from benchmarks.processes import HOST, free_port
from benchmarks.tidelog_broker import TidelogBroker

TOPIC = "cost"
FEW, MANY = 500, 3_500
"""Requests of the two runs under Cachegrind."""


SERVE = """
import sys
from tidelog.__main__ import main
from tidelog.broker.metrics import event_loop
from tidelog.broker.requests import request_meter as requests
event_loop._BEAT_SECONDS = event_loop.STALL_SECONDS = 3600.0
requests._TIMED_EVERY_NS *= 50
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


def send(broker: TidelogBroker, requests: int) -> None:
    """Single records, one at a time."""
    with open_socket(broker.address) as sock:
        frame = frames.produce(TOPIC, 0, frames.batch([SMALL_RECORD]), ACKS_ALL)
        load.one_at_a_time(sock, [frame], reply_size(sock, frame), 3600.0, requests)


def processor_time(rounds: int, seconds: float) -> None:
    """Compare processor time a request."""
    frame = frames.produce(TOPIC, 0, frames.batch([SMALL_RECORD]), ACKS_ALL)
    times_us: tuple[list[float], list[float]] = [], []
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        brokers = [
            stack.enter_context(TidelogBroker(Path(directory) / str(on), {**QUIET, **settings_of(on)}))
            for on in (False, True)
        ]
        sockets = []
        for broker in brokers:
            with Admin.connect(broker.address) as admin:
                admin.create(TOPIC, 1)
            sockets.append(stack.enter_context(open_socket(broker.address)))
            reply_bytes = reply_size(sockets[-1], frame)
            load.one_at_a_time(sockets[-1], [frame], reply_bytes, 1.0)
        for number in range(rounds):
            for index in (0, 1) if number % 2 else (1, 0):
                before_ns = processor_ns(brokers[index])
                requests = load.one_at_a_time(sockets[index], [frame], reply_bytes, seconds).requests
                times_us[index].append((processor_ns(brokers[index]) - before_ns) / requests / 1e3)
    off, on = (statistics.quantiles(each, n=10)[0] for each in times_us)
    print(f"{off:.2f} µs a request without metrics, {on:.2f} with ({on - off:+.2f}): ratio {on / off:.4f}")
    low, median, high = statistics.quantiles([b / a for a, b in zip(*times_us, strict=True)], n=4)
    print(f"pairs of turns: median {median:.4f}, half of {rounds} between {low:.4f} and {high:.4f}")


def processor_ns(broker: TidelogBroker) -> int:
    """The processor time of all threads. The kernel's other figures have ticks of 10 ms: too coarse for short turns."""
    threads = Path(f"/proc/{broker.child.pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads)


def instructions() -> None:
    """Compare instructions a request."""
    a_request: list[float] = []
    with tempfile.TemporaryDirectory() as directory, TidelogBroker(Path(directory), settings_of(True)):
        pass  # the first start after a change compiles the sources, which must not be counted
    for has_metrics in (False, True):
        counts = []
        for requests in (FEW, MANY):
            with tempfile.TemporaryDirectory() as directory:
                broker = Counted(Path(directory), {**QUIET, **settings_of(has_metrics)})
                broker.start()
                with Admin.connect(broker.address) as admin:
                    admin.create(TOPIC, 1)
                send(broker, requests)
                broker.stop()
                counts.append(broker.instructions())
        a_request.append((counts[1] - counts[0]) / (MANY - FEW))
        print(f"{a_request[-1]:,.0f} instructions a request {'with' if has_metrics else 'without'} metrics", flush=True)
    print(f"ratio {a_request[1] / a_request[0]:.4f}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks metrics", description=__doc__)
    parser.add_argument("--instructions", action="store_true", help="count instructions with Valgrind")
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=0.05)
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    if not options.instructions:
        processor_time(options.rounds, options.seconds)
    elif shutil.which("valgrind") is None:
        parser.error("valgrind is not installed")
    else:
        instructions()
    return 0
