"""What is measured, as a table: `CASES` maps a name to its function, its figures and what we aim at.

A case function takes a `Bench` and returns one number per figure. Sizes: a record is 100 bytes where requests are
counted, about 1 KB inside batches; acks=all unless the name says otherwise; no compression anywhere.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final

from benchmarks import frames, load
from benchmarks.frames import FetchLimits
from benchmarks.lab import Bench, Topic, reply_size

SMALL_RECORD = b"x" * 100
RECORD_BYTES = 1024
FETCH_BATCH_BYTES = 65_536
FETCH_LOG_BYTES = 64 << 20
Connect = Callable[[Bench], AbstractContextManager[socket.socket]]
"""Opens a connection to the broker of a bench."""
# Batches are written in slices for which memory is claimed beforehand; warm-up and measurement together stay below the
# amount of unwritten data at which Linux begins to write it back.
SLICE_BYTES = 256 << 20
SLICES_MAX = 4
ACKS_ALL, ACKS_LEADER = -1, 1
PRODUCE_NEWEST, FETCH_NEWEST = frames.VERSIONS[frames.PRODUCE], frames.VERSIONS[frames.FETCH]
OLDER_PRODUCES = {7: "aiokafka, kafkajs, sarama", 8: "kafka-python"}
OLDER_FETCHES = {4: "sarama's default", 11: "kafka-python, aiokafka, kafkajs"}

Figures = Mapping[str, float]


class Better(Enum):
    """Which way a figure improves."""

    HIGHER = "higher"
    LOWER = "lower"


class AimKind(Enum):
    """How an aim is held against a figure."""

    RATIO = "times Apache Kafka"
    BELOW = "below"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Aim:
    """One cell of the table of aims."""

    kind: AimKind
    value: float


def times_kafka(value: float) -> Aim:
    return Aim(AimKind.RATIO, value)


def below(value: float) -> Aim:
    return Aim(AimKind.BELOW, value)


def at_least(value: float) -> Aim:
    return Aim(AimKind.AT_LEAST, value)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a case yields per round."""

    key: str
    title: str
    unit: str
    better: Better = Better.HIGHER
    aim: Aim | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A function to run and the figures it returns. Slow ones set `rounds_max`."""

    name: str
    run: Callable[[Bench], Figures]
    figures: tuple[Figure, ...]
    rounds_max: int = 99
    is_tidelog_only: bool = False


def single_records(acks: int, version: int = PRODUCE_NEWEST) -> Callable[[Bench], Figures]:
    """One record a request, the next only after the answer."""

    def run(bench: Bench) -> Figures:
        with bench.topic() as topic, bench.connections(1) as (sock,):
            frame = frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]), acks, version)
            reply_bytes = reply_size(sock, frame)
            sample, sent = bench.measure(lambda seconds: load.one_at_a_time(sock, [frame], reply_bytes, seconds))
            topic.require_records(sent + 1)
        return {
            "rate": sample.requests_per_second,
            "p50": sample.latency_us(50),
            "p99": sample.latency_us(99),
            "p999": sample.latency_us(99.9),
        }

    return run


def pipelined_records(acks: int, window: int = 16) -> Callable[[Bench], Figures]:
    """One record a request, `window` requests on their way."""

    def run(bench: Bench) -> Figures:
        with bench.topic() as topic, bench.connections(1) as (sock,):
            frame = frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]), acks)
            reply_bytes = reply_size(sock, frame)
            sample, sent = bench.measure(lambda seconds: load.in_flight(sock, frame, reply_bytes, window, seconds))
            topic.require_records(sent + 1)
        return {"rate": sample.requests_per_second}

    return run


def batches(batch_bytes: int) -> Callable[[Bench], Figures]:
    """Batches of 1 KB records, one at a time; counts the bytes of the batches alone."""

    def run(bench: Bench) -> Figures:
        records = frames.batch_of_bytes(batch_bytes, RECORD_BYTES)
        record_count = batch_bytes // RECORD_BYTES
        with bench.topic() as topic, bench.connections(1) as (sock,):
            frame = frames.produce(topic.name, 0, records)
            reply_bytes = reply_size(sock, frame)
            slice_requests = SLICE_BYTES // batch_bytes

            def loop(seconds: float) -> load.Sample:
                sample = load.Sample()
                while sample.seconds < seconds and sample.requests < SLICES_MAX * slice_requests:
                    bench.claim_memory(SLICE_BYTES)
                    left = seconds - sample.seconds
                    sample.add(load.one_at_a_time(sock, [frame], reply_bytes, left, slice_requests))
                return sample

            sample, sent = bench.measure(loop, is_divisible=False)
            topic.require_records((sent + 1) * record_count)
        return {"throughput": sample.requests * len(records) / sample.seconds / 1e6}

    return run


def fetches(
    fetch_bytes: int,
    version: int = FETCH_NEWEST,
    connect: Connect | None = None,
    flags: int = socket.MSG_WAITALL,
) -> Callable[[Bench], Figures]:
    """Read a 64 MB log from the page cache in turns of `fetch_bytes`."""

    def run(bench: Bench) -> Figures:
        records = frames.batch_of_bytes(FETCH_BATCH_BYTES, RECORD_BYTES)
        per_batch = FETCH_BATCH_BYTES // RECORD_BYTES
        batch_count = FETCH_LOG_BYTES // FETCH_BATCH_BYTES
        with bench.topic() as topic, (connect or _plainly)(bench) as sock:
            for _ in range(batch_count):
                topic.admin.produce(topic.name, 0, records)
            limits = FetchLimits(bytes_max=fetch_bytes)
            step = fetch_bytes // FETCH_BATCH_BYTES
            requests = [_fetch(topic, number * per_batch, limits, version) for number in range(0, batch_count, step)]
            sample, _ = bench.measure(
                lambda seconds: load.fetch_in_turn(sock, requests, fetch_bytes + FETCH_BATCH_BYTES, seconds, flags)
            )
            # A broker that answered with errors would be fast: the records themselves must make up the bytes.
            if sample.payload_bytes < 0.98 * sample.requests * step * FETCH_BATCH_BYTES:
                raise RuntimeError(f"{sample.requests} fetches brought {sample.payload_bytes} bytes only")
        return {"throughput": sample.megabytes_per_second}

    return run


@contextmanager
def _plainly(bench: Bench) -> Iterator[socket.socket]:
    with bench.connections(1) as (sock,):
        yield sock


def _fetch(topic: Topic, offset: int, limits: FetchLimits, version: int) -> bytes:
    """A fetch of the topic's first partition."""
    if version < frames.FETCH_TOPIC_IDS_FROM:
        return frames.fetch_by_name(topic.name, 0, offset, limits, version)
    return frames.fetch(topic.topic_id, [(0, offset)], limits)


