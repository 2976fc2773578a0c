"""A broker of ours in a cluster of Apache Kafka: it follows Kafka's leader, and Kafka follows ours, byte for byte."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tidelog.broker.server import Server
from tidelog.broker.surroundings import Surroundings
from tidelog.config import load_broker_config
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.testing._settings import broker_properties

KAFKA, OURS = 1, 2
SECONDS = 90
SETTINGS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "100",
    "log.segment.bytes": "20000",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[tuple[ZooKeeper, KafkaBroker]]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        broker = KafkaBroker(tmp_path / "kafka", zookeeper, {**SETTINGS, "broker.id": str(KAFKA)})
        broker.spawn()
        broker.wait_until_serves()
        yield zookeeper, broker
        broker.kill()


def ours(directory: Path, zookeeper: ZooKeeper) -> Server:
    """A broker that registers in the ZooKeeper of Kafka's cluster."""
    settings = {"broker.id": OURS, **{name: value for name, value in SETTINGS.items() if "zookeeper" not in name}}
    properties = broker_properties(settings, str(directory / "tidelog"), None)
    surroundings = dataclasses.replace(
        Surroundings.of_this_machine(),
        open_store=lambda *_: ZooKeeperStore(zookeeper.connect_string),
        is_clustered=True,
    )
    return Server(load_broker_config(properties), surroundings)


def create_topic(servers: str, name: str, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topic = NewTopic(name, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[name].result(60)


def produce(servers: str, topic: str, codec: str, count: int = 60) -> None:
    """Records that all replicas have acknowledged, idempotently, in batches of a few records."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": codec,
            "message.timeout.ms": SECONDS * 1000,
        }
    )
    for number in range(count):
        producer.produce(
            topic,
            b"%s %d %s" % (codec.encode(), number, b"x" * 300),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        if number % 10 == 0:
            assert producer.flush(SECONDS) == 0
    assert producer.flush(SECONDS) == 0
    assert not failures, failures


def transact(servers: str, topic: str) -> None:
    for is_commit in (True, False):
        producer = Producer({"bootstrap.servers": servers, "transactional.id": f"tx-{is_commit}"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for number in range(20):
            producer.produce(topic, b"in a transaction %d" % number)
        assert producer.flush(SECONDS) == 0
        if is_commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)


def segments(directory: Path, topic: str) -> dict[str, bytes]:
    """The files of a partition's log by name, without what is preallocated."""
    (found,) = [path for path in directory.rglob(f"{topic}-0") if path.is_dir()]
    return {path.name: path.read_bytes() for path in sorted(found.glob("*.log"))}


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_our_follower_has_kafkas_bytes_and_kafkas_follower_has_ours(
    kafka: tuple[ZooKeeper, KafkaBroker], tmp_path: Path
) -> None:
    zookeeper, broker = kafka

    async def main() -> None:
        server = ours(tmp_path, zookeeper)
        await server.start()
        in_thread = asyncio.to_thread
        try:
            await until(lambda: len(server.node.image.broker_ids()) == 2, "the controller knows both brokers")
            for topic, replicas in (("theirs", [KAFKA, OURS]), ("ours", [OURS, KAFKA])):
                await in_thread(create_topic, broker.bootstrap_servers, topic, replicas)
                for codec in ("none", "gzip", "lz4", "zstd"):
                    await in_thread(produce, broker.bootstrap_servers, topic, codec)
                await in_thread(transact, broker.bootstrap_servers, topic)
                log = server.node.replica_manager.partition(topic, 0).log
                kafkas = tmp_path / "kafka"
                await until(
                    lambda topic=topic, kafkas=kafkas: segments(kafkas, topic) == segments(tmp_path / "tidelog", topic),  # type: ignore[misc]
                    f"the logs of {topic} are equal",
                )
                assert len(segments(kafkas, topic)) > 1, "segments were rolled"
                await until(lambda log=log: log.high_watermark == log.log_end_offset, "all is committed")  # type: ignore[misc]
                assert log.log_end_offset > 240
        finally:
            await server.stop()

    asyncio.run(main())
