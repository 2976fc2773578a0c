"""A directory moves from Apache Kafka 3.9.1 to our broker, is used and restarted there, and moves back to Kafka.

Kafka writes every kind of topic: compacted, kept for ever by its own setting or by the broker's default, with records
thirty days old, of idempotent and transactional producers, with committed, aborted and open transactions and committed
groups. Our broker knows nothing but the directory, and runs with a retention of one second for new topics. At every
stop on the way the same records are served, and new producers are not taken for old ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks import frames
from benchmarks.admin import Admin
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess
from benchmarks.tidelog_broker import SOURCE, TidelogBroker
from tests.compat.kafka_tools.brokers import new_kafka
from tests.compat.kafka_tools.samples import CODECS, IDEMPOTENT, SEGMENTED, SMALL_SEGMENTS, write_samples
from tests.unit.present import present
from tidelog.client import Producer as OurProducer

pytestmark = [pytest.mark.java, pytest.mark.long]

MONTH_MS = 30 * 86_400_000
EVENTS, FOREVER, LATEST, PAYMENTS, HANGING = "events", "forever", "latest", "payments", "hanging"
TOPICS = (*(f"codec-{codec}" for codec in CODECS), SEGMENTED, IDEMPOTENT, EVENTS, FOREVER, LATEST, PAYMENTS, HANGING)
GROUPS = ("readers", "transactional-readers")
TOPIC_SETTINGS: Mapping[str, Mapping[str, str]] = {
    FOREVER: {"retention.ms": "-1", **SMALL_SEGMENTS},
    LATEST: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", **SMALL_SEGMENTS},
    EVENTS: {**SMALL_SEGMENTS},
}
KAFKA_SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "log.retention.hours": "-1",
    "log.cleaner.backoff.ms": "50",
}
OUR_SETTINGS = {
    "log.retention.ms": "1000",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
}
WAIT_SECONDS = 60.0

Record = tuple[int, bytes | None, bytes | None, int]


class Observed(NamedTuple):
    """What clients see: records by topic for both isolation levels, log starts, and the offsets of groups."""

    records: dict[str, list[Record]]
    committed: dict[str, list[Record]]
    starts: dict[str, int]
    offsets: dict[str, dict[str, int]]


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_directory_moves_here_and_back_and_loses_nothing(zookeeper: ZooKeeper, tmp_path: Path, end: str) -> None:
    home = tmp_path / f"kafka-{end}"
    home.mkdir()
    kafka = new_kafka(zookeeper, home, KAFKA_SETTINGS)
    kafka.start()
    try:
        open_transaction = write_everything(kafka)
        wait_until(lambda: has_been_compacted(kafka), "Kafka has compacted a topic")
        seen = observe(kafka)
        check_settings_are_read_from_brokers(kafka, tmp_path / "names")
    finally:
        kafka.stop() if end == "stopped" else kafka.kill()
    del open_transaction
    check_settings_are_read_from_zookeeper(kafka, zookeeper, home, tmp_path / "copy")

    ours = TidelogBroker(tmp_path / "tidelog", {**OUR_SETTINGS, "log.dirs": str(kafka.log_dir)})
    with ours:
        assert observe(ours) == seen
        check_new_producers_are_new(ours)
        wait_for_retention(ours)
        check_contains(observe(ours), seen)
        go_on_with_transactions(ours)
        seen = observe(ours)
    with ours:
        wait_for_retention(ours)
        assert observe(ours) == seen
        check_new_producers_are_new(ours)
        end_the_open_transaction(ours)
        seen = observe(ours)
    assert len(seen.committed[HANGING]) == 0
    for topic in (PAYMENTS, EVENTS):
        assert seen.records[topic]

    with kafka:
        assert observe(kafka) == seen
        check_new_producers_are_new(kafka)
        go_on_with_transactions(kafka)
        check_contains(observe(kafka), seen)


# --- writing ---


def write_everything(kafka: KafkaBroker) -> Producer:
    """Fill Kafka; the producer whose transaction is left open, which must live as long as Kafka does."""
    write_samples(kafka)
    with Admin.connect(kafka.address) as admin:
        for topic in (EVENTS, FOREVER, LATEST, PAYMENTS, HANGING):
            admin.create(topic, 1, dict(TOPIC_SETTINGS.get(topic, {})))
    long_ago = int(time.time() * 1000) - MONTH_MS
    for number in range(3):
        send(kafka, EVENTS, [(f"{number}", f"event {index} {'.' * 900}") for index in range(20)], long_ago)
    send(kafka, FOREVER, [(f"{index}", f"forever {'.' * 900}") for index in range(40)], long_ago)
    for version in range(6):
        send(kafka, LATEST, [(f"{index}", f"version {version} {'.' * 900}") for index in range(10)], long_ago)
    commit(kafka, "readers", EVENTS, 17)
    go_on_with_transactions(kafka)
    hanging = transactional(kafka, HANGING)
    hanging.begin_transaction()
    hanging.produce(HANGING, b"neither committed nor aborted", partition=0)
    assert hanging.flush(30) == 0
    return hanging


def send(broker: BrokerProcess, topic: str, records: list[tuple[str, str]], timestamp_ms: int) -> None:
    """Send records through an idempotent producer of their own."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "batch.num.messages": 5,
            "on_delivery": delivered,
        }
    )
    for key, value in records:
        producer.produce(topic, value, key, partition=0, timestamp=timestamp_ms)
    assert producer.flush(30) == 0
    assert not refused


