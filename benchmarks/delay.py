"""`python -m benchmarks delay`: how punctual delayed records are, and what a million of them cost while they wait.

librdkafka produces and consumes; the consumer runs in a process of its own. Punctuality: records whose due times are
spread over one second, a few seconds ahead; the time between the due time and the arrival, in each round. Waiting: a
million records due tomorrow, the memory that they add to the broker; then some that are due soon, `kill -9` and a
start, its time, the memory after it, and how late those that are due then arrive.

`--write` puts the tables into docs/delay.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import tidelog_broker
from benchmarks.progress import Progress
from benchmarks.sections import put_between_marks
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client import Admin, NewTopic

PARTITIONS: Final = 4
MB: Final = 1_000_000
_PAGE: Final = Path(__file__).parents[1] / "docs" / "delay.md"
_AHEAD_S: Final = 5.0
"""Between the first produce and the first due time; 10,000 records are produced in far less."""
_DUE_AFTER_START: Final = 1000
_DAY_MS: Final = 86_400_000
_PART: Final = 100_000
_CONSUMER: Final = """
import json, sys, time
from confluent_kafka import Consumer, TopicPartition
servers, topic, partitions, expected = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
consumer = Consumer({
    "bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False, "reconnect.backoff.max.ms": 100,
})
consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
consumer.poll(0.1)
print("ready", flush=True)
late_ms, seen, deadline = [], set(), time.monotonic() + 120
while len(seen) < expected and time.monotonic() < deadline:
    message = consumer.poll(1.0)  # not consume(): that waits until it has many
    if message is not None and message.error() is None:
        arrived_ms = time.time() * 1000
        due_ms, number = json.loads(message.value())
        late_ms.append(arrived_ms - due_ms)
        seen.add(number)
