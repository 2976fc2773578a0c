"""Replicas move between the log directories of a broker while they serve, through kills, restarts and deletions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.effort import usually
from tests.integration.cli_support import run_here
from tests.integration.writers import wait_until
from tidelog.client import Admin, Consumer, Producer, TopicPartition
from tidelog.client.aio.admin.types import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ReplicaOnDisk,
    ResourceType,
    TopicPartitionReplica,
)
from tidelog.client.errors import ApiError
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
VALUE = bytes(50_000)
WHERE = TopicPartition("orders", 0)


class World:
    """A broker with three log directories, and what a test does to it."""

    def __init__(self, root: Path, *, process: bool = False) -> None:
        self.directories = [str(root / name) for name in ("one", "two", "three")]
        config = {
            "log.dirs": ",".join(self.directories),
            "log.segment.bytes": 1_000_000,
            "log.segment.delete.delay.ms": 0,
            "broker.id": 1,
        }
        self.broker = Broker(config, process=process, data_dir=root / "data")
        self.sent: list[bytes] = []

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.broker.bootstrap_servers)

    def produce(self, count: int) -> None:
        values = [b"%08d" % (len(self.sent) + number) + VALUE for number in range(count)]
        with Producer(bootstrap_servers=self.broker.bootstrap_servers, enable_idempotence=True) as producer:
            for value in values:
                producer.send("orders", value, partition=0)
        self.sent += [value[:8] for value in values]

    def consumed(self) -> list[bytes]:
        """The first bytes of every record, from the start."""
        found: list[bytes] = []
        with Consumer(bootstrap_servers=self.broker.bootstrap_servers) as consumer:
            consumer.assign([WHERE])
            consumer.seek_to_beginning(WHERE)
            while len(found) < len(self.sent):
                found += [(record.value or b"")[:8] for record in consumer.poll(10)]
        return found

    def replicas(self) -> dict[str, ReplicaOnDisk]:
        """The log and its copy, by directory."""
        with self.admin() as admin:
            (directories,) = admin.describe_log_dirs([1], [WHERE]).values()
        return {each.path: each.replicas[WHERE] for each in directories if WHERE in each.replicas}

    def place(self) -> str:
        """The directory of the log."""
        return next(path for path, replica in self.replicas().items() if not replica.is_future)

    def other(self, number: int = 0) -> str:
        """A directory that the log is not in."""
        place = self.place()
        return [path for path in self.directories if path != place][number]

    def move(self, path: str) -> None:
        with self.admin() as admin:
            admin.alter_replica_log_dirs({TopicPartitionReplica("orders", 0, 1): path})

    def limit(self, bytes_per_second: int | None) -> None:
        operation = AlterOperation.DELETE if bytes_per_second is None else AlterOperation.SET
        change = ConfigChange(RATE, None if bytes_per_second is None else str(bytes_per_second), operation)
        with self.admin() as admin:
            admin.incremental_alter_configs({ConfigResource(ResourceType.BROKER, "1"): [change]})

    def wait_for(self, condition: Callable[[dict[str, ReplicaOnDisk]], object], what: str) -> None:
        wait_until(lambda: bool(condition(self.replicas())), what)

    def names(self) -> set[str]:
        """Directories of the topic, on all disks, as `disk/name` without what is unique."""
        found = (path for directory in self.directories for path in Path(directory).glob("orders-*"))
        return {f"{path.parent.name}/{path.name.partition('.')[0]}{path.suffix[33:]}" for path in found}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    with world.broker:
        world.broker.create_topic("orders")
        yield world


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[World]:
    """A broker that is a process."""
    world = World(tmp_path, process=True)
    with world.broker:
        world.broker.create_topic("orders")
        yield world


def is_in(path: str) -> Callable[[dict[str, ReplicaOnDisk]], bool]:
    return lambda replicas: list(replicas) == [path] and not replicas[path].is_future


def test_a_replica_moves_while_it_is_written(world: World) -> None:
    """The writer never stops, and is never refused."""
    world.produce(60)
    target, is_over = world.other(), Event()

    def write() -> None:
        while not is_over.is_set():
            world.produce(5)

    writer = Thread(target=write)
    writer.start()
    try:
        world.move(target)
        world.wait_for(is_in(target), "the move to end")
    finally:
        is_over.set()
        writer.join()
    assert world.consumed() == world.sent
    wait_until(lambda: world.names() == {f"{Path(target).name}/orders-0"}, "the old directory to be removed")
    world.broker.restart()
    assert world.place() == target
    world.produce(1)
    assert world.consumed() == world.sent


@pytest.mark.parametrize("kills", usually([1], [1, 4]))
def test_a_kill_in_the_middle_of_a_move_costs_nothing_and_the_move_goes_on(killable: World, kills: int) -> None:
    world = killable
    world.produce(60)
    place, target = world.place(), world.other()
    world.limit(300_000)
    world.move(target)
    world.wait_for(lambda found: found[target].is_future and found[target].size_bytes > 500_000, "a part to be copied")
    for _ in range(kills):
        world.broker.kill()
        assert world.names() == {f"{Path(place).name}/orders-0", f"{Path(target).name}/orders-0-future"}
        world.broker.start()
        copied = world.replicas()[target].size_bytes
        assert copied > 500_000, "what was copied before counts"
        world.produce(3)
        world.wait_for(lambda found, copied=copied: found[target].size_bytes > copied, "more to be copied")  # type: ignore[misc]
        assert world.place() == place, "it moves slowly"
    world.limit(None)
    world.wait_for(is_in(target), "the move to end")
    assert world.consumed() == world.sent
    world.broker.kill()
    world.broker.start()
    assert world.consumed() == world.sent


def test_a_move_is_sent_elsewhere_and_called_off(world: World) -> None:
    world.produce(40)
    place, first, second = world.place(), world.other(0), world.other(1)
    world.limit(100_000)
    world.move(first)
    world.wait_for(lambda found: first in found, "the move to begin")
    world.move(second)
    world.wait_for(lambda found: set(found) == {place, second} and found[second].is_future, "the other target")
    world.move(place)
    world.wait_for(is_in(place), "the move to end")
    wait_until(lambda: world.names() == {f"{Path(place).name}/orders-0"}, "the copies to be removed")
    assert world.consumed() == world.sent


def test_a_topic_that_is_deleted_takes_its_copy_with_it(world: World) -> None:
    world.produce(40)
    target = world.other()
    world.limit(100_000)
    world.move(target)
    world.wait_for(lambda found: target in found, "the move to begin")
    with world.admin() as admin:
        admin.delete_topics(["orders"])
    wait_until(lambda: world.names() == set(), "everything to be removed")


def test_a_partition_that_does_not_exist_yet_is_created_where_it_was_sent(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The first answer is REPLICA_NOT_AVAILABLE, after which clients ask again."""
    caplog.set_level("INFO")
    target = world.directories[2]
    replicas = {TopicPartitionReplica("later", index, 1): target for index in range(3)}
    with world.admin() as admin, Admin(bootstrap_servers=world.broker.bootstrap_servers) as other:
        asking = Thread(target=admin.alter_replica_log_dirs, args=(replicas,))
        asking.start()
        wait_until(lambda: "does not move" in caplog.text, "the broker to remember it")
        world.broker.create_topic("later", 3)
        asking.join()
        (directories,) = other.describe_log_dirs([1], [TopicPartition("later", index) for index in range(3)]).values()
    assert {each.path: len(each.replicas) for each in directories if each.replicas} == {target: 3}


def test_directories_that_are_not_there_are_refused(world: World) -> None:
    with pytest.raises(ApiError) as refused:
        world.move("/no/such/directory")
    assert refused.value.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_the_command_line_moves_and_verifies_log_directories(world: World, tmp_path: Path) -> None:
    world.produce(30)
    servers, place, target = world.broker.bootstrap_servers, world.place(), world.other()
    entry = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [target]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    begun = run_here("reassign", "execute", str(plan), "--replica-alter-log-dirs-throttle", "50000", server=servers)
    assert begun.document["partitions"][0]["log_dirs"] == [place]
    assert run_here("reassign", "verify", str(plan), server=servers).code == 3
    cancelled = run_here("reassign", "cancel", str(plan), "--format", "json", server=servers)
    assert cancelled.document == [{"topic": "orders", "partition": 0}]
    assert world.place() == place
    assert run_here("reassign", "execute", str(plan), server=servers).code == 0
    wait_until(lambda: run_here("reassign", "verify", str(plan), server=servers).code == 0, "the move to end")
    assert world.place() == target
    assert world.consumed() == world.sent
