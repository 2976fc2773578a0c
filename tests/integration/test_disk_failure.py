"""Disks that fill up, vanish or fail: their partitions go offline, the others serve, nothing acknowledged is lost.

The faults are real where that needs no privileges: a log file that leads to `/dev/full`, a directory that is moved
away. A small file system of its own is used where the test may mount one.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    describe_topic,
    fetch_records,
    fetch_request,
    produce,
    produce_request,
)
from tests.integration.writers import wait_until
from tidelog.client import Admin, NewTopic
from tidelog.storage._files import LogFile
from tidelog.storage.errors import LogDirFailure
from tidelog.testing import Broker, BrokerFailed
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_topics, list_offsets

TOPIC = "spread"
PARTITIONS = 6
FIRST_SEGMENT = f"{0:020d}.log"
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class Disks:
    """A broker with two log directories, and what each partition has acknowledged."""

    def __init__(self, tmp_path: Path, settings: dict[str, object] | None = None) -> None:
        self.paths = [tmp_path / "disk-1", tmp_path / "disk-2"]
        self.broker = Broker({"log.dirs": self.paths, **(settings or {})}, process=True, data_dir=tmp_path / "disk-1")
        self.values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def partitions_on(self, disk: Path) -> list[int]:
        return sorted(int(path.name.rpartition("-")[2]) for path in disk.glob(f"{TOPIC}-*"))

    def write(self, client: RawClient, index: int, size: int = 10) -> ErrorCode:
        """Write a record; what is acknowledged must be found later."""
        value = b"record %d " % len(self.values[index]) + b"x" * size
        code = ErrorCode(produce(client, TOPIC, index, batch_of([value])).error_code)
        if code is ErrorCode.NONE:
            self.values[index].append(value)
        return code

    def check_all_there(self, client: RawClient, indexes: list[int]) -> None:
        """Everything acknowledged, and at most one record more: one that was refused when it was half written."""
        for index in indexes:
            found = [record.value for record in fetch_records(client, TOPIC, index)]
            assert found[: len(self.values[index])] == self.values[index], f"partition {index}"


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    disks = Disks(tmp_path)
    with disks.broker:
        disks.broker.create_topic(TOPIC, PARTITIONS, config={"segment.bytes": 100_000})
        assert disks.partitions_on(disks.paths[0])
        assert disks.partitions_on(disks.paths[1])
        yield disks


def fetched_code(client: RawClient, index: int) -> ErrorCode:
    response = client.call(fetch_request(TOPIC, {index: 0}, max_wait_ms=0), 12)
    return ErrorCode(response.responses[0].partitions[0].error_code)


def offline_partitions(client: RawClient) -> list[int]:
    """Those whose replica is shown as offline."""
    return [
        p.partition_index for p in describe_topic(client, TOPIC).partitions if p.offline_replicas == p.replica_nodes
    ]


@contextmanager
def full_disk(partition: Path) -> Iterator[None]:
    """Every write to a partition's first segment finds the device full. It must not have been opened yet."""
    path = partition / FIRST_SEGMENT
    aside = partition / "aside"
    path.rename(aside)
    path.symlink_to("/dev/full")
    try:
        yield
    finally:
        path.unlink()
        aside.rename(path)


def test_a_full_disk_takes_its_partitions_offline_and_no_others(disks: Disks) -> None:
    sound, failing = (disks.partitions_on(path) for path in disks.paths)
    victim, *others = failing
    with RawClient(disks.broker.port) as client:
        for index in (*sound, *others):
            for _ in range(5):
                assert disks.write(client, index) is ErrorCode.NONE
        with full_disk(disks.paths[1] / f"{TOPIC}-{victim}"):
            assert disks.write(client, victim) is STORAGE_ERROR
            for index in failing:
                assert disks.write(client, index) is STORAGE_ERROR
                assert fetched_code(client, index) is STORAGE_ERROR
            for index in sound:
                assert disks.write(client, index) is ErrorCode.NONE
            disks.check_all_there(client, sound)
            assert offline_partitions(client) == failing
        assert f"log directory {disks.paths[1]} is offline" in disks.broker.logs
        assert "No space left on device" in disks.broker.logs
    disks.broker.restart()
    with RawClient(disks.broker.port) as client:
        disks.check_all_there(client, [*sound, *failing])
        for index in range(PARTITIONS):
            assert disks.write(client, index) is ErrorCode.NONE


