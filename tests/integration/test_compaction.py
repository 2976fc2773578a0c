"""Compaction in a running broker, as clients and operators see it."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from tests.integration.cli_support import run_here
from tests.integration.raw_client import RawClient
from tidelog.client import Admin, Consumer, TopicPartition
from tidelog.storage.checkpoints import CLEANER_OFFSET_FILE, OffsetCheckpointFile
from tidelog.testing import Broker
from tidelog.wire.messages.api_versions import ApiVersionsRequest

confluent = pytest.importorskip("confluent_kafka")

DEADLINE_S = 60.0
QUICK = {
    "cleanup.policy": "compact",
    "segment.ms": 500,
    "min.cleanable.dirty.ratio": 0.01,
    "max.compaction.lag.ms": 100,
}


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"log.cleaner.backoff.ms": 500}, process=True) as started:
        yield started


class Writer:
    """A producer that remembers the last value of each key."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self.state: dict[bytes, bytes] = {}
        self.delivered: dict[bytes, bytes] = {}
        """What `state` was when everything had been acknowledged; replaced as a whole, for other threads to read."""
        self.sent = 0
        self._refused: list[object] = []
        self._producer = confluent.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 2, "batch.num.messages": 200}
        )

    def write(self, count: int, keys: int, size: int = 30) -> None:
        for _ in range(count):
            key, value = b"%d" % (self.sent % keys), (b"%d:" % self.sent).ljust(size, b".")
            self._producer.produce(self.topic, key=key, value=value, on_delivery=self._delivered)
            self.state[key] = value
            self.sent += 1
            if self.sent % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(DEADLINE_S) == 0
        assert self._refused == []
        self.delivered = dict(self.state)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._refused.append(error)


Rows = list[tuple[int, bytes, bytes]]
"""Offset, key and value."""


def is_newer(found: Rows, wanted: Mapping[bytes, int]) -> bool:
    """Whether every wanted key was found with its wanted number, or a later one."""
    last = {key: int(value.split(b":")[0]) for _, key, value in found}
    return all(last.get(key, -1) >= number for key, number in wanted.items())


def read_all(broker: Broker, topic: str, wanted: Mapping[bytes, int] | None = None) -> Rows:
    """Everything from the start to the end as it is now.

    A cleaner that is faster than this reader moves the last values behind that end: `wanted` ones are read for, until
    the log has no more.
    """
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partition = confluent.TopicPartition(topic, 0, 0)
    found: list[tuple[int, bytes, bytes]] = []
    try:
        _, end = consumer.get_watermark_offsets(partition, timeout=DEADLINE_S)
        consumer.assign([partition])
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                if message.error().code() == confluent.KafkaError._PARTITION_EOF:
                    return found
                raise confluent.KafkaException(message.error())
            found.append((message.offset(), message.key(), message.value()))
            if message.offset() >= end - 1 and is_newer(found, wanted or {}):
                return found
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic} was not reached")


def read_all_with_our_client(broker: Broker, topic: str, wanted: Mapping[bytes, int]) -> Rows:
    """The same through our own client."""
    at = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([at])
        end = consumer.end_offsets(at)[at]
        found: Rows = []
        while consumer.position(at) < end:
            found += [(record.offset, record.key or b"", record.value or b"") for record in consumer.poll(1)]
            if consumer.position(at) >= end and not is_newer(found, wanted):
                end = consumer.end_offsets(at)[at]
    return found


def clean_points(broker: Broker) -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(broker.data_dir, CLEANER_OFFSET_FILE).read()


def log_bytes(broker: Broker, topic: str) -> int:
    """The live segments of a partition."""
    total = 0
    for path in Path(broker.data_dir, f"{topic}-0").glob("*.log"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def test_compaction_is_visible_within_seconds(broker: Broker) -> None:
    broker.create_topic("quick", config=QUICK)
    writer = Writer(broker, "quick")
    started = time.monotonic()

    def is_compacted() -> bool:
        writer.write(20, keys=5)
        return len(read_all(broker, "quick")) < writer.sent // 2

    wait_until(is_compacted, "old records are gone")
    assert time.monotonic() - started < 15
    assert {key: value for _, key, value in read_all(broker, "quick")} == writer.state


def test_consumers_see_every_last_value_and_never_go_back_while_it_happens(broker: Broker) -> None:
    """They read from the start, again and again, while segments are swapped under them."""
    broker.create_topic("busy", config={**QUICK, "segment.bytes": 200_000, "delete.retention.ms": 0})
    writer = Writer(broker, "busy")
    writer.write(2000, keys=200)
    errors: list[BaseException] = []
    stop = threading.Event()

    passes = threading.Semaphore(0)

    def read_again_and_again(read: Callable[[Broker, str, Mapping[bytes, int]], Rows]) -> None:
        try:
            while not stop.is_set():
                wanted = {key: int(value.split(b":")[0]) for key, value in writer.delivered.items()}
                found = read(broker, "busy", wanted)
                offsets = [offset for offset, _, _ in found]
                assert offsets == sorted(set(offsets)), "a consumer went back"
                assert is_newer(found, wanted), "a last value is missing"
                passes.release()
        except BaseException as error:
            errors.append(error)

    readers = [
        threading.Thread(target=read_again_and_again, args=(read,)) for read in (read_all, read_all_with_our_client)
    ]
    for reader in readers:
        reader.start()
    cleaned = clean_points(broker).get(("busy", 0), 0)
    rounds = 0
    deadline = time.monotonic() + DEADLINE_S
    while rounds < 4 and not errors and time.monotonic() < deadline:
        writer.write(1000, keys=200)
        # A log that grows faster than it is read would take ever longer to read: one pass, then more.
        passes.acquire(timeout=1.0)
        now = clean_points(broker).get(("busy", 0), 0)
        rounds += now > cleaned
        cleaned = now
    stop.set()
    for reader in readers:
        reader.join(DEADLINE_S)
    assert not errors, errors[0]
    assert rounds >= 4
    assert {key: value for _, key, value in read_all(broker, "busy")} == writer.state


def test_offset_commits_are_compacted_like_any_other_topic(broker: Broker) -> None:
    """A thousand commits of one group leave a handful of records, and the group is where it was."""
    broker.create_topic("committed")
    Writer(broker, "committed").write(10, keys=5)
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "committer",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        for number in range(300):
            position = confluent.TopicPartition("committed", 0, number % 10)
            consumer.commit(offsets=[position], asynchronous=False)
    finally:
        consumer.close()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.compact_topic("__consumer_offsets")
        wait_until(
            lambda: all(state.is_over for state in admin.compact_topic("__consumer_offsets", only_status=True)),
            "the offsets are compacted",
        )
        states = admin.compact_topic("__consumer_offsets", only_status=True)
    assert {state.state for state in states} == {"done"}
    assert sum(state.bytes_after for state in states) < sum(state.bytes_before for state in states) / 10
    broker.restart()
    consumer = confluent.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "committer", "log_level": 0}
    )
    try:
        (found,) = consumer.committed([confluent.TopicPartition("committed", 0)], timeout=DEADLINE_S)
    finally:
        consumer.close()
    assert found.offset == 9


