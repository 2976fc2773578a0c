"""When records reach the disk: what `flush.messages` and `flush.ms` promise, and what a failing sync means."""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, batch_of, end_offset, fetch_records, produce, produce_request
from tests.integration.writers import wait_until
from tidelog.client import Admin, NewTopic
from tidelog.storage.checkpoints import parse_offset_checkpoint
from tidelog.storage.log import _flushing
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import incremental_alter_configs

SYNCED, LAZY = "synced", "lazy"
SETTINGS = {"log.initial.task.delay.ms": 5, "log.flush.offset.checkpoint.interval.ms": 10}


class Syncs:
    """Stands in for `fdatasync`: counts, delays or fails it, and knows how much of each file was covered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._sync = _flushing._sync_data
        self.count = 0
        self.covered: dict[tuple[int, int], int] = defaultdict(int)
        self.error: OSError | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        monkeypatch.setattr(_flushing, "_sync_data", self._called)

    def _called(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        assert self.may_go_on.wait(30), "the test forgot a sync"
        if self.error is not None:
            raise self.error
        self._sync(descriptor)
        self.count += 1
        key = status.st_dev, status.st_ino
        self.covered[key] = max(self.covered[key], status.st_size)

    def covered_bytes(self, path: Path) -> int:
        status = path.stat()
        return self.covered[status.st_dev, status.st_ino]


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


@pytest.fixture
def broker(tmp_path: Path, syncs: Syncs) -> Iterator[Inside]:
    with Inside(tmp_path, SETTINGS) as broker:
        make_topic(broker, SYNCED, {"flush.messages": "1"})
        make_topic(broker, LAZY, {})
        yield broker
        syncs.may_go_on.set()


def make_topic(broker: Inside, name: str, configs: dict[str, str]) -> None:
    with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
        admin.create_topics([NewTopic(name, 1, 1, configs)])


def test_with_flush_messages_1_an_acknowledged_record_is_on_disk(broker: Inside, syncs: Syncs, tmp_path: Path) -> None:
    path = tmp_path / f"{SYNCED}-0" / f"{0:020d}.log"
    with RawClient(broker.port) as client:
        for acks in (-1, 1) * 10:
            assert produce(client, SYNCED, 0, batch_of([b"value"]), acks=acks).error_code == ErrorCode.NONE
            assert syncs.covered_bytes(path) == path.stat().st_size


def test_by_default_producing_syncs_nothing(broker: Inside, syncs: Syncs, tmp_path: Path) -> None:
    """Durability comes from replicas and from the system's own writing back, as with Kafka."""
    with RawClient(broker.port) as client:
        for _ in range(20):
            assert produce(client, LAZY, 0, batch_of([b"value"])).error_code == ErrorCode.NONE
    assert syncs.covered_bytes(tmp_path / f"{LAZY}-0" / f"{0:020d}.log") == 0


def test_until_the_sync_is_done_its_requests_wait_and_no_others(broker: Inside, syncs: Syncs) -> None:
    with RawClient(broker.port) as waiting, RawClient(broker.port) as other:
        syncs.may_go_on.clear()
        waiting.send(produce_request(SYNCED, {0: batch_of([b"slow"])}), 9)
        purgatory = broker.node.replica_manager.produce_purgatory
        wait_until(lambda: broker.on_loop(lambda: purgatory.delayed) == 1, "it waits")
        assert produce(other, LAZY, 0, batch_of([b"quick"])).error_code == ErrorCode.NONE
        assert end_offset(other, SYNCED, 0) == 0, "what may still be lost is not shown"
        waiting.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            waiting.socket.recv(1)
        waiting.socket.settimeout(30)
        syncs.may_go_on.set()
        answer = waiting.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        assert [record.value for record in fetch_records(other, SYNCED, 0)] == [b"slow"]