def fetching_connections(count: int, version: int = FETCH_NEWEST) -> Callable[[Bench], Figures]:
    """`count` consumers, each with one fetch of a small record on its way."""

    def run(bench: Bench) -> Figures:
        with bench.topic() as topic, bench.connections(count) as socks:
            records = frames.batch([SMALL_RECORD])
            for _ in range(count):
                topic.admin.produce(topic.name, 0, records)
            limits = FetchLimits(bytes_max=len(records))
            requests = [_fetch(topic, offset, limits, version) for offset in range(count)]
            sizes = {reply_size(sock, request) for sock, request in zip(socks, requests, strict=True)}
            (reply_bytes,) = sizes
            if reply_bytes < len(records):
                raise RuntimeError(f"a fetch brought {reply_bytes} bytes, less than the {len(records)} of its record")
            sample, _ = bench.measure(lambda seconds: load.many_connections(socks, requests, reply_bytes, seconds))
        return {"rate": sample.requests_per_second}

    return run


def connections(count: int, partitions: int, version: int = PRODUCE_NEWEST) -> Callable[[Bench], Figures]:
    """`count` producers, each with one record on its way."""

    def run(bench: Bench) -> Figures:
        with bench.topic(partitions) as topic, bench.connections(count) as socks:
            records = frames.batch([SMALL_RECORD])
            by_partition = [
                frames.produce(topic.name, partition, records, version=version) for partition in range(partitions)
            ]
            reply_bytes = reply_size(socks[0], by_partition[0])
            requests = [by_partition[number % partitions] for number in range(count)]
            sample, sent = bench.measure(lambda seconds: load.many_connections(socks, requests, reply_bytes, seconds))
            topic.require_records(sent + 1)
        return {"rate": sample.requests_per_second}

    return run