def test_the_command_compacts_now_and_says_what_it_saved(broker: Broker) -> None:
    broker.create_topic("commanded", config={"cleanup.policy": "compact"})
    writer = Writer(broker, "commanded")
    writer.write(500, keys=3)
    before = run_here("topic", "compact", "commanded", "--format", "json", server=broker.bootstrap_servers).document
    assert [(state["partition"], state["state"]) for state in before] == [(0, "")]
    size = log_bytes(broker, "commanded")
    (state,) = run_here(
        "topic", "compact", "--now", "commanded", "--format", "json", server=broker.bootstrap_servers
    ).document
    assert (state["state"], state["bytes_before"]) == ("done", size)
    assert state["bytes_after"] < size / 20
    assert len(read_all(broker, "commanded")) == 3
    shown = run_here("topic", "compact", "commanded", server=broker.bootstrap_servers)
    assert shown.out.splitlines()[0].split() == ["PARTITION", "BROKER", "STATE", "BYTES-BEFORE", "BYTES-AFTER"]
    assert "done" in shown.out


def test_the_command_says_why_it_cannot(broker: Broker) -> None:
    broker.create_topic("kept")
    refused = run_here("topic", "compact", "--now", "kept", server=broker.bootstrap_servers)
    assert refused.code == 1
    assert "not compacted: its cleanup.policy is delete" in refused.err
    missing = run_here("topic", "compact", "--now", "nothing", server=broker.bootstrap_servers)
    assert missing.code == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in missing.err


def test_the_api_of_our_own_is_not_claimed(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        served = client.call(ApiVersionsRequest(), 0).api_keys
    assert max(api.api_key for api in served) < 100


def test_a_disabled_cleaner_compacts_nothing_and_says_so() -> None:
    with Broker({"log.cleaner.enable": "false"}) as quiet:
        quiet.create_topic("grows", config=QUICK)
        Writer(quiet, "grows").write(50, keys=2)
        refused = run_here("topic", "compact", "--now", "grows", server=quiet.bootstrap_servers)
        assert refused.code == 1
        assert "log.cleaner.enable is false" in refused.err
        assert len(read_all(quiet, "grows")) == 50


def test_a_broker_that_cleans_leaves_no_process_behind() -> None:
    with Broker({"log.cleaner.backoff.ms": 100}, process=True) as cleaning:
        cleaning.create_topic("t", config={"cleanup.policy": "compact"})
        Writer(cleaning, "t").write(100, keys=2)
        assert psutil.Process(cleaning.pid).children() == [], "no worker before there is something to clean"
        run_here("topic", "compact", "--now", "t", server=cleaning.bootstrap_servers)
        (worker,) = psutil.Process(cleaning.pid).children()
        worker.kill()
        wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker is gone")
        Writer(cleaning, "t").write(100, keys=2)
        (state,) = run_here(
            "topic", "compact", "--now", "t", "--format", "json", server=cleaning.bootstrap_servers
        ).document
        assert state["state"] == "done", "a new worker takes over from a dead one"
        children = psutil.Process(cleaning.pid).children()
    assert not any(child.is_running() for child in children)


def test_nothing_is_lost_when_a_broker_is_killed_while_it_cleans(tmp_path: Path) -> None:
    """Killed again and again at whatever the cleaner is at; acknowledged values are all there, each key's last one."""
    with Broker({"log.cleaner.backoff.ms": 50}, process=True, data_dir=tmp_path) as killed:
        killed.create_topic("k", config={**QUICK, "segment.bytes": 30_000, "file.delete.delay.ms": 0})
        writer = Writer(killed, "k")
        for round_number in range(4):
            writer.write(1500, keys=100)
            time.sleep(0.07 * round_number)  # a moment of the cleaner's life, not a wait for something
            killed.kill()
            killed.restart()
            found = read_all(killed, "k")
            offsets = [offset for offset, _, _ in found]
            assert offsets == sorted(set(offsets))
            assert {key: value for _, key, value in found} == writer.state
        wait_until(lambda: clean_points(killed).get(("k", 0), 0) > 0, "something was cleaned at all")
        directory = Path(killed.data_dir, "k-0")
        assert [name for name in os.listdir(directory) if name.endswith(".swap")] == []
