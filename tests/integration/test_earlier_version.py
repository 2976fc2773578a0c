"""A data directory moves between release 0.2.0 and this version, in both directions.

Release 0.2.0 comes out of the repository's history and runs as a process of its own; every client is confluent-kafka.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.cli_support import SOURCE
from tests.unit.present import present

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

RELEASE_0_2_0 = "fb71d9c"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The sources of release 0.2.0, without C modules."""
    command = ["git", "-C", str(ROOT), "archive", RELEASE_0_2_0, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("the history of the repository is not here")
    place = tmp_path_factory.mktemp("0.2.0")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(place, filter="data" if hasattr(tarfile, "data_filter") else None)
    return str(place / "src")


@contextmanager
def serving(source: str, data: Path, how: signal.Signals = signal.SIGTERM) -> Iterator[str]:
    """A broker of these sources; `how` ends it."""
    words = [f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions=4"]
    command = [sys.executable, "-m", "tidelog", "serve", *(part for each in words for part in ("--set", each))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": source}
    ) as process:
        try:
            ready = present(process.stdout).readline().decode()
            assert ready.startswith("tidelog ready "), ready
            yield ready.split()[2]
            process.send_signal(how)
            process.wait(60)
        finally:
            process.kill()


def create(address: str, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, 2, config=config)])[name].result(60)


def write(address: str, topic: str, values: list[str], *, transactional: bool = False, delay: str = "") -> None:
    config: dict[str, str | int] = {"bootstrap.servers": address, "enable.idempotence": True}
    if transactional:
        config["transactional.id"] = f"writer of {topic}"
    producer = Producer(config)
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    failures: list[object] = []
    headers: list[tuple[str, str | bytes | None]] = [("tidelog-delay", delay)] if delay else []
    for value in values:
        producer.produce(
            topic, value, value, headers=headers, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert failures == []
    if transactional:
        producer.commit_transaction(60)


LEAVES_OPEN = """
import os, sys
from confluent_kafka import Producer
address, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": address, "transactional.id": f"dead writer of {topic}"})
producer.init_transactions(60)
producer.begin_transaction()
producer.produce(topic, "never", "never")
assert producer.flush(60) == 0
os._exit(0)
"""
"""A producer that dies in its transaction."""


def read(address: str, group: str, topics: list[str], count: int) -> list[str]:
    """So many values as members of a group, which then commits; with `count` 0 whatever comes within three seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(topics)
    found: list[Message] = []
    deadline = time.monotonic() + (120 if count else 3)
    while time.monotonic() < deadline and (len(found) < count or not count):
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(message)
    if found:
        consumer.commit(asynchronous=False)
    consumer.close()
    return sorted(present(message.value()).decode() for message in found)


def committed(address: str, group: str, topic: str) -> int:
    """The sum of a group's offsets in a topic; a partition without one counts as none."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=60)
    consumer.close()
    return sum(max(each.offset, 0) for each in found)


ENDS = pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])


def values(name: str, count: int = 40) -> list[str]:
    return sorted(f"{name}-{number}" for number in range(count))


def fill(address: str) -> None:
    """What a broker may have: plain and compacted records, transactions, one left open, records that wait, a group."""
    create(address, "plain")
    create(address, "latest", **{"cleanup.policy": "compact", "segment.ms": "1000"})
    create(address, "later", **{"tidelog.delay.enable": "true"})
    write(address, "plain", values("first"))
    write(address, "plain", values("sure"), transactional=True)
    assert read(address, "readers", ["plain"], 80) == sorted(values("first") + values("sure"))
    subprocess.run([sys.executable, "-c", LEAVES_OPEN, address, "plain"], check=True, timeout=120)
    write(address, "latest", values("key"))
    write(address, "later", values("late"), delay="5s")


@ENDS
def test_a_data_directory_of_release_0_2_0_is_served_whole(earlier: str, tmp_path: Path, end: signal.Signals) -> None:
    data = tmp_path / "data"
    with serving(earlier, data, end) as address:
        fill(address)
    with serving(SOURCE, data) as address:
        write(address, "plain", values("next"))
        assert read(address, "auditors", ["later", "latest"], 80) == sorted(values("late") + values("key"))
        # The transaction that was left open is fenced by the same id, and what comes after it becomes visible.
        producer = Producer({"bootstrap.servers": address, "transactional.id": "dead writer of plain"})
        producer.init_transactions(60)
        assert read(address, "readers", ["plain"], 40) == values("next")


@ENDS
def test_a_broker_of_release_0_2_0_goes_on_where_this_version_ended(
    earlier: str, tmp_path: Path, end: signal.Signals
) -> None:
    """Until its features are raised, a directory that 0.2.0 made has nothing in it that 0.2.0 cannot read."""
    data = tmp_path / "data"
    with serving(earlier, data) as address:
        fill(address)
    with serving(SOURCE, data, end) as address:
        Producer({"bootstrap.servers": address, "transactional.id": "dead writer of plain"}).init_transactions(60)
        write(address, "plain", values("next"), transactional=True)
        assert read(address, "readers", ["plain"], 40) == values("next")
        assert read(address, "late readers", ["later"], 40) == values("late")
        write(address, "later", values("later still"), delay="5s")
        offset = committed(address, "readers", "plain")
    with serving(earlier, data) as address:
        assert committed(address, "readers", "plain") == offset
        write(address, "plain", values("last"), transactional=True)
        assert read(address, "readers", ["plain"], 40) == values("last")
        assert read(address, "late readers", ["later"], 40) == values("later still")
        assert read(address, "auditors", ["latest"], 40) == values("key")