def test_a_request_for_both_disks_fails_for_one_of_them(disks: Disks) -> None:
    """Also the waiting fetch of a consumer fails at once, not at its deadline."""
    sound, failing = (disks.partitions_on(path)[0] for path in disks.paths)
    with RawClient(disks.broker.port) as client, RawClient(disks.broker.port) as consumer:
        consumer.send(fetch_request(TOPIC, {failing: 0}, max_wait_ms=25_000), 12)
        with full_disk(disks.paths[1] / f"{TOPIC}-{failing}"):
            request = produce_request(TOPIC, {sound: batch_of([b"one"]), failing: batch_of([b"two"])})
            answers = client.call(request, 9).responses[0].partition_responses
        assert {answer.index: answer.error_code for answer in answers} == {sound: 0, failing: STORAGE_ERROR}
        waited = consumer.answer(messages.FetchRequest, 12).responses[0].partitions[0]
        assert waited.error_code == STORAGE_ERROR


def test_a_directory_that_is_moved_away_goes_offline(tmp_path: Path) -> None:
    """As when a disk is unmounted under a running broker. It comes back with the next start."""
    disks = Disks(tmp_path, {"log.initial.task.delay.ms": 10, "replica.high.watermark.checkpoint.interval.ms": 20})
    away = tmp_path / "away"
    with disks.broker as broker:
        broker.create_topic(TOPIC, PARTITIONS, config={"segment.bytes": 2000})
        sound, failing = (disks.partitions_on(path) for path in disks.paths)
        with RawClient(broker.port) as client:
            for index in range(PARTITIONS):
                assert disks.write(client, index) is ErrorCode.NONE
            disks.paths[1].rename(away)
            wait_until(
                lambda: all(disks.write(client, index, 300) is STORAGE_ERROR for index in failing), "it is offline"
            )
            for index in sound:
                assert disks.write(client, index) is ErrorCode.NONE
        away.rename(disks.paths[1])
        broker.restart()
        with RawClient(broker.port) as client:
            disks.check_all_there(client, list(range(PARTITIONS)))


def test_the_last_directory_to_fail_stops_the_broker(tmp_path: Path) -> None:
    """A broker that can store nothing must not pretend; what it had acknowledged is there after the repair."""
    broker = Broker(process=True, data_dir=tmp_path)
    broker.start()
    broker.create_topic(TOPIC, 2)
    process = psutil.Process(broker.pid)
    with RawClient(broker.port) as client:
        assert produce(client, TOPIC, 0, batch_of([b"kept"])).error_code == ErrorCode.NONE
        with full_disk(tmp_path / f"{TOPIC}-1"):
            with suppress(ConnectionError):
                assert produce(client, TOPIC, 1, batch_of([b"lost"])).error_code == STORAGE_ERROR
            wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE, "the process ends")
    with pytest.raises(BrokerFailed, match="exit code 1"):
        broker.stop()
    assert "every log directory has failed" in broker.logs
    with broker, RawClient(broker.port) as client:
        assert [record.value for record in fetch_records(client, TOPIC, 0)] == [b"kept"]
        assert fetch_records(client, TOPIC, 1) == []


