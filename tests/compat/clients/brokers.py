"""The broker under test: ours; or, to test the tests, Apache Kafka.

With `TIDELOG_COMPAT_TARGET=kafka` every test of this folder runs against Kafka 3.9.1 in ZooKeeper mode, as far as Java
and the jars are there. A claim that Kafka does not meet is not a claim about compatibility: such a test is wrong, or
says by `ours_alone` that we mean to differ.
"""

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pytest

from tests.unit.present import present
from tidelog.testing._settings import setting_text

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from benchmarks.apache_kafka import KafkaBroker, ZooKeeper

IS_KAFKA = os.environ.get("TIDELOG_COMPAT_TARGET") == "kafka"

ours_alone = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka does this in another way")


class ApacheKafka:
    """Apache Kafka behind the interface of `tidelog.testing.Broker`, as far as it is used here."""

    def __init__(
        self, config: Mapping[str, object] | None = None, *, process: bool = True, data_dir: str | None = None
    ) -> None:
        from benchmarks import apache_kafka

        reason = apache_kafka.unavailable_reason()
        if reason is not None:
            pytest.skip(reason)
        self._home = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        root = {"zookeeper.connect": f"{_zookeeper().connect_string}/{self._home.name}"}
        settings = {name: setting_text(value) for name, value in (config or {}).items()}
        self._kafka: KafkaBroker = apache_kafka.KafkaBroker(self._home, _zookeeper(), {**root, **settings})
        if "listeners" in settings:
            self._kafka.port = int(settings["listeners"].split(",")[0].rpartition(":")[2])

    def __enter__(self) -> Self:
        self._kafka.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kafka.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def restart(self) -> None:
        """Stop it in order, start it again, and wait until what it had has leaders again."""
        before = self._partition_counts()
        self._kafka.stop()
        self._kafka.start()
        self._wait_for(before)

    @property
    def host(self) -> str:
        return self._kafka.address[0]

    @property
    def port(self) -> int:
        return self._kafka.port

    @property
    def bootstrap_servers(self) -> str:
        return self._kafka.bootstrap_servers

    @property
    def data_dir(self) -> str:
        return str(self._kafka.log_dir)

    def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, object] | None = None) -> None:
        """Create a topic and wait until every partition has a leader, which takes Kafka a moment longer than us."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        settings = {key: str(value) for key, value in (config or {}).items()}
        admin = self._admin()
        deadline = time.monotonic() + 30
        while True:
            try:
                admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(20)
            except KafkaException as error:
                # A deleted topic is in the way until the controller has cleared it away.
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                break
        self._wait_for({name: partitions})

    def _admin(self) -> "AdminClient":
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def _partition_counts(self) -> dict[str, int]:
        """The topics, each with the number of its partitions that have a leader."""
        return {
            present(topic.topic): sum(partition.leader >= 0 for partition in topic.partitions.values())
            for topic in self._admin().list_topics(timeout=10).topics.values()
        }

    def _wait_for(self, counts: Mapping[str, int]) -> None:
        deadline = time.monotonic() + 30
        while not counts.items() <= self._partition_counts().items():
            assert time.monotonic() < deadline, f"{counts} are not all there"
            time.sleep(0.01)


@cache
def _zookeeper() -> "ZooKeeper":
    from benchmarks.apache_kafka import ZooKeeper

    home = Path(tempfile.mkdtemp(prefix="zookeeper-"))
    server = ZooKeeper(home).start()
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    atexit.register(server.stop)
    return server


if TYPE_CHECKING or not IS_KAFKA:
    from tidelog.testing import Broker as Broker
else:
    Broker = ApacheKafka
