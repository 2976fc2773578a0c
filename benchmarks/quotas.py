"""`python -m benchmarks quotas`: the rate that each client reaches under a quota, beside the rate that was set.

All clients run at once, each under a client id with a quota of its own, first as producers, then as consumers. Then one
client uses up request time, one changes topics, and one connects from an address of its own. What is measured begins
when the ten seconds' worth that a client may spend at once are over. Beside what a client measures is what the
broker counted (`tidelog_quota_used_total`). A bystander without a quota sends one record at a time, before and during.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import frames, load, tidelog_broker
from benchmarks.admin import Admin, open_socket
from benchmarks.lab import reply_size
from benchmarks.processes import HOST, free_port
from benchmarks.quota_clients import (
    ADDRESS,
    CONSUMERS,
    FILLED,
    PRODUCERS,
    VALUE,
    Counter,
    Run,
    change_topics,
    connect_fast,
    use_time,
)
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client import Admin as OurAdmin
from tidelog.client import Producer
from tidelog.client.aio.admin.types import ClientQuotaEntity

CALM: Final = "calm"
PARTITIONS: Final = 4
BURST_SECONDS: Final = 10.0
_START_SECONDS_MAX, _BURST_SECONDS_MAX = 60.0, 20.0
"""So long clients may take to start, and to spend their bursts; on a busy machine the measurement then begins."""
_BYSTANDER: Final = frames.CLIENT_ID.decode()
PERCENT, CHANGES, CONNECTIONS = 5.0, 2.0, 5
_USED: Final = re.compile(
    r'^tidelog_quota_used_total\{quota="(\w+)",user="[^"]*",client_id="([^"]*)"\} (\S+)', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What clients reached in one measurement, by client: what they measured, and what the broker counted."""

    reached: Mapping[str, float]
    counted: Mapping[str, float]
    bystander_us: float