def transactional(broker: BrokerProcess, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 900_000,
        }
    )
    producer.init_transactions(30)
    return producer


def go_on_with_transactions(broker: BrokerProcess) -> None:
    """A committed transaction with offsets, then an aborted one, always of the same transactional id."""
    producer = transactional(broker, PAYMENTS)
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "transactional-readers"})
    for is_committed in (True, False):
        producer.begin_transaction()
        producer.produce(PAYMENTS, f"committed: {is_committed}".encode(), partition=0)
        position = TopicPartition(EVENTS, 0, 33 if is_committed else 44)
        send_offsets(producer, position, reader)
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if is_committed else producer.abort_transaction(30)
    reader.close()


def send_offsets(producer: Producer, position: TopicPartition, reader: Consumer) -> None:
    """Kafka answers the end of a transaction before its markers are written, and refuses the next one until then."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            producer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), 30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.CONCURRENT_TRANSACTIONS or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def commit(broker: BrokerProcess, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def end_the_open_transaction(broker: BrokerProcess) -> None:
    """The next producer of its transactional id aborts it."""
    transactional(broker, HANGING)


# --- reading ---


def observe(broker: BrokerProcess) -> Observed:
    with Admin.connect(broker.address) as admin:
        for topic in TOPICS:
            admin.wait_until_led(topic)
        starts = {topic: admin.offsets(topic, timestamp=frames.EARLIEST)[0] for topic in TOPICS}
    return Observed(
        read_to_the_end(broker, "read_uncommitted"),
        read_to_the_end(broker, "read_committed"),
        starts,
        {group: committed_offsets(broker, group) for group in GROUPS},
    )


def read_to_the_end(broker: BrokerProcess, isolation_level: str) -> dict[str, list[Record]]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in TOPICS])
    found: dict[str, list[Record]] = {topic: [] for topic in TOPICS}
    unfinished = set(TOPICS)
    deadline = time.monotonic() + WAIT_SECONDS
    while unfinished:
        assert time.monotonic() < deadline, f"{unfinished} were not read to their end"
        message = consumer.poll(0.5)
        if message is None:
            continue
        topic, error = present(message.topic()), message.error()
        if error is None:
            record = (present(message.offset()), message.key(), message.value(), message.timestamp()[1])
            found[topic].append(record)
        elif error.code() == KafkaError._PARTITION_EOF:
            unfinished.discard(topic)
    consumer.close()
    return found


def committed_offsets(broker: BrokerProcess, group: str) -> dict[str, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0) for topic in (EVENTS, FOREVER)], 30)
    consumer.close()
    return {each.topic: each.offset for each in found}


def check_contains(now: Observed, before: Observed) -> None:
    """Everything that was there is there, with nothing changed; more may follow."""
    assert now.starts == before.starts
    assert now.offsets == before.offsets
    for topic in TOPICS:
        assert now.records[topic][: len(before.records[topic])] == before.records[topic], topic
        assert now.committed[topic][: len(before.committed[topic])] == before.committed[topic], topic


def check_new_producers_are_new(broker: BrokerProcess) -> None:
    """The first batch of every new idempotent producer is appended, with any client."""
    before = read_to_the_end(broker, "read_uncommitted")[EVENTS]
    sent = [f"from confluent {number}" for number in range(8)]
    for value in sent:
        send(broker, EVENTS, [("new", value)], int(time.time() * 1000))
    for number in range(3):
        with OurProducer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}) as producer:
            sent.append(f"from tidelog {number}")
            producer.send(EVENTS, value=sent[-1].encode(), partition=0).result(30)
    after = read_to_the_end(broker, "read_uncommitted")[EVENTS]
    assert after[: len(before)] == before
    assert [value for _, _, value, _ in after[len(before) :]] == [value.encode() for value in sent]


def wait_for_retention(broker: BrokerProcess) -> None:
    """Return when the retention check has deleted the records of a topic that has the broker's default."""
    with Admin.connect(broker.address) as admin:
        admin.create("short-lived")
        admin.wait_until_led("short-lived")
        send(broker, "short-lived", [("key", "value")], int(time.time() * 1000) - MONTH_MS)
        wait_until(
            lambda: admin.offsets("short-lived", timestamp=frames.EARLIEST)[0] == 1, "retention has deleted a record"
        )
        admin.delete("short-lived")