def test_many_producers_share_a_sync(broker: Inside, syncs: Syncs) -> None:
    """Those that come while one is under way are covered by the next, however many they are."""
    producers, rounds = 20, 10
    before = syncs.count
    clients = [RawClient(broker.port) for _ in range(producers)]
    for _ in range(rounds):
        for client in clients:
            client.send(produce_request(SYNCED, {0: batch_of([b"value"])}), 9)
        for client in clients:
            answer = client.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NONE
    for client in clients:
        client.close()
    assert syncs.count - before < producers * rounds / 2


def test_a_failing_sync_acknowledges_nothing_and_takes_the_directory_offline(tmp_path: Path, syncs: Syncs) -> None:
    """After a failed sync the state of the disk is unknown, so nothing may be written there any more."""
    first, second = tmp_path / "first", tmp_path / "second"
    with Inside(first, {"log.dirs": [first, second]}) as broker:
        make_topic(broker, "left", {"flush.messages": "1"})
        make_topic(broker, "right", {"flush.messages": "1"})
        failing, sound = ("left", "right") if (second / "left-0").exists() else ("right", "left")
        with RawClient(broker.port) as client:
            assert produce(client, failing, 0, batch_of([b"kept"])).error_code == ErrorCode.NONE
            syncs.error = OSError(errno.EIO, "Input/output error")
            for _ in range(3):
                answer = produce(client, failing, 0, batch_of([b"lost"]))
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            syncs.error = None
            assert produce(client, failing, 0, batch_of([b"lost"])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert produce(client, sound, 0, batch_of([b"value"])).error_code == ErrorCode.NONE
    with Inside(first, {"log.dirs": [first, second]}) as broker, RawClient(broker.port) as client:
        assert fetch_records(client, failing, 0)[0].value == b"kept"


def test_flush_messages_counts(broker: Inside, syncs: Syncs, tmp_path: Path) -> None:
    make_topic(broker, "counted", {"flush.messages": "5"})
    path = tmp_path / "counted-0" / f"{0:020d}.log"
    with RawClient(broker.port) as client:
        for _ in range(4):
            produce(client, "counted", 0, batch_of([b"value"]))
        assert syncs.covered_bytes(path) == 0
        produce(client, "counted", 0, batch_of([b"value"]))
        assert syncs.covered_bytes(path) == path.stat().st_size


def test_flush_ms_syncs_what_has_become_old_and_the_recovery_point_follows(tmp_path: Path, syncs: Syncs) -> None:
    """What lies below the recovery point is not read after a crash."""
    settings = {**SETTINGS, "log.flush.scheduler.interval.ms": 10}
    with Inside(tmp_path, settings) as broker:
        make_topic(broker, "timed", {"flush.ms": "20"})
        path = tmp_path / "timed-0" / f"{0:020d}.log"
        with RawClient(broker.port) as client:
            for _ in range(7):
                produce(client, "timed", 0, batch_of([b"value"]))
        wait_until(lambda: syncs.covered_bytes(path) == path.stat().st_size, "it is synced")
        checkpoint = tmp_path / "recovery-point-offset-checkpoint"
        wait_until(lambda: recovery_points(checkpoint).get(("timed", 0)) == 7, "the recovery point is written")


def recovery_points(path: Path) -> dict[tuple[str, int], int]:
    return parse_offset_checkpoint(path.read_bytes(), str(path)) if path.exists() else {}


def test_flush_messages_may_be_changed_while_running(broker: Inside, syncs: Syncs, tmp_path: Path) -> None:
    path = tmp_path / f"{LAZY}-0" / f"{0:020d}.log"
    with RawClient(broker.port) as client:
        produce(client, LAZY, 0, batch_of([b"value"]))
        assert syncs.covered_bytes(path) == 0
        config = incremental_alter_configs.AlterableConfig(name="flush.messages", config_operation=0, value="1")
        resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=LAZY, configs=[config])
        response = client.call(messages.IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == ErrorCode.NONE
        produce(client, LAZY, 0, batch_of([b"value"]))
        assert syncs.covered_bytes(path) == path.stat().st_size
