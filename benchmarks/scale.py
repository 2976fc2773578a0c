"""Cases about a broker's whole life and about numbers: start, memory, 10,000 partitions, 5,000 idle connections.

Each starts brokers of its own; `CASES` here joins the load cases of `cases` to the table that `method` runs.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from benchmarks import frames, load
from benchmarks.admin import Admin, AdminError
from benchmarks.cases import (
    ACKS_ALL,
    LOAD_CASES,
    SMALL_RECORD,
    Better,
    Case,
    Figure,
    Figures,
    at_least,
    batches,
    below,
    connections,
    fetches,
    single_records,
    times_kafka,
)
from benchmarks.frames import FetchLimits
from benchmarks.groups import GROUP_CASES
from benchmarks.lab import Bench, Topic, reply_size
from benchmarks.processes import BrokerProcess
from benchmarks.transactions import TRANSACTION_CASES

MB = 1e6
FIRST_RECORD_SECONDS_MAX = 300.0
FLAT = 0.8


def seconds_to_first_record(broker: BrokerProcess, topic: str) -> float:
    """Spawn the broker and try, as an impatient producer does, until one record is acknowledged by acks=all."""
    records = frames.batch([SMALL_RECORD])
    started = time.perf_counter()
    broker.spawn()
    while time.perf_counter() - started < FIRST_RECORD_SECONDS_MAX:
        try:
            with Admin.connect(broker.address) as admin:
                admin.wait_until_led(topic, auto_create=True)
                admin.produce(topic, 0, records)
                return time.perf_counter() - started
        except (OSError, AdminError):
            broker.child.check_alive()
            time.sleep(0.001)
    raise RuntimeError(f"{broker.name} acknowledged nothing within {FIRST_RECORD_SECONDS_MAX:.0f} s")


def start(bench: Bench) -> Figures:
    """From the command to the first acknowledged record of an auto-created topic, on an empty directory."""
    with bench.fresh_broker() as broker:
        return {"seconds": seconds_to_first_record(broker, "first")}


def memory(bench: Bench) -> Figures:
    """Resident memory a second after the first record, and after every kind of load."""
    with bench.fresh_broker() as broker:
        seconds_to_first_record(broker, "first")
        time.sleep(1.0)
        idle = broker.usage().resident_bytes
        own = bench.on(broker)
        kinds: tuple[Callable[[Bench], Figures], ...] = (
            single_records(ACKS_ALL),
            batches(1 << 20),
            fetches(1 << 20),
            connections(200, 1),
        )
        for kind in kinds:
            kind(own)
        return {"idle": idle / MB, "loaded": broker.usage().resident_bytes / MB}


def many_partitions(bench: Bench) -> Figures:
    """One topic of 10,000 partitions beside one of a single partition: does the number cost anything?"""
    count = 1_000 if bench.is_quick else 10_000
    with bench.fresh_broker() as broker:
        broker.start()
        own = bench.on(broker)
        with Admin.connect(broker.address) as admin:
            before = time.perf_counter()
            wide = Topic("wide", admin.create("wide", count), admin, count)
            created = time.perf_counter() - before
            narrow = Topic("narrow", admin.create("narrow"), admin)
            for partition in range(count):
                admin.produce("wide", partition, frames.batch([SMALL_RECORD]))
            admin.produce("narrow", 0, frames.batch([SMALL_RECORD]))
            produced = _rate_between(own, _produces(narrow, 1), _produces(wide, count))
            fetched = _rate_between(own, _fetches(narrow, 1), _fetches(wide, count))
            session = _session_fetch_milliseconds(own, wide, count)
        resident = broker.usage().resident_bytes
        broker.stop()
        restarted = seconds_to_first_record(broker, "wide")
    return {
        "create": created,
        "restart": restarted,
        "produce_rate": produced.rate,
        "produce": produced.ratio,
        "fetch_rate": fetched.rate,
        "fetch": fetched.ratio,
        "session": session,
        "memory": resident / MB,
    }


def _produces(topic: Topic, count: int) -> list[bytes]:
    records = frames.batch([SMALL_RECORD])
    return [frames.produce(topic.name, partition, records) for partition in _scattered(count)]


def _fetches(topic: Topic, count: int) -> list[bytes]:
    limits = FetchLimits(wait_ms_max=0, bytes_max=100)
    return [frames.fetch(topic.topic_id, [(partition, 0)], limits) for partition in _scattered(count)]


def _scattered(count: int) -> list[int]:
    """All partitions in an order in which neighbours are far apart: 7,919 is prime and divides no count used here."""
    return [number * 7_919 % count for number in range(count)]


def _rate_of(bench: Bench, requests: list[bytes]) -> float:
    """Requests per second, one at a time."""
    with bench.connections(1) as (sock,):
        reply_bytes = reply_size(sock, requests[0])
        sample, _ = bench.measure(lambda seconds: load.one_at_a_time(sock, requests, reply_bytes, seconds))
        return sample.requests_per_second


class Compared(NamedTuple):
    """A rate, and the same as a multiple of another."""

    rate: float
    ratio: float


def _rate_between(bench: Bench, base: list[bytes], other: list[bytes]) -> Compared:
    """How fast `other` goes, also as a multiple of `base`, which is measured before and after it."""
    before, middle, after = (_rate_of(bench, requests) for requests in (base, other, base))
    return Compared(middle, middle / statistics.mean((before, after)))


def _session_fetch_milliseconds(bench: Bench, topic: Topic, count: int) -> float:
    """What an empty incremental fetch costs a consumer of all partitions that has read everything."""
    ends = topic.admin.offsets(topic.name, range(count))
    limits = FetchLimits(wait_ms_max=0)
    opened = topic.admin.call(frames.fetch(topic.topic_id, sorted(ends.items()), limits, (0, 0)))
    _, error_code, session_id = opened.take("ihi")
    if error_code or not session_id:
        raise RuntimeError(f"no fetch session was opened: error {error_code}, session {session_id}")
    durations = []
    for epoch in range(1, 4 if bench.is_quick else 21):
        frame = frames.fetch(topic.topic_id, [], limits, (session_id, epoch))
        before = time.perf_counter()
        _, error_code, _ = topic.admin.call(frame).take("ihi")
        durations.append((time.perf_counter() - before) * 1000)
        if error_code:
            raise RuntimeError(f"an incremental fetch was refused with error {error_code}")
    return statistics.median(durations)


def idle_connections(bench: Bench) -> Figures:
    """Single records one at a time, alone and among 5,000 connections that have spoken once and say nothing."""
    count = 500 if bench.is_quick else 5_000
    with bench.topic() as topic:
        requests = [frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]))]
        alone = _rate_of(bench, requests)
        before = bench.broker.usage().resident_bytes
        with bench.connections(count) as idle:
            _speak_once(idle)
            grown = bench.broker.usage().resident_bytes - before
            among = _rate_of(bench, requests)
        alone_again = _rate_of(bench, requests)
    return {"rate": among, "flatness": among / statistics.mean((alone, alone_again)), "memory": grown / MB}


def _speak_once(socks: list[socket.socket]) -> None:
    frame = frames.metadata([])
    for sock in socks:
        reply_size(sock, frame)


FIXTURE_PROGRAM = """
import time
from tidelog.testing import Broker
with Broker():
    pass
