"""Delayed records of one broker and of a cluster: transactions, restarts, changes by key, deletions, leader changes."""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.integration.cli_support import run_here
from tidelog.client import Admin, ApiError, Consumer, NewTopic, Producer, TopicPartition
from tidelog.records.batch import iterate_batches
from tidelog.testing import Broker
from tidelog.testing.cluster import Cluster

SECONDS = 60.0
SETTINGS = {"tidelog.delay.enable": "true"}
IsolationLevel = Literal["read_uncommitted", "read_committed"]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1}) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"delayed-{next(_numbers)}"
    broker.create_topic(name, config=SETTINGS)
    return name


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _send(producer: Producer, topic: str, value: bytes, delay: str, key: bytes | None = None) -> int:
    headers = [("tidelog-delay", delay.encode())]
    return producer.send(topic, value, key=key, headers=headers, partition=0).result(SECONDS).offset


def _read(servers: str, topic: str, count: int, isolation: IsolationLevel = "read_uncommitted") -> list[bytes]:
    """The first values of partition 0, in order."""
    with Consumer(bootstrap_servers=servers, isolation_level=isolation) as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        found: list[bytes] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += [record.value or b"" for record in consumer.poll(0.1)]
        return found


def test_keys_are_listed_cancelled_and_moved(broker: Broker, topic: str) -> None:
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        offset = _send(producer, topic, b"moved", "1d", b"a")
        _send(producer, topic, b"cancelled", "1h", b"b")
        _send(producer, topic, b"stays", "2h", b"c")
        listing = admin.list_delayed_records(topic)[0]
        assert listing.waiting == 3
        assert [record.key for record in listing.records] == [b"b", b"c", b"a"]
        assert [record.offset for record in admin.list_delayed_records(topic, key=b"a")[0].records] == [offset]
        assert admin.cancel_delayed_records(topic, key=b"b") == 1
        assert admin.cancel_delayed_records(topic, key=b"b") == 0
        assert admin.reschedule_delayed_records(topic, _now_ms() + 20, key=b"a", offset=offset) == 1
        assert _read(servers, topic, 1) == [b"moved"]
        assert admin.list_delayed_records(topic)[0].waiting == 1
        with pytest.raises(ApiError, match=r"tidelog\.delay\.max\.ms"):
            admin.reschedule_delayed_records(topic, _now_ms() * 2, key=b"c")
        with pytest.raises(ApiError, match="key or the offset"):
            admin.cancel_delayed_records(topic)


def test_the_command_line_does_the_same(broker: Broker, topic: str) -> None:
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        _send(producer, topic, b"soon", "1d", b"a")
        _send(producer, topic, b"never", "1d", b"b")
    assert "2 records wait" in run_here("delay", "list", topic, server=servers).out
    moved = run_here("delay", "reschedule", topic, "--key", "a", "--delay", "10ms", "--format", "json", server=servers)
    assert moved.document["rescheduled"] == 1
    cancelled = run_here("delay", "cancel", topic, "--key", "b", "--format", "json", server=servers)
    assert cancelled.document == {"cancelled": 1}
    assert _read(servers, topic, 1) == [b"soon"]
    assert run_here("delay", "list", topic, "--format", "json", server=servers).document["records"] == []
    assert "--key or --offset" in run_here("delay", "cancel", topic, server=servers).err
    assert run_here("delay", "list", topic, server=servers).out.endswith(f"0 records wait in {topic}.\n")


def test_a_delay_begins_at_the_commit_and_an_abort_drops_it(broker: Broker, topic: str) -> None:
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin()
        _send(producer, topic, b"aborted", "1ms")
        producer.abort()
        producer.begin()
        _send(producer, topic, b"committed", "1h", b"k")
        producer.send(topic, b"at once", partition=0)
        with Admin(bootstrap_servers=servers) as admin:
            assert admin.list_delayed_records(topic)[0].waiting == 0
            before_ms = _now_ms()
            producer.commit()
            (record,) = admin.list_delayed_records(topic)[0].records
            assert record.deliver_at_ms >= before_ms + 3_600_000
            admin.reschedule_delayed_records(topic, _now_ms(), key=b"k")
    assert _read(servers, topic, 2, "read_committed") == [b"at once", b"committed"]


def test_deleting_records_leaves_those_that_wait(broker: Broker, topic: str) -> None:
    servers = broker.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        _send(producer, topic, b"waits", "1h", b"k")
        producer.send(topic, b"deleted", partition=0).result(SECONDS)
        admin.delete_records({TopicPartition(topic, 0): -1})
        assert admin.list_delayed_records(topic)[0].waiting == 1
        admin.reschedule_delayed_records(topic, _now_ms(), key=b"k")
        assert _read(servers, topic, 1) == [b"waits"]


def test_records_wait_through_restarts_and_their_files_may_be_lost(tmp_path: object) -> None:
    with Broker(data_dir=str(tmp_path)) as broker:
        broker.create_topic("t", config=SETTINGS)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            due_ms = _now_ms() + 500
            for value, deliver_at_ms in ((b"later", due_ms + 1), (b"sooner", due_ms)):
                headers = [("tidelog-deliver-at", b"%d" % deliver_at_ms)]
                producer.send("t", value, headers=headers, partition=0)
            producer.flush()
        broker.restart()
        assert _read(broker.bootstrap_servers, "t", 2) == [b"sooner", b"later"]


