"""Our share consumer, worker and `tidelog share` against Apache Kafka 4.3.1, which does what Tidelog does."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.shares.kafka43 import JARS, Kafka43
from tests.integration.cli_support import run_here
from tests.integration.writers import wait_until
from tidelog.client import (
    AcknowledgeType,
    Admin,
    ConfigChange,
    ConfigResource,
    NewTopic,
    Producer,
    ResourceType,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
    Worker,
)
from tidelog.wire.errors import ErrorCode

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed")]

SECONDS = 60.0
Records = list[ShareRecord[bytes, bytes]]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = JARS.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    broker = Kafka43(Path(tmp_path_factory.mktemp("kafka-4.3.1")))
    try:
        yield broker.start().bootstrap_servers
    finally:
        if broker.is_spawned:
            broker.stop()


def prepare(servers: str, name: str, *values: bytes) -> None:
    """A topic, and a group of its name that begins at its beginning."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        group = ConfigResource(ResourceType.GROUP, name)
        admin.incremental_alter_configs({group: [ConfigChange("share.auto.offset.reset", "earliest")]})
    with Producer(bootstrap_servers=servers, linger_ms=50) as producer:
        for value in values:
            producer.send(name, value)


def receive(consumer: ShareConsumer[bytes, bytes], count: int) -> Records:
    found: Records = []

    def poll() -> bool:
        found.extend(consumer.poll(0.5))
        return len(found) >= count

    wait_until(poll, f"{count} records", SECONDS)
    return found


def test_records_are_acknowledged_renewed_and_delivered_again(servers: str) -> None:
    prepare(servers, "explicit", b"done", b"again", b"never", b"longer")
    settings: dict[str, Any] = {"group_id": "explicit", "share_acknowledgement_mode": "explicit"}
    with ShareConsumer[bytes, bytes](bootstrap_servers=servers, **settings) as consumer:
        consumer.subscribe(["explicit"])
        done, again, never, longer = receive(consumer, 4)
        assert consumer.acquisition_lock_timeout_s == 3.0
        consumer.acknowledge(done)
        consumer.acknowledge(again, AcknowledgeType.RELEASE, delay_s=0.1)
        consumer.acknowledge(never, AcknowledgeType.REJECT)
        consumer.acknowledge(longer, AcknowledgeType.RENEW)
        assert consumer.commit() == {TopicPartition("explicit", 0): None}
        found: list[tuple[bytes | None, int]] = []

        def take_and_accept() -> bool:
            for record in consumer.poll(0.5):
                found.append((record.value, record.delivery_count))
                consumer.acknowledge(record)
            return len(found) == 2

        wait_until(take_and_accept, "two records more", SECONDS)
        assert sorted(found) == [(b"again", 2), (b"longer", 1)]
        assert consumer.commit() == {TopicPartition("explicit", 0): None}
        assert consumer.poll(0.5) == []


def test_an_iteration_and_a_late_acknowledgement(servers: str) -> None:
    prepare(servers, "implicit", *(b"%d" % number for number in range(10)))
    with (
        ShareConsumer[bytes, bytes](bootstrap_servers=servers, group_id="implicit") as first,
        ShareConsumer[bytes, bytes](bootstrap_servers=servers, group_id="implicit") as second,
    ):
        first.subscribe(["implicit"])
        for record in first:
            if record.offset == 4:
                break
        again = receive(first, 6)
        assert sorted((each.offset, each.delivery_count) for each in again) == [
            (4, 2), *((offset, 1) for offset in range(5, 10)),
        ]  # fmt: skip
        second.subscribe(["implicit"])
        # Polling again has accepted all but what came last; that is delivered to the other when its lock has timed out.
        receive(second, 1)
        (error,) = first.commit().values()
        assert getattr(error, "code", None) is ErrorCode.INVALID_RECORD_STATE
        assert set(second.commit().values()) == {None}


def test_a_worker_handles_each_record_and_the_group_is_described_and_deleted(servers: str) -> None:
    prepare(servers, "work", *(b"%d" % number for number in range(50)))
    seen: list[bytes | None] = []
    failing = {b"7"}

    def handle(record: ShareRecord[bytes, bytes]) -> None:
        if record.value in failing:
            failing.discard(record.value)
            raise ValueError("once")
        seen.append(record.value)

    worker = Worker("work", handle, group_id="work", bootstrap_servers=servers, concurrency=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(lambda: len(seen) == 50, "all are handled", SECONDS)
    finally:
        worker.stop()
        thread.join(SECONDS)
    assert sorted(seen, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(50)]
    assert (worker.counts.handled, worker.counts.retried, worker.counts.lost) == (50, 1, 0)
    found = run_here("share", "describe", "work", "--format", "json", server=servers).document
    # Kafka describes where the group began before its last write, which moved it to 50.
    assert [(each["topic"], 40 < each["start_offset"] <= 50) for each in found] == [("work", True)]
    assert run_here("share", "reset", "work", "--topic", "work", "--to-earliest", "--execute", server=servers).code == 0
    found = run_here("share", "describe", "work", "--format", "json", server=servers).document
    assert [each["start_offset"] for each in found] == [0]
    assert run_here("share", "delete", "work", server=servers).code == 0
    groups = run_here("share", "list", "--format", "json", server=servers).document
    assert "work" not in [each["group"] for each in groups]