times = []
for _ in range(5):
    before = time.perf_counter()
    with Broker() as broker:
        broker.bootstrap_servers
        times.append(time.perf_counter() - before)
print(sorted(times)[2])
"""


def fixture(bench: Bench) -> Figures:
    """The in-process broker of `tidelog.testing`, as a test suite that has imported it sees it."""
    done = subprocess.run(
        [sys.executable, "-c", FIXTURE_PROGRAM],
        cwd=bench.scratch,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return {"milliseconds": float(done.stdout) * 1000}


SCALE_CASES: Final = (
    Case(
        "start",
        start,
        (Figure("seconds", "start to first acknowledged record", "s", Better.LOWER, below(0.3)),),
    ),
    Case(
        "memory",
        memory,
        (
            Figure("idle", "resident memory, idle", "MB", Better.LOWER, below(60)),
            Figure("loaded", "resident memory, after load", "MB", Better.LOWER, below(150)),
        ),
        rounds_max=3,
    ),
    Case(
        "partitions-10000",
        many_partitions,
        (
            Figure("create", "10,000 partitions: create", "s", Better.LOWER, times_kafka(1)),
            Figure(
                "restart", "10,000 partitions: start to first acknowledged record", "s", Better.LOWER, times_kafka(1)
            ),
            Figure("produce_rate", "10,000 partitions: produce, one at a time", "requests/s", aim=times_kafka(1)),
            Figure("produce", "10,000 partitions: produce rate over that of one", "×", Better.HIGHER, at_least(FLAT)),
            Figure("fetch_rate", "10,000 partitions: fetch, one at a time", "requests/s", aim=times_kafka(1)),
            Figure("fetch", "10,000 partitions: fetch rate over that of one", "×", Better.HIGHER, at_least(FLAT)),
            Figure(
                "session",
                "10,000 partitions: one incremental fetch of all, nothing new",
                "ms",
                Better.LOWER,
                times_kafka(1),
            ),
            Figure("memory", "10,000 partitions: resident memory", "MB", Better.LOWER),
        ),
        rounds_max=3,
    ),
    Case(
        "idle-connections-5000",
        idle_connections,
        (
            Figure("rate", "one at a time among 5,000 idle connections", "requests/s", Better.HIGHER, times_kafka(3)),
            Figure("flatness", "5,000 idle connections: rate over that without", "×", Better.HIGHER, at_least(FLAT)),
            Figure("memory", "5,000 idle connections: resident memory grows by", "MB", Better.LOWER),
        ),
        rounds_max=3,
    ),
    Case(
        "fixture",
        fixture,
        (Figure("milliseconds", "in-process fixture, start to serving", "ms", Better.LOWER, below(50)),),
        is_tidelog_only=True,
    ),
)

CASES: Final = {case.name: case for case in (*LOAD_CASES, *TRANSACTION_CASES, *GROUP_CASES, *SCALE_CASES)}
