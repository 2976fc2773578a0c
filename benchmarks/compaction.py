"""`python -m benchmarks.compaction`: how fast a log is compacted, and what a producer notices of it.

Each broker gets the same log of overwritten keys twice, and is kept from cleaning it at first. One is cleaned while
nothing else happens, which shows the speed. Beside the other a producer sends one small record at a time to another
topic, first before the cleaning and then during it. A change of the topic's settings starts a cleaning; it is over when
the broker's cleaner checkpoint says so.

    records   100 bytes and a key of 16, eight thousand to a batch, each key overwritten about twenty times
    GB/min    bytes of the segments that were cleaned, by the time from the change to the checkpoint

The producer keeps two processors busy, its own and the broker's. Our worker is nice to others, so on a machine of two
that second cleaning takes its time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from benchmarks import apache_kafka, frames, load, tidelog_broker
from benchmarks.admin import Admin, open_socket
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.lab import reply_size
from benchmarks.load import Sample
from benchmarks.processes import BrokerProcess
from benchmarks.tidelog_broker import TidelogBroker

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "500"}
SEGMENT_BYTES = 64 << 20
VALUE_BYTES = 100
RECORDS_PER_BATCH = 8000
DISTINCT_BATCHES = 32
OVERWRITES = 20
WARM_UP_BYTES = 192 << 20
SLICE_SECONDS = 0.1
SECONDS_MAX = 600.0
CHECKPOINT = "cleaner-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one broker did."""

    broker: str
    cleaned_bytes: int
    left_bytes: int
    seconds: float
    loaded_seconds: float
    quiet: Sample
    cleaning: Sample

    @property
    def gigabytes_per_minute(self) -> float:
        return self.cleaned_bytes / self.seconds * 60 / 1e9

    @property
    def loaded_gigabytes_per_minute(self) -> float:
        return self.cleaned_bytes / self.loaded_seconds * 60 / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compaction", description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the log (default 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each broker cleans such a log (default 3)")
    parser.add_argument("--no-kafka", action="store_true", help="measure Tidelog alone")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    options = parser.parse_args()
    tidelog_broker.use_source_tree()
    reason = "not asked for" if options.no_kafka else apache_kafka.unavailable_reason()
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.dir) as directory:
        figures = []
        with _brokers(Path(directory), with_kafka=reason is None) as brokers:
            for broker in brokers:
                _measure(broker, WARM_UP_BYTES, "warm-up")
            for number in range(options.rounds):
                for broker in brokers if number % 2 == 0 else reversed(brokers):
                    figures.append(_measure(broker, options.megabytes << 20, f"log-{number}"))
                    print(_line(figures[-1]), flush=True)
    print(_summary(figures))
    if reason is not None:
        print(f"Apache Kafka was not measured: {reason}")
    return 0


@contextlib.contextmanager
def _brokers(scratch: Path, *, with_kafka: bool) -> Iterator[list[BrokerProcess]]:
    with contextlib.ExitStack() as stack:
        brokers: list[BrokerProcess] = [TidelogBroker(scratch / "tidelog", SETTINGS)]
        if with_kafka:
            zookeeper = stack.enter_context(ZooKeeper(scratch / "zookeeper"))
            brokers.append(KafkaBroker(scratch / "kafka", zookeeper, SETTINGS))
        for broker in brokers:
            stack.enter_context(broker)
        yield brokers


def _measure(broker: BrokerProcess, size_bytes: int, name: str) -> Figures:
    """Clean one log alone and an equal one beside a producer."""
    alone, beside, small = f"{name}-alone", f"{name}-beside", f"{name}-small"
    cleaned_bytes, end_offset = _dirty_log(broker, alone, size_bytes)
    started = time.monotonic()
    _let_clean(broker, alone)
    while not _is_clean(broker, alone, end_offset, started):
        time.sleep(0.01)
    seconds = time.monotonic() - started
    left = sum(path.stat().st_size for path in (broker.log_dir / f"{alone}-0").glob("*.log"))

    _, end_offset = _dirty_log(broker, beside, size_bytes)
    with Admin.connect(broker.address) as admin:
        admin.create(small)
    request = frames.produce(small, 0, frames.batch([bytes(100)]))
    with open_socket(broker.address) as sock:
        reply_bytes = reply_size(sock, request)
        load.one_at_a_time(sock, [request], reply_bytes, 1.0)
        quiet = load.one_at_a_time(sock, [request], reply_bytes, 3.0)
        started = time.monotonic()
        _let_clean(broker, beside)
        cleaning = Sample()
        while not _is_clean(broker, beside, end_offset, started):
            part = load.one_at_a_time(sock, [request], reply_bytes, SLICE_SECONDS)
            cleaning.latencies_ns += part.latencies_ns
        loaded_seconds = time.monotonic() - started
    with Admin.connect(broker.address) as admin:
        for topic in (alone, beside, small):
            admin.delete(topic)
    return Figures(broker.name, cleaned_bytes, left, seconds, loaded_seconds, quiet, cleaning)


