"""`python -m benchmarks share`: share groups beside Apache Kafka 4.3.1 (KRaft), and what a locked record costs.

librdkafka's ShareConsumer reads a topic of 100-byte records that is filled before: one consumer, and fifty in ten
processes. Acknowledged in batches: with the next poll, as a consumer does by itself. Acknowledged singly: each record
by itself, and the next one only when that is confirmed. Both brokers have their defaults and one replica. Rows are
records a second from the poll that brings the first one to the last one; take enough of them, as that poll may wait for
half a second. Memory is that of the state of a partition whose records are locked one by one, each by another member
than the one before, and in batches.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import tidelog_broker
from benchmarks.apache_kafka import PERFORMANCE_FLAGS
from benchmarks.maven import Jars
from benchmarks.processes import HOST, BrokerProcess, free_port
from benchmarks.progress import Progress
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client import Admin, ConfigChange, ConfigResource, NewTopic, Producer, ResourceType
from tidelog.sharing.partition import Ack, AckType, ReadBatch, ShareLimits, SharePartition

VERSION: Final = "4.3.1"
JARS: Final = Jars(
    f"kafka-{VERSION}",
    f"Kafka {VERSION}",
    (
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ),
    with_dependencies=True,
)
_CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
_HEAP: Final = ("-Xmx512m", "-Xms512m")
_PARTITIONS: Final = 4
_VALUE: Final = b"x" * 100
_IN_FLIGHT: Final = 2_000
_CONSUMERS: Final = """
import json, sys, threading, time
from confluent_kafka import ShareConsumer
servers, topic, group, threads, mode = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
found = []
def consume():
    settings = {"bootstrap.servers": servers, "group.id": group, "log_level": 0}
    if mode == "singly":
        settings["share.acknowledgement.mode"] = "explicit"
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    count, first, last, idle_since = 0, 0.0, 0.0, time.time() + 40
    while time.time() - idle_since < 4:
        began = time.time()
        for message in consumer.poll(timeout=0.5):
            if message.error() is not None:
                continue
            last = time.time()
            first = first or began
            count += 1
            if mode == "singly":
                consumer.acknowledge(message)
                consumer.commit_sync(30.0)
        idle_since = max(idle_since, last)
    consumer.close()
    found.append((count, first, last))
running = [threading.Thread(target=consume) for _ in range(threads)]
for each in running: each.start()
for each in running: each.join()
print(json.dumps(found))
"""


class KraftBroker(BrokerProcess):
    """One Kafka broker that is its own controller, with its defaults."""

    name = f"Apache Kafka {VERSION}"
    start_seconds_max = 240.0

    def command(self) -> list[str]:
        controller = free_port()
        config = self.directory / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
        config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        java = ["java", *_HEAP, *PERFORMANCE_FLAGS, "-cp", f"{JARS.libs}/*"]
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(config)],
            check=True,
            capture_output=True,
        )
        return [*java, "kafka.Kafka", str(config)]


class Case(NamedTuple):
    """One row."""

    consumers: int
    mode: str
    records: int

    @property
    def title(self) -> str:
        noun = "consumer" if self.consumers == 1 else "consumers"
        return f"{self.consumers} {noun}, acknowledged {self.mode}, {self.records:,} records"


def main(arguments: list[str]) -> int:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks share", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000, help="records that are acknowledged in batches")
    parser.add_argument("--singly", type=int, default=5_000, help="records that are acknowledged one by one")
    options = parser.parse_args(arguments)
    tidelog_broker.use_source_tree()
    cases = [
        Case(consumers, mode, records)
        for mode, records in (("in batches", options.records), ("singly", options.singly))
        for consumers in (1, 50)
    ]
    print(*memory(), "", *throughput(cases), sep="\n")
    return 0


def throughput(cases: list[Case]) -> Iterator[str]:
    """A row for each case; without Java there is one broker, and a line that says so."""
    reason = JARS.unavailable_reason()
    progress = Progress(len(cases) * (1 if reason else 2))
    with tempfile.TemporaryDirectory() as directory:
        ours = _rates(TidelogBroker(Path(directory, "tidelog")), cases, progress)
        theirs = {} if reason else _rates(KraftBroker(Path(directory, "kafka")), cases, progress)
    yield f"| 100-byte records a second | Tidelog | Apache Kafka {VERSION} | ratio |"
    yield "|---|---:|---:|---:|"
    for case in cases:
        rate, other = ours[case], theirs.get(case)
        columns = ("-", "-") if not other else (f"{other:,.0f}", f"{rate / other:.2f}")
        yield f"| {case.title} | {rate:,.0f} | {columns[0]} | {columns[1]} |"
    if reason:
        yield f"\nWithout Kafka: {reason}."


def _rates(broker: BrokerProcess, cases: list[Case], progress: Progress) -> Mapping[Case, float]:
    found = {}
    with broker:
        for number, case in enumerate(cases):
            topic, group = f"work-{number}", f"workers-{number}"
            _prepare(broker.bootstrap_servers, topic, group, case.records)
            found[case] = _rate(broker.bootstrap_servers, topic, group, case)
            progress.show(f"{broker.name}: {case.title}: {found[case]:,.0f}/s")
    return found


def _prepare(servers: str, topic: str, group: str, records: int) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])
        changes = [ConfigChange("share.auto.offset.reset", "earliest")]
        admin.incremental_alter_configs({ConfigResource(ResourceType.GROUP, group): changes})
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(records):
            producer.send(topic, _VALUE, partition=number % _PARTITIONS)


def _rate(servers: str, topic: str, group: str, case: Case) -> float:
    processes = 1 if case.consumers == 1 else 10
    mode = "singly" if case.mode == "singly" else "batches"
    command = [sys.executable, "-c", _CONSUMERS, servers, topic, group, str(case.consumers // processes), mode]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    seen = [entry for process in running for entry in json.loads(process.communicate()[0])]
    delivered = [entry for entry in seen if entry[0]]
    count = sum(entry[0] for entry in delivered)
    if count < case.records:
        raise RuntimeError(f"{case.title}: only {count:,} records came")
    return count / (max(entry[2] for entry in delivered) - min(entry[1] for entry in delivered))


def memory() -> Iterator[str]:
    """What the state of a partition takes for each record that is in flight."""
    yield f"| state of {_IN_FLIGHT:,} locked records | bytes a record |"
    yield "|---|---:|"
    for title, size in (("locked one by one by different members", 1), ("in batches of 10", 10), ("of 500", 500)):
        yield f"| {title} | {_bytes_per_record(size):,.1f} |"


def _bytes_per_record(size: int) -> float:
    limits = ShareLimits(records_in_flight_max=_IN_FLIGHT)
    members = [f"member-{number}" for number in range(2)]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        partition = SharePartition(0)
        for number, first in enumerate(range(0, _IN_FLIGHT, size)):
            batch = ReadBatch(first, first + size - 1)
            partition.acquire(members[number % 2], [batch], 1, limits, records_max=size, batch_records=size)
        # What is not accepted in the middle keeps the rest in flight.
        partition.acknowledge(members[0], [Ack(0, size - 1, [AckType.RENEW])], 1, limits)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / _IN_FLIGHT
