"""The broker under test: ours; or, to test the tests, Apache Kafka.

With `TIDELOG_COMPAT_TARGET=kafka` every test of this folder runs against Kafka 3.9.1 in ZooKeeper mode, as far as Java
and the jars are there. A claim that Kafka does not meet is not a claim about compatibility: such a test is wrong, or
says by `ours_alone` that we mean to differ.
"""

import atexit
import os
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
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
        settings = {name: str(value).lower() for name, value in (config or {}).items()}
        if "listeners" in settings:
            settings.update((name, str(value)) for name, value in (config or {}).items())
        self._kafka: KafkaBroker = apache_kafka.KafkaBroker(self._home, _zookeeper(), {**root, **settings})

    def __enter__(self) -> Self:
        self._kafka.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kafka.kill()

    def restart(self) -> None:
        self._kafka.stop()
        self._kafka.start()

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
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        settings = {key: str(value) for key, value in (config or {}).items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(20)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            described = admin.list_topics(timeout=10).topics.get(name)
            leaders = [] if described is None else [each.leader for each in described.partitions.values()]
            if len(leaders) == partitions and min(leaders) >= 0:
                return
            time.sleep(0.01)


@cache
def _zookeeper() -> "ZooKeeper":
    from benchmarks.apache_kafka import ZooKeeper

    server = ZooKeeper(Path(tempfile.mkdtemp(prefix="zookeeper-"))).start()
    atexit.register(server.stop)
    return server


if IS_KAFKA:
    Broker = ApacheKafka
else:
    from tidelog.testing import Broker as Broker