# --- settings ---


def check_settings_are_read_from_brokers(kafka: KafkaBroker, names: Path) -> None:
    """While Kafka is up: its overrides, and the default that its server.properties has."""
    for path in kafka.log_dir.iterdir():
        if path.is_dir():
            (names / path.name).mkdir(parents=True)
    shutil.copy(kafka.log_dir / "meta.properties", names)
    check_adopted(adopt(names, "--bootstrap-server", kafka.bootstrap_servers))


def check_settings_are_read_from_zookeeper(kafka: KafkaBroker, zookeeper: ZooKeeper, home: Path, copy: Path) -> None:
    shutil.copytree(kafka.log_dir, copy)
    address = f"{zookeeper.connect_string}/{home.name}"
    check_adopted(adopt(copy, "--zookeeper", address, "--config", str(home / "server.properties")))
    without_defaults = {one["topic"]: one for one in adopt(copy, "--zookeeper", address)}
    assert without_defaults[LATEST]["overrides"]["cleanup.policy"] == "compact"


def check_adopted(adopted: list[dict[str, Any]]) -> None:
    found = {str(one["topic"]): one for one in adopted}
    assert set(TOPICS) <= found.keys()
    for topic in TOPICS:
        assert found[topic]["is_known"], topic
        assert found[topic]["overrides"] == {"retention.ms": "-1", **TOPIC_SETTINGS.get(topic, {})} | (
            dict(SMALL_SEGMENTS) if topic == SEGMENTED else {}
        )


def adopt(directory: Path, *words: str) -> list[dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "tidelog", "adopt", str(directory), *words, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def has_been_compacted(kafka: KafkaBroker) -> bool:
    checkpoint = kafka.log_dir / "cleaner-offset-checkpoint"
    return checkpoint.exists() and f"{LATEST} 0 " in checkpoint.read_text()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s and still not: {what}"
        time.sleep(0.05)