@pytest.mark.long
def test_retention_leaves_those_that_wait() -> None:
    """They are copied out of the segments that are deleted, and still wait after a kill."""
    settings = {**SETTINGS, "segment.bytes": 10_000, "retention.ms": 500, "file.delete.delay.ms": 0}
    where = TopicPartition("t", 0)
    quick = {"log.retention.check.interval.ms": 200, "log.initial.task.delay.ms": 100}
    with Broker(quick, process=True, timeout_s=SECONDS) as broker:
        broker.create_topic("t", config=settings)
        servers = broker.bootstrap_servers
        with (
            Producer(bootstrap_servers=servers) as producer,
            Admin(bootstrap_servers=servers) as admin,
            Consumer(bootstrap_servers=servers) as consumer,
        ):
            offset = _send(producer, "t", b"waits", "1h", b"k")
            deadline = time.monotonic() + SECONDS
            while consumer.beginning_offsets(where)[where] <= offset:
                assert time.monotonic() < deadline, "the front of the log is not deleted"
                for _ in range(20):
                    producer.send("t", bytes(500), partition=0)
                producer.flush()
            broker.kill()
            broker.start()
            (record,) = admin.list_delayed_records("t")[0].records
            assert (record.offset, record.key) == (offset, b"k")
            admin.reschedule_delayed_records("t", _now_ms(), key=b"k")
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            values: set[bytes | None] = set()
            while b"waits" not in values:
                assert time.monotonic() < deadline + SECONDS, "the record is not delivered"
                values.update(found.value for found in consumer.poll(0.2))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_compacted_topic_keeps_what_waits_and_the_last_that_was_delivered() -> None:
    """A waiting record is no value of its key yet and does not hold up compaction; settled control batches go."""
    settings = {
        **SETTINGS,
        "cleanup.policy": "compact",
        "segment.bytes": 5_000,
        "min.cleanable.dirty.ratio": 0.01,
        "file.delete.delay.ms": 0,
    }
    with Broker({"log.cleaner.backoff.ms": 200}, process=True, timeout_s=SECONDS) as broker:
        broker.create_topic("t", config=settings)
        with (
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            _send(producer, "t", b"new", "1h", b"far")
            producer.send("t", b"old", key=b"far", partition=0).result(SECONDS)
            _send(producer, "t", b"delivered", "10ms", b"near")
            numbers = itertools.count()

            def write_until(holds: Callable[[], bool], what: str) -> None:
                deadline = time.monotonic() + 2 * SECONDS
                while not holds():
                    assert time.monotonic() < deadline, what
                    for number in itertools.islice(numbers, 20):
                        headers = [("tidelog-delay", b"20")] if number % 2 else []
                        producer.send("t", b"%d" % number, key=b"%d" % (number % 4), headers=headers, partition=0)
                    producer.flush()
                    time.sleep(0.05)

            write_until(lambda: _first_batch(broker) > 0, "the control batch in which a record waited is still there")
            assert [record.key for record in admin.list_delayed_records("t")[0].records][-1] == b"far"
            pairs = _stored(broker)
            assert (b"far", b"old") in pairs
            assert (b"near", b"delivered") in pairs
            assert (b"0", b"0") not in pairs
            broker.kill()
            broker.start()
            assert admin.reschedule_delayed_records("t", _now_ms(), key=b"far") == 1
            write_until(lambda: (b"far", b"old") not in _stored(broker), "the value before the delivered one is there")
            assert _stored(broker).count((b"far", b"new")) == 1


def _stored(broker: Broker) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of all visible records."""
    where = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        end = consumer.end_offsets(where)[where]
        found: list[tuple[bytes | None, bytes | None]] = []
        while consumer.position(where) < end:
            found += [(record.key, record.value) for record in consumer.poll(0.2)]
        return found


def _first_batch(broker: Broker) -> int:
    """The offset of the first batch in the files of the partition."""
    for segment in sorted(Path(broker.data_dir, "t-0").glob("*.log")):
        for _, header in iterate_batches(segment.read_bytes()):
            return header.base_offset
    return 0


@pytest.mark.long
def test_the_next_leader_delivers() -> None:
    """Acknowledged with acks=all: every in-sync replica has it. Each is delivered once, by whichever broker leads."""
    with Cluster(3, {"default.replication.factor": 3, "min.insync.replicas": 2}) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", 1, 3, SETTINGS)])
        with Producer(bootstrap_servers=servers, acks="all") as producer:
            due = _now_ms() + 6000
            for number in range(300):
                headers = [("tidelog-deliver-at", b"%d" % (due + number * 20))]
                producer.send("t", b"%d" % number, headers=headers, partition=0)
            producer.flush()
            first = cluster.leader_of("t", 0)
            cluster.kill(first)
            while _now_ms() < due + 3000:
                time.sleep(0.05)
            cluster.restart(first)
            second = cluster.leader_of("t", 0)
            assert second != first
            cluster.kill(second)
            found = _read(servers, "t", 300)
            assert [int(value) for value in found] == list(range(300))
            _send(producer, "t", b"last", "10ms")
            assert len(_read(servers, "t", 301)) == 301