def main(arguments: list[str]) -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quotas", description=__doc__)
    parser.add_argument("--rate", type=int, default=100_000, help="bytes a second for each client (%(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="measured seconds (%(default)s)")
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    page = f"http://{HOST}:{free_port()}"
    settings = {"num.partitions": str(PARTITIONS), "auto.create.topics.enable": "false", "metrics.listeners": page}
    settings["group.initial.rebalance.delay.ms"] = "0"
    with tempfile.TemporaryDirectory() as directory, TidelogBroker(Path(directory), settings) as broker:
        with Admin.connect(broker.address) as admin:
            for name in (FILLED, CALM):
                admin.create(name, PARTITIONS)
        _fill(broker.bootstrap_servers, options.rate * (BURST_SECONDS + options.seconds + _BURST_SECONDS_MAX))
        before_us = _wait_us(broker.address, 3.0)
        quotas = Measuring(broker, f"{page}/metrics", options)
        made = quotas.of_bytes(PRODUCERS, "producer_byte_rate")
        read = quotas.of_bytes(CONSUMERS, "consumer_byte_rate")
        print("| client | produce | deviation | counted | fetch | deviation | counted |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        for name in PRODUCERS:
            cells = [
                f"{each.reached[name] / 1000:,.0f} kB/s | {each.reached[name] / options.rate - 1:+.1%} | "
                f"{each.counted[name] / options.rate - 1:+.1%}"
                for each in (made, read)
            ]
            print(f"| {name} | {' | '.join(cells)} |")
        print(
            f"\nset: {options.rate / 1000:,.0f} kB/s; a client counts values of {len(VALUE)} B, the broker requests\n"
        )
        print("| quota | set | reached | deviation | counted |\n|---|---:|---:|---:|---:|")
        for quota, (rate, reached, counted) in quotas.of_the_rest().items():
            shown = [f"{each:.2f} | {each / rate - 1:+.1%}" if each else "– | –" for each in (reached, counted)]
            print(f"| {quota} | {rate:g} | {shown[0]} | {shown[1].partition('| ')[2]} |")
        meanwhile_us = f"{made.bystander_us:.0f} µs beside producers, {read.bystander_us:.0f} µs beside consumers"
        print(f"\na bystander without a quota waited {before_us:.0f} µs (median) before, {meanwhile_us}")
    return 0


class Measuring:
    """Clients under quotas at one broker."""

    def __init__(self, broker: TidelogBroker, metrics_url: str, options: argparse.Namespace) -> None:
        self._broker = broker
        self._metrics_url = metrics_url
        self._options = options

    def of_bytes(self, clients: dict[str, Run], quota: str) -> Rates:
        """All clients at once, each under a quota of its own."""
        ids = {name: f"{quota}-{name}" for name in clients}
        rate, servers = self._options.rate, self._broker.bootstrap_servers
        self._set({ClientQuotaEntity(client_id=each): {quota: rate} for each in ids.values()})
        is_writing = clients is PRODUCERS
        counters = {
            name: Counter(_written_by(self._broker.address, each) if is_writing else None) for name, each in ids.items()
        }
        with _running({name: (clients[name], (servers, each, counters[name])) for name, each in ids.items()}, counters):
            self._await_bursts({(quota, each): rate * BURST_SECONDS for each in ids.values()})
            began, at_first, used = time.monotonic(), _totals(counters), self._used()
            wait_us = _wait_us(self._broker.address, self._options.seconds)
            seconds, at_last, used_at_last = time.monotonic() - began, _totals(counters), self._used()
        return Rates(
            {name: (at_last[name] - at_first[name]) / seconds for name in ids},
            {
                name: (used_at_last.get((quota, each), 0.0) - used.get((quota, each), 0.0)) / seconds
                for name, each in ids.items()
            },
            wait_us,
        )

    def of_the_rest(self) -> dict[str, tuple[float, float, float]]:
        """Request time, changes of topics and connections at once: what is set, reached, and counted by the broker."""
        limits = {"request_percentage": PERCENT, "controller_mutation_rate": CHANGES}
        self._set({ClientQuotaEntity(client_id=quota): {quota: rate} for quota, rate in limits.items()})
        self._set({ClientQuotaEntity(ip=ADDRESS): {"connection_creation_rate": CONNECTIONS}})
        runs: dict[str, Run] = {
            "request_percentage": use_time,
            "controller_mutation_rate": change_topics,
            "connection_creation_rate": connect_fast,
        }
        counters = {quota: Counter() for quota in runs}
        servers = self._broker.bootstrap_servers
        with _running({quota: (run, (servers, quota, counters[quota])) for quota, run in runs.items()}, counters):
            bursts = {(quota, quota): rate * (BURST_SECONDS + 1) for quota, rate in limits.items()}
            self._await_bursts(
                bursts, lambda: counters["connection_creation_rate"].total >= CONNECTIONS * BURST_SECONDS
            )
            began, at_first, used = time.monotonic(), _totals(counters), self._used()
            time.sleep(self._options.seconds / 2)
            seconds, at_last, used_at_last = time.monotonic() - began, _totals(counters), self._used()
        rates = {**limits, "connection_creation_rate": float(CONNECTIONS)}
        return {
            quota: (
                rate,
                (at_last[quota] - at_first[quota]) / seconds,
                (used_at_last.get((quota, quota), 0.0) - used.get((quota, quota), 0.0)) / seconds,
            )
            for quota, rate in rates.items()
        }

    def _set(self, quotas: Mapping[ClientQuotaEntity, Mapping[str, float | None]]) -> None:
        with OurAdmin(bootstrap_servers=self._broker.bootstrap_servers) as admin:
            admin.alter_client_quotas(quotas)

    def _used(self) -> dict[tuple[str, str], float]:
        """What the broker has counted, by quota and client id."""
        with urllib.request.urlopen(self._metrics_url, timeout=60) as answer:
            text = answer.read().decode()
        return {(quota, client_id): float(value) for quota, client_id, value in _USED.findall(text)}

    def _await_bursts(
        self, bursts: Mapping[tuple[str, str], float], is_over: Callable[[], bool] = lambda: True
    ) -> None:
        """Wait until each client has spent what it may spend at once."""
        began, deadline = False, time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            used = self._used()
            if not began and all(each in used for each in bursts):
                began, deadline = True, time.monotonic() + _BURST_SECONDS_MAX
            if all(used.get(each, 0.0) >= burst for each, burst in bursts.items()) and is_over():
                break
            time.sleep(0.2)
        time.sleep(2.0)


@contextlib.contextmanager
def _running(
    runs: Mapping[str, tuple[Run, tuple[str, str, Counter]]], counters: Mapping[str, Counter]
) -> Iterator[None]:
    """Clients in threads, until the block ends."""
    threads = [threading.Thread(target=run, args=arguments, daemon=True) for run, arguments in runs.values()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for counter in counters.values():
            counter.stop.set()
        for thread in threads:
            thread.join(10)


def _totals(counters: Mapping[str, Counter]) -> dict[str, int]:
    return {name: counter.total for name, counter in counters.items()}


def _written_by(address: tuple[str, int], topic: str) -> Callable[[], int]:
    """Makes the topic of a producer; returns what counts the bytes in it."""
    with Admin.connect(address) as admin:
        admin.create(topic, PARTITIONS)

    def count() -> int:
        with Admin.connect(address) as admin:
            return sum(admin.offsets(topic, range(PARTITIONS)).values()) * len(VALUE)

    return count


def _wait_us(address: tuple[str, int], seconds: float) -> float:
    with open_socket(address) as sock:
        frame = frames.produce(CALM, 0, frames.batch([b"calm"]), acks=1)
        return load.one_at_a_time(sock, [frame], reply_size(sock, frame), seconds).latency_us(50)


def _fill(servers: str, size_bytes: float) -> None:
    with Producer(bootstrap_servers=servers, client_id=_BYSTANDER) as producer:
        for number in range(int(size_bytes) // len(VALUE)):
            producer.send(FILLED, VALUE, partition=number % PARTITIONS)
        producer.flush()
