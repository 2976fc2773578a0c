"""A data directory that Apache Kafka 3.9.1 wrote opens in our broker: nothing is converted, nothing is lost.

Kafka writes every codec, several segments, an idempotent producer's batches, committed and aborted transactions and a
moved log start; once it is stopped in order and once it is killed, with half a batch at the end of a segment besides.
Our broker knows nothing but the directory: its metadata tree is empty.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks import frames
from benchmarks.admin import Admin, AdminError
from benchmarks.apache_kafka import ZooKeeper
from benchmarks.processes import BrokerProcess
from tests.compat.kafka_tools.brokers import OpenDirectory, new_kafka
from tests.compat.kafka_tools.samples import (
    FIRST_TIMESTAMP_MS,
    IDEMPOTENT,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SEGMENTED,
    SMALL_BATCHES,
    Sent,
    WrittenLog,
    add_idempotent_batch,
    long_records,
    produce,
    read_all,
    write_samples,
)
from tests.effort import usually

pytestmark = pytest.mark.java

TRANSACTIONAL = "transactional"
TRIMMED = "codec-none"
TRIMMED_TO = 15
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
KAFKA_SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}


@dataclass(slots=True)
class KafkaDirectory:
    """A copy of what Kafka wrote, and the broker of ours that serves it."""

    written: WrittenLog
    cluster_id: str
    committed: list[Sent]
    broker: BrokerProcess = field(init=False)


@dataclass(slots=True)
class KafkaLife:
    """A Kafka broker that was stopped, and what it wrote."""

    broker: BrokerProcess
    written: WrittenLog
    committed: list[Sent]


@pytest.fixture(scope="module")
def life(zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> KafkaLife:
    """Up to a stop in order."""
    with new_kafka(zookeeper, tmp_path_factory.mktemp("kafka"), KAFKA_SETTINGS) as broker:
        written = write_samples(broker)
        committed = write_transactions(broker, written)
        trim(broker)
    return KafkaLife(broker, written, committed)


@pytest.fixture(scope="module")
def clean(life: KafkaLife, tmp_path_factory: pytest.TempPathFactory) -> KafkaDirectory:
    """Left behind in order."""
    return life_copied(life, tmp_path_factory.mktemp("left") / "clean")


@pytest.fixture(scope="module")
def unclean(life: KafkaLife, clean: KafkaDirectory, tmp_path_factory: pytest.TempPathFactory) -> KafkaDirectory:
    """Started again, written, killed; the clean copy was made before."""
    life.broker.start()
    produce(life.broker, life.written, SEGMENTED, long_records(120, 20), SMALL_BATCHES)
    with Admin.connect(life.broker.address) as admin:
        add_idempotent_batch(admin, life.written, sequence=9)
    life.broker.kill()
    directory = life_copied(life, tmp_path_factory.mktemp("left") / "unclean")
    tear_tail(directory.written)
    return directory


@pytest.fixture(scope="module", params=usually(["clean"], ["clean", "unclean"]))
def opened(
    request: pytest.FixtureRequest, open_directory: OpenDirectory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaDirectory]:
    """Our broker on a copied directory."""
    directory: KafkaDirectory = request.getfixturevalue(request.param)
    with open_directory(directory.written, tmp_path_factory.mktemp(request.param)) as broker:
        directory.broker = broker
        yield directory


def test_topics_keep_their_ids(opened: KafkaDirectory) -> None:
    with Admin.connect(opened.broker.address) as admin:
        assert {topic: admin.wait_until_led(topic) for topic in opened.written.topic_ids} == opened.written.topic_ids


def test_the_cluster_keeps_its_id(opened: KafkaDirectory) -> None:
    listed = AdminClient({"bootstrap.servers": opened.broker.bootstrap_servers}).list_topics(timeout=10)
    assert listed.cluster_id == opened.cluster_id


def test_every_record_is_served(opened: KafkaDirectory) -> None:
    expected = {topic: dict(enumerate(sent)) for topic, sent in opened.written.records.items()}
    for offset in range(TRIMMED_TO):
        del expected[TRIMMED][offset]
    found = read_all(opened.broker, {topic: len(records) for topic, records in expected.items()})
    for topic, records in expected.items():
        assert found[topic] == records, topic


def test_aborted_transactions_stay_hidden(opened: KafkaDirectory) -> None:
    found = read_all(opened.broker, {TRANSACTIONAL: len(opened.committed)}, "read_committed")
    assert list(found[TRANSACTIONAL].values()) == opened.committed


def test_a_moved_log_start_stays_moved(opened: KafkaDirectory) -> None:
    with Admin.connect(opened.broker.address) as admin:
        assert admin.offsets(TRIMMED, timestamp=frames.EARLIEST) == {0: TRIMMED_TO}


def test_a_retried_batch_is_known_and_a_gap_refused(opened: KafkaDirectory) -> None:
    """Producer state comes from Kafka's snapshots, or, after a crash, from the batches themselves."""
    last_sequence = 3 * len(opened.written.idempotent) - 1
    with Admin.connect(opened.broker.address) as admin:
        end = admin.offsets(IDEMPOTENT)
        for batch in opened.written.idempotent[-1:]:
            assert admin.produce(IDEMPOTENT, 0, batch.records) == batch.base_offset
        assert admin.offsets(IDEMPOTENT) == end, "a duplicate adds nothing"
        gap = frames.batch([b"too early"], (PRODUCER_ID, PRODUCER_EPOCH, last_sequence + 2))
        with pytest.raises(AdminError, match=f"error {OUT_OF_ORDER_SEQUENCE_NUMBER}"):
            admin.produce(IDEMPOTENT, 0, gap)
        following = frames.batch([b"in order"], (PRODUCER_ID, PRODUCER_EPOCH, last_sequence + 1))
        assert admin.produce(IDEMPOTENT, 0, following) == end[0]