def test_a_directory_that_is_missing_at_the_start_is_offline_not_empty(disks: Disks) -> None:
    """Its partitions must not be created elsewhere: that would be two logs of one partition, one of them empty."""
    sound, failing = (disks.partitions_on(path) for path in disks.paths)
    with RawClient(disks.broker.port) as client:
        for index in range(PARTITIONS):
            assert disks.write(client, index) is ErrorCode.NONE
    disks.broker.kill()
    away = disks.paths[1].rename(disks.paths[1].with_name("away"))
    disks.paths[1].write_text("this is no directory")
    disks.broker.start()
    with RawClient(disks.broker.port) as client:
        for index in failing:
            assert disks.write(client, index) is STORAGE_ERROR
            assert fetched_code(client, index) is STORAGE_ERROR
        for index in sound:
            assert disks.write(client, index) is ErrorCode.NONE
        assert offline_partitions(client) == failing
        assert disks.partitions_on(disks.paths[0]) == sound
        disks.broker.create_topic("new", 2)
        assert produce(client, "new", 0, batch_of([b"value"])).error_code == ErrorCode.NONE
    disks.broker.kill()
    disks.paths[1].unlink()
    away.rename(disks.paths[1])
    disks.broker.start()
    with RawClient(disks.broker.port) as client:
        disks.check_all_there(client, list(range(PARTITIONS)))


def test_the_first_directory_must_be_there_because_it_holds_the_metadata(disks: Disks) -> None:
    """Without it the broker knows neither its topics nor itself, and must not start empty in the second."""
    with RawClient(disks.broker.port) as client:
        topic_id = describe_topic(client, TOPIC).topic_id
        for index in range(PARTITIONS):
            assert disks.write(client, index) is ErrorCode.NONE
    disks.broker.kill()
    away = disks.paths[0].rename(disks.paths[0].with_name("away"))
    disks.paths[0].write_text("this is no directory")
    with pytest.raises(BrokerFailed, match="disk-1"):
        disks.broker.start()
    disks.paths[0].unlink()
    away.rename(disks.paths[0])
    disks.broker.start()
    with RawClient(disks.broker.port) as client:
        assert describe_topic(client, TOPIC).topic_id == topic_id
        disks.check_all_there(client, list(range(PARTITIONS)))


# --- a file system of its own ---


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    path = tmp_path / "disk-2"
    path.mkdir()
    if os.geteuid() != 0 or subprocess.run(mount("-t", "tmpfs", "-o", "size=2m", "none", path), check=False).returncode:
        pytest.skip("a small file system needs the right to mount one")
    yield path
    for _ in range(50):
        if not subprocess.run(["umount", path], capture_output=True, check=False).returncode:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} stays mounted")


def mount(*words: object) -> list[str]:
    return ["mount", *map(str, words)]


@pytest.mark.parametrize("config", [{}, {"flush.messages": 1}, {"preallocate": "true"}], ids=str)
def test_a_file_system_that_fills_up_keeps_what_was_acknowledged(
    tmp_path: Path, small_disk: Path, config: dict[str, object]
) -> None:
    """Writes may stop half-way through a batch or an index; after the repair the log ends where it was acknowledged."""
    disks = Disks(tmp_path)
    with disks.broker as broker:
        broker.create_topic(TOPIC, PARTITIONS, config={"segment.bytes": 50_000, "index.interval.bytes": 100, **config})
        sound, failing = (disks.partitions_on(path) for path in disks.paths)
        with RawClient(broker.port) as client:
            codes = {ErrorCode.NONE}
            while codes == {ErrorCode.NONE}:
                codes = {disks.write(client, index, 3000) for index in failing}
            assert codes <= {ErrorCode.NONE, STORAGE_ERROR}
            wait_until(lambda: all(disks.write(client, index) is STORAGE_ERROR for index in failing), "it is offline")
            for index in sound:
                assert disks.write(client, index) is ErrorCode.NONE
        subprocess.run(mount("-o", "remount,size=64m", small_disk), check=True)
        broker.restart()
        with RawClient(broker.port) as client:
            disks.check_all_there(client, list(range(PARTITIONS)))
            for index in range(PARTITIONS):
                assert disks.write(client, index) is ErrorCode.NONE
        assert sum(map(len, disks.values.values())) > 300