def _dirty_log(broker: BrokerProcess, topic: str, size_bytes: int) -> tuple[int, int]:
    """A topic that may be cleaned, but is not yet; how many bytes of it, and up to which offset."""
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.cleanable.dirty.ratio": "1.0",
    }
    with Admin.connect(broker.address) as admin:
        admin.create(topic, 1, settings)
    _fill(broker, topic, size_bytes)
    # The cleaner syncs what it writes, and would otherwise wait for all that was just produced to reach the disk.
    os.sync()
    segments = sorted((broker.log_dir / f"{topic}-0").glob("*.log"))
    return sum(path.stat().st_size for path in segments[:-1]), int(segments[-1].stem)


def _fill(broker: BrokerProcess, topic: str, size_bytes: int) -> None:
    """Produce batches in turn, eight on their way at a time."""
    batch_bytes = RECORDS_PER_BATCH * (VALUE_BYTES + 25)
    keys = max(size_bytes // (VALUE_BYTES + 25) // OVERWRITES, 1)
    source = random.Random(7)
    requests = [frames.produce(topic, 0, _batch(source, keys)) for _ in range(DISTINCT_BATCHES)]
    with open_socket(broker.address) as sock:
        reply_bytes = reply_size(sock, requests[0])
        count = size_bytes // batch_bytes
        for start in range(0, count, 8):
            burst = [requests[number % DISTINCT_BATCHES] for number in range(start, min(start + 8, count))]
            sock.sendall(b"".join(burst))
            missing = reply_bytes * len(burst)
            while missing:
                missing -= len(sock.recv(missing))


def _batch(source: random.Random, keys: int) -> bytes:
    """A batch of records with random keys and values that do not compress; frames has records without keys only."""
    value = source.randbytes(VALUE_BYTES)
    records = []
    for delta in range(RECORDS_PER_BATCH):
        key = b"key-%012d" % source.randrange(keys)
        body = b"\x00" + frames.varint(0) + frames.varint(delta) + frames.varint(len(key)) + key
        body += frames.varint(len(value)) + value + frames.varint(0)
        records.append(frames.varint(len(body)) + body)
    now_ms = int(time.time() * 1000)
    fields = struct.pack(">hiqqqhii", 0, len(records) - 1, now_ms, now_ms, -1, -1, -1, len(records))
    checked = fields + b"".join(records)
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked


def _let_clean(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    entry = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def _is_clean(broker: BrokerProcess, topic: str, end_offset: int, started: float) -> bool:
    if time.monotonic() - started > SECONDS_MAX:
        raise RuntimeError(f"{broker.name} has not cleaned {topic} within {SECONDS_MAX:.0f} s")
    try:
        lines = (broker.log_dir / CHECKPOINT).read_text().splitlines()
    except FileNotFoundError:
        return False
    return any(int(line.split()[2]) >= end_offset for line in lines if line.startswith(f"{topic} 0 "))


def _line(figures: Figures) -> str:
    return (
        f"{figures.broker:13} {figures.cleaned_bytes / 1e6:7.0f} MB to {figures.left_bytes / 1e6:5.0f} in "
        f"{figures.seconds:6.2f} s, {figures.gigabytes_per_minute:5.1f} GB/min; beside a producer "
        f"{figures.loaded_gigabytes_per_minute:5.1f} GB/min, produce µs p50/p99 "
        f"quiet {figures.quiet.latency_us(50):5.0f}/{figures.quiet.latency_us(99):6.0f}  "
        f"cleaning {figures.cleaning.latency_us(50):5.0f}/{figures.cleaning.latency_us(99):6.0f}"
    )


def _summary(figures: list[Figures]) -> str:
    """The median of each broker's rounds."""
    lines = [
        "",
        "| broker | GB/min alone | beside a producer | its p50 quiet → cleaning, µs | p99 quiet → cleaning, µs |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(each.broker for each in figures):
        rounds = [each for each in figures if each.broker == name]
        middle = sorted(rounds, key=lambda each: each.gigabytes_per_minute)[len(rounds) // 2]
        lines.append(
            f"| {name} | {middle.gigabytes_per_minute:.1f} | {middle.loaded_gigabytes_per_minute:.1f} "
            f"| {_change(middle, 50)} | {_change(middle, 99)} |"
        )
    return "\n".join(lines)


def _change(figures: Figures, percentile: float) -> str:
    return f"{figures.quiet.latency_us(percentile):.0f} → {figures.cleaning.latency_us(percentile):.0f}"


if __name__ == "__main__":
    sys.exit(main())