def test_the_log_goes_on_where_kafka_ended(opened: KafkaDirectory) -> None:
    with Admin.connect(opened.broker.address) as admin:
        end = admin.offsets(SEGMENTED)[0]
        assert end == len(opened.written.records[SEGMENTED])
        assert admin.produce(SEGMENTED, 0, frames.batch([b"ours"])) == end


def write_transactions(broker: BrokerProcess, written: WrittenLog) -> list[Sent]:
    """A committed, an aborted and another committed transaction; returns what a careful reader may see."""
    with Admin.connect(broker.address) as admin:
        written.topic_ids[TRANSACTIONAL] = admin.create(TRANSACTIONAL)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "writer"})
    producer.init_transactions(30)
    committed = []
    for number, is_committed in enumerate((True, False, True)):
        producer.begin_transaction()
        record = Sent(None, f"transaction-{number}", (), FIRST_TIMESTAMP_MS + number)
        producer.produce(TRANSACTIONAL, record.value, partition=0, timestamp=record.timestamp_ms)
        producer.flush(30)
        if is_committed:
            producer.commit_transaction(30)
            committed.append(record)
        else:
            producer.abort_transaction(30)
    return committed


def trim(broker: BrokerProcess) -> None:
    """Move a log start, as `kafka-delete-records.sh` does."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in client.delete_records([TopicPartition(TRIMMED, 0, TRIMMED_TO)]).values():
        assert done.result(30).low_watermark == TRIMMED_TO


def life_copied(life: KafkaLife, target: Path) -> KafkaDirectory:
    return KafkaDirectory(copy(life.written, target), life.written.meta_properties()["cluster.id"], life.committed)


def copy(written: WrittenLog, target: Path) -> WrittenLog:
    shutil.copytree(written.directory, target)
    return replace(
        written,
        directory=target,
        records={topic: list(records) for topic, records in written.records.items()},
        idempotent=list(written.idempotent),
    )


def tear_tail(written: WrittenLog) -> None:
    """Half a batch at the end of the last segment: what a crash between two pages leaves."""
    last = written.partition_files(SEGMENTED, ".log")[-1]
    data = last.read_bytes()
    last.write_bytes(data + data[: len(data) // 16])
