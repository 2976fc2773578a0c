"""Replicas that Kafka's own tool, and kafka-python, move between the log directories of a broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks import frames
from benchmarks.admin import Admin
from benchmarks.apache_kafka import run_tool
from benchmarks.processes import BrokerProcess
from tests.compat.kafka_tools.brokers import MakeBroker
from tests.compat.kafka_tools.test_command_line_tools import LOG_DIRS, REASSIGN_PARTITIONS, tool
from tests.integration.writers import wait_until


class World(NamedTuple):
    """A broker with two log directories."""

    broker: BrokerProcess
    directories: list[str]


@pytest.fixture(scope="module")
def world(make_broker: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("moves")
    directories = [str(root / name) for name in ("one", "two")]
    settings = {"broker.id": "0", "log.dirs": ",".join(directories), "auto.create.topics.enable": "false"}
    with make_broker(root, settings) as running:
        yield World(running, directories)


def place_of(world: World, topic: str) -> str:
    found = [path for path in world.directories if (Path(path) / f"{topic}-0").is_dir()]
    return found[0] if len(found) == 1 else ""


def fill(world: World, topic: str, batches: int) -> tuple[str, str]:
    """Make a topic of a megabyte for each ten batches; the directory that it is in, and the other one."""
    with Admin.connect(world.broker.address) as admin:
        admin.create(topic)
        for _ in range(batches):
            admin.produce(topic, 0, frames.batch([bytes(100_000)]))
    place = place_of(world, topic)
    (other,) = [path for path in world.directories if path != place]
    return place, other


@pytest.mark.java
@pytest.mark.long
def test_kafka_reassign_partitions_moves_a_replica_between_log_directories(world: World, tmp_path: Path) -> None:
    _, target = fill(world, "tool", 30)
    plan = tmp_path / "plan.json"
    entry = {"topic": "tool", "partition": 0, "replicas": [0], "log_dirs": [target]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))

    def reassign(*words: str) -> str:
        return tool(world.broker, REASSIGN_PARTITIONS, "--reassignment-json-file", str(plan), *words)

    throttled = reassign("--execute", "--replica-alter-log-dirs-throttle", "200000")
    assert f"Successfully started moving log directory to {target} for replica tool-0 with broker 0" in throttled
    verified = reassign("--verify", "--preserve-throttles")
    assert "Reassignment of replica tool-0-0 is still in progress" in verified
    described = json.loads(tool(world.broker, LOG_DIRS, "--describe", "--topic-list", "tool").splitlines()[-1])
    parts = {
        directory["logDir"]: [(part["isFuture"], part["offsetLag"] > 0) for part in directory["partitions"]]
        for directory in described["brokers"][0]["logDirs"]
    }
    assert parts[target] == [(True, True)]
    reassign("--execute", "--additional", "--replica-alter-log-dirs-throttle", "1000000000")
    wait_until(
        lambda: "Reassignment of replica tool-0-0 completed successfully." in reassign("--verify"),
        "the move to end",
        60,
    )
    assert place_of(world, "tool") == target
    settings = run_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", world.broker.bootstrap_servers),
        *("--describe", "--entity-type", "brokers", "--entity-name", "0"),
    )
    assert "io.max.bytes" not in settings, "verify has removed the throttle"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_moves_a_replica_between_log_directories(world: World) -> None:
    from kafka import TopicPartitionReplica
    from kafka.admin import KafkaAdminClient
    from kafka.errors import LogDirNotFoundError, NoError, ReplicaNotAvailableError

    place, target = fill(world, "python", 3)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    try:
        replica, missing = TopicPartitionReplica("python", 0, 0), TopicPartitionReplica("python", 7, 0)
        assert admin.alter_replica_log_dirs({replica: "/no/such/directory"}) == {replica: LogDirNotFoundError}
        assert admin.alter_replica_log_dirs({replica: place, missing: place}) == {
            replica: NoError,
            missing: ReplicaNotAvailableError,
        }
        assert admin.alter_replica_log_dirs({replica: target}) == {replica: NoError}
        wait_until(lambda: place_of(world, "python") == target, "the move to end")
    finally:
        admin.close()