def test_no_room_for_the_metadata_is_an_error_of_the_request(tmp_path: Path, small_disk: Path) -> None:
    """Topics cannot be made while the disk with the metadata is full. The broker says so, and does it later."""
    other = tmp_path / "disk-1"
    subprocess.run(mount("-o", "remount,size=16m", small_disk), check=True)
    broker = Broker({"log.dirs": [small_disk, other]}, process=True, data_dir=small_disk)
    with broker, RawClient(broker.port) as client:
        broker.create_topic(TOPIC, 2)
        filler = small_disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                continue
        new = create_topics.CreatableTopic(name="new", num_partitions=200, replication_factor=1)
        result = client.call(messages.CreateTopicsRequest(topics=[new], timeout_ms=5000)).topics[0]
        assert result.error_code not in (ErrorCode.NONE,), result
        assert "Traceback" not in broker.logs
        subprocess.run(mount("-o", "remount,size=64m", small_disk), check=True)
        filler.unlink()
        broker.restart()
        with RawClient(broker.port) as client:
            for topic in (TOPIC, "new"):
                if describe_topic(client, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    assert topic == "new"
                    broker.create_topic(topic, 2)
                assert produce(client, topic, 0, batch_of([b"value"])).error_code == ErrorCode.NONE


# --- seen from inside ---


@pytest.mark.parametrize("ask", ["fetch", "list offsets"])
def test_a_disk_that_cannot_be_read_goes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    """Reading is how a dying disk is often noticed first."""
    first, second = tmp_path / "disk-1", tmp_path / "disk-2"
    with Inside(first, {"log.dirs": [first, second]}) as broker, RawClient(broker.port) as client:
        with Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1, {})])
        failing = 0 if (second / f"{TOPIC}-0").exists() else 1
        for index in (0, 1):
            for _ in range(3):
                assert produce(client, TOPIC, index, batch_of([b"value"])).error_code == ErrorCode.NONE
        read = LogFile.read

        def refuse(file: LogFile, position: int, length: int) -> bytes:
            if file.path.startswith(str(second)):
                raise OSError(errno.EIO, "Input/output error")
            return read(file, position, length)

        monkeypatch.setattr(LogFile, "read", refuse)
        if ask == "fetch":
            response = client.call(fetch_request(TOPIC, {0: 1, 1: 1}, max_wait_ms=0), 12).responses[0]
            codes = {partition.partition_index: partition.error_code for partition in response.partitions}
        else:
            asked = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=1) for index in (0, 1)]
            topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=asked)
            found = client.call(messages.ListOffsetsRequest(replica_id=-1, topics=[topic]), 5).topics[0]
            codes = {partition.partition_index: partition.error_code for partition in found.partitions}
        assert codes == {failing: STORAGE_ERROR, 1 - failing: ErrorCode.NONE}
        monkeypatch.undo()
        assert produce(client, TOPIC, failing, batch_of([b"value"])).error_code == STORAGE_ERROR
        assert produce(client, TOPIC, 1 - failing, batch_of([b"value"])).error_code == ErrorCode.NONE


def test_coordinators_give_up_what_was_on_a_failed_disk(tmp_path: Path) -> None:
    """Fails on 4724f6e, where they went on with groups that they could no longer write."""
    paths = [str(tmp_path / "disk-1"), str(tmp_path / "disk-2")]
    settings = {"log.dirs": ",".join(paths), "offsets.topic.num.partitions": 4}
    with Inside(tmp_path / "disk-1", settings) as broker, RawClient(broker.port) as client:
        assert client.call(messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators
        groups = broker.node.groups
        logs = [broker.node.log_manager.get_log("__consumer_offsets", index) for index in range(4)]
        on_disk = {path: [log.partition for log in logs if log and log.parent_directory == path] for path in paths}
        assert all(on_disk.values())
        assert broker.on_loop(groups.runtime.active_partitions) == [0, 1, 2, 3]
        failure = LogDirFailure(paths[1], OSError(errno.EIO, "Input/output error"))
        broker.on_loop(lambda: broker.node.replica_manager.fail_log_dir(failure))
        wait_until(lambda: broker.on_loop(groups.runtime.active_partitions) == on_disk[paths[0]], "groups are given up")
        names = (f"group-{number}" for number in range(100))
        name = next(each for each in names if groups.partition_of(each) in on_disk[paths[1]])
        (answer,) = client.call(messages.DescribeGroupsRequest(groups=[name])).groups
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