print(json.dumps({"late_ms": late_ms, "distinct": len(seen)}))
consumer.close()
"""


def main(arguments: list[str]) -> int:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks delay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000, help="records due within one second (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of them (%(default)s)")
    parser.add_argument("--waiting", type=int, default=1_000_000, help="records that wait (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/delay.md")
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    with tempfile.TemporaryDirectory() as directory:
        lines = [*punctuality(Path(directory, "a"), options.records, options.rounds), ""]
        lines += waiting(Path(directory, "b"), options.waiting)
    print(*lines, sep="\n")
    if options.write:
        command = f"python -m benchmarks delay --records {options.records} --waiting {options.waiting}"
        head = f"`{command}`, {datetime.now(UTC):%Y-%m-%d}, librdkafka on both sides:"
        put_between_marks(_PAGE, "python -m benchmarks delay --write", [head, "", *lines])
    return 0


def punctuality(directory: Path, records: int, rounds: int) -> list[str]:
    """The lateness of records that are due within one second: a row for each percentile, over the rounds."""
    found: dict[str, list[float]] = {"p50": [], "p99": [], "latest": []}
    with TidelogBroker(directory) as broker:
        progress = Progress(rounds)
        for number in range(rounds):
            topic = new_topic(broker.bootstrap_servers, f"punctual-{number}")
            with consumer_of(broker.bootstrap_servers, topic, records) as consumer:
                first_ms = (time.time() + _AHEAD_S) * 1000
                produce(broker.bootstrap_servers, topic, [first_ms + 1000 * each / records for each in range(records)])
                late_ms = lateness(consumer, records)
            found["p50"].append(percentile(late_ms, 0.5))
            found["p99"].append(percentile(late_ms, 0.99))
            found["latest"].append(late_ms[-1])
            progress.show(f"{records:,} records due within a second")
    head = [f"| {records:,} records due within one second | median of {rounds} rounds | range |", "|---|---:|---:|"]
    return head + [
        f"| late, {name} | {statistics.median(values):,.1f} ms | {min(values):,.1f}–{max(values):,.1f} ms |"
        for name, values in found.items()
    ]


def waiting(directory: Path, count: int) -> list[str]:
    """What many waiting records cost: memory, the start after `kill -9`, the punctuality of those that are due then."""
    with TidelogBroker(directory) as broker:
        servers = broker.bootstrap_servers
        topic = new_topic(servers, "waiting")
        produce(servers, topic, [time.time() * 1000 + 1] * 1000)
        before = broker.usage().resident_bytes
        tomorrow_ms = time.time() * 1000 + _DAY_MS
        started = time.monotonic()
        progress = Progress(-(-count // _PART))
        for start in range(0, count, _PART):
            produce(servers, topic, [tomorrow_ms + each for each in range(start, min(start + _PART, count))])
            progress.show(f"{count:,} records that wait")
        seconds = time.monotonic() - started
        added = broker.usage().resident_bytes - before
        due = new_topic(servers, "due")
        first_ms = (time.time() + _AHEAD_S + 3) * 1000
        produce(servers, due, [first_ms + 1000 * each / _DUE_AFTER_START for each in range(_DUE_AFTER_START)])
        broker.kill()
        started = time.monotonic()
        broker.start()
        start_s = time.monotonic() - started
        resident = broker.usage().resident_bytes
        assert time.time() * 1000 < first_ms, "the start took so long that records were due before it"
        with consumer_of(servers, due, _DUE_AFTER_START) as consumer:
            late_ms = lateness(consumer, _DUE_AFTER_START)
        with Admin(bootstrap_servers=servers) as admin:
            still = sum(each.waiting for each in admin.list_delayed_records(topic, limit=1).values())
    assert still == count, f"{still:,} of {count:,} records wait after the start"
    return [
        f"| {count:,} records that wait | |",
        "|---|---:|",
        f"| memory that they add to the broker | {added / MB:,.0f} MB |",
        f"| produced in | {seconds:,.0f} s |",
        f"| start after `kill -9`, until the broker answers | {start_s:.2f} s |",
        f"| memory of the broker then, all of it | {resident / MB:,.0f} MB |",
        f"| {_DUE_AFTER_START:,} due within a second after that: late, p50 | {percentile(late_ms, 0.5):,.1f} ms |",
        f"| the same, p99 | {percentile(late_ms, 0.99):,.1f} ms |",
    ]


def new_topic(servers: str, name: str) -> str:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, configs={"tidelog.delay.enable": "true"})])
    return name


def produce(servers: str, topic: str, due_times_ms: list[float]) -> None:
    """One record for each due time, all acknowledged on return."""
    from confluent_kafka import KafkaError, Message, Producer

    errors: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    for number, due_ms in enumerate(due_times_ms):
        headers: dict[str, str | bytes | None] = {"tidelog-deliver-at": b"%d" % due_ms}
        value = json.dumps([int(due_ms), number])
        producer.produce(topic, value, headers=headers, partition=number % PARTITIONS, on_delivery=note)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    assert not errors, f"not acknowledged: {errors[0]}"
    assert left == 0, f"{left} records were not acknowledged in two minutes"


@contextmanager
def consumer_of(servers: str, topic: str, expected: int) -> Iterator[subprocess.Popen[str]]:
    """A consumer in a process of its own, that waits for records when the block begins."""
    command = [sys.executable, "-c", _CONSUMER, servers, topic, str(PARTITIONS), str(expected)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            assert process.stdout.readline() == "ready\n", "the consumer did not start"
            yield process
        finally:
            process.kill()


def lateness(consumer: subprocess.Popen[str], expected: int) -> list[float]:
    """How late each record arrived, sorted; every record must have arrived once and none early."""
    output, _ = consumer.communicate()
    found = json.loads(output)
    late_ms = sorted(found["late_ms"])
    assert found["distinct"] == len(late_ms) == expected, f"{found['distinct']} records of {expected} arrived"
    assert late_ms[0] >= 0, f"a record arrived {-late_ms[0]:.1f} ms early"
    return late_ms


def percentile(values: list[float], share: float) -> float:
    """Of sorted values."""
    return values[min(int(len(values) * share), len(values) - 1)]
