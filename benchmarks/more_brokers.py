"""More cores by more brokers: what one, two and three brokers of `tidelog cluster up` take together.

Topics have one replica, and each broker leads a partition of its own. A process for each of them keeps 16 requests of
one small record on their way, so that brokers and loads share the machine's cores as they would anywhere else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from benchmarks import frames, load
from benchmarks.admin import Admin, open_socket
from benchmarks.cases import ACKS_LEADER, SMALL_RECORD, Figures
from benchmarks.lab import Bench, reply_size
from tidelog.testing.cluster import Cluster

SIZES: Final = (1, 2, 3)
TOPIC: Final = "spread"
WINDOW: Final = 16
_REGISTRATION_SECONDS_MAX: Final = 60.0
_START_SECONDS: Final = 1.5
"""Time for the load processes to start: all begin at the same moment."""


def more_brokers(bench: Bench) -> Figures:
    """The rate of each size of cluster, and what two and three brokers make of that of one."""
    rates = {size: _rate(size, bench.seconds) for size in SIZES}
    figures = {f"rate_{size}": rate for size, rate in rates.items()}
    return {**figures, "two": rates[2] / rates[1], "three": rates[3] / rates[1]}


def _rate(size: int, seconds: float) -> float:
    """Requests per second of all brokers of one cluster together."""
    with Cluster(size, {"default.replication.factor": 1, "min.insync.replicas": 1}) as cluster:
        with Admin.connect(_address(cluster.address_of(cluster.controller_id()))) as admin:
            _wait_until_registered(admin, size)
            admin.create(TOPIC, size)
            leaders = admin.describe(TOPIC).leaders
        begins = time.time() + _START_SECONDS
        loads = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.more_brokers", json.dumps([*address, partition, begins, seconds])],
                stdout=subprocess.PIPE,
            )
            for partition, address in enumerate(_address(cluster.address_of(leader)) for leader in leaders)
        ]
        return sum(float(each.communicate(timeout=120)[0]) for each in loads)


def _wait_until_registered(admin: Admin, size: int) -> None:
    deadline = time.monotonic() + _REGISTRATION_SECONDS_MAX
    while not admin.serves(size):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{size} brokers were not registered within {_REGISTRATION_SECONDS_MAX:.0f} s")
        time.sleep(0.01)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _send(host: str, port: int, partition: int, begins: float, seconds: float) -> float:
    """Load one partition and return the requests per second."""
    frame = frames.produce(TOPIC, partition, frames.batch([SMALL_RECORD]), ACKS_LEADER)
    with open_socket((host, port)) as sock:
        reply_bytes = reply_size(sock, frame)
        load.in_flight(sock, frame, reply_bytes, WINDOW, max(begins - time.time(), 0.1))
        return load.in_flight(sock, frame, reply_bytes, WINDOW, seconds).requests_per_second


def _main(arguments: Sequence[str]) -> None:
    host, port, partition, begins, seconds = json.loads(arguments[0])
    print(_send(host, port, partition, begins, seconds))


if __name__ == "__main__":
    _main(sys.argv[1:])