def end_to_end(bench: Bench) -> Figures:
    """A record's way from one connection through the broker to a waiting fetch on another."""
    with bench.topic() as topic, bench.connections(2) as (producing, consuming):
        frame = frames.produce(topic.name, 0, frames.batch([SMALL_RECORD]))
        limits = FetchLimits(wait_ms_max=10_000)
        offsets = itertools.count()
        waiting = (frames.fetch(topic.topic_id, [(0, offset)], limits) for offset in offsets)
        sample, _ = bench.measure(lambda seconds: load.end_to_end(producing, frame, consuming, waiting, seconds))
    return {"p50": sample.latency_us(50), "p99": sample.latency_us(99), "p999": sample.latency_us(99.9)}


def _latencies(title: str, p50: Aim | None = None, p99: Aim | None = None) -> tuple[Figure, ...]:
    return (
        Figure("p50", f"{title}, p50", "µs", Better.LOWER, p50),
        Figure("p99", f"{title}, p99", "µs", Better.LOWER, p99),
        Figure("p999", f"{title}, p99.9", "µs", Better.LOWER),
    )


def _rate(title: str, aim: Aim | None) -> tuple[Figure, ...]:
    return (Figure("rate", title, "requests/s", Better.HIGHER, aim),)


def _throughput(title: str, aim: Aim) -> tuple[Figure, ...]:
    return (Figure("throughput", title, "MB/s", Better.HIGHER, aim),)


LOAD_CASES: Final = (
    Case(
        "single",
        single_records(ACKS_ALL),
        (
            *_rate("single 100 B record, one at a time", times_kafka(3)),
            *_latencies("produce latency", times_kafka(2), times_kafka(2)),
        ),
    ),
    Case(
        "single-acks-1",
        single_records(ACKS_LEADER),
        (
            *_rate("single 100 B record, one at a time, acks=1", times_kafka(3)),
            *_latencies("produce latency, acks=1", times_kafka(2), times_kafka(2)),
        ),
    ),
    Case(
        "pipelined",
        pipelined_records(ACKS_ALL),
        _rate("single 100 B record, 16 in flight", times_kafka(3)),
    ),
    Case(
        "pipelined-acks-1",
        pipelined_records(ACKS_LEADER),
        _rate("single 100 B record, 16 in flight, acks=1", times_kafka(3)),
    ),
    Case("batch-10k", batches(10 << 10), _throughput("10 KB batches", times_kafka(2))),
    Case("batch-100k", batches(100 << 10), _throughput("100 KB batches", times_kafka(1.3))),
    Case("batch-1m", batches(1 << 20), _throughput("1 MB batches", times_kafka(1.2))),
    Case("fetch-64k", fetches(64 << 10), _throughput("fetch 64 KB", times_kafka(1.5))),
    Case("fetch-1m", fetches(1 << 20), _throughput("fetch 1 MB", times_kafka(1))),
    Case(
        "connections-200",
        connections(200, 1),
        _rate("200 connections, one in flight each, one partition", times_kafka(1)),
    ),
    Case(
        "connections-200-partitions-16",
        connections(200, 16),
        _rate("200 connections, one in flight each, 16 partitions", times_kafka(1)),
    ),
    *(
        Case(
            f"single-v{version}",
            single_records(ACKS_ALL, version),
            _rate(f"single 100 B record, one at a time, Produce {version} ({clients})", times_kafka(1)),
        )
        for version, clients in OLDER_PRODUCES.items()
    ),
    *(
        Case(
            f"connections-200-v{version}",
            connections(200, 1, version),
            _rate(f"200 connections, one in flight each, Produce {version}", times_kafka(1)),
        )
        for version in OLDER_PRODUCES
    ),
    *(
        Case(
            f"fetch-64k-v{version}",
            fetches(64 << 10, version),
            _throughput(f"fetch 64 KB, Fetch {version} ({clients})", times_kafka(1)),
        )
        for version, clients in OLDER_FETCHES.items()
    ),
    *(
        Case(
            f"fetches-200{suffix}",
            fetching_connections(200, version),
            _rate(f"200 connections fetch a small record each, Fetch {version}", times_kafka(1)),
        )
        for version, suffix in ((FETCH_NEWEST, ""), *((version, f"-v{version}") for version in OLDER_FETCHES))
    ),
    Case("end-to-end", end_to_end, _latencies("end-to-end latency", times_kafka(1))),
)
