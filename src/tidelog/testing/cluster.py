"""A cluster for tests: several brokers, a process each, on free ports, in a directory that goes away with it.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=6)
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
        ...
        cluster.kill(cluster.leader_of("orders", 0))

The metadata tree is kept by this process, unless a ZooKeeper is named.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tidelog.cluster.layout import ClusterDirectory
from tidelog.cluster.supervisor import Supervisor, new_description
from tidelog.testing._settings import setting_text
from tidelog.testing._topics import BROKERS_DEFAULT, create_topic

T = TypeVar("T")

# Waits and numbers that help a production cluster and only slow a test down.
_TEST_DEFAULTS: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}


class Cluster:
    """Brokers 1 to `brokers`, alive between `start` and `stop`, or inside `with`."""

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, object] | None = None,
        *,
        broker_config: Mapping[int, Mapping[str, object]] | None = None,
        zookeeper: str | None = None,
        data_dir: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """`config` is for all brokers, `broker_config` for single brokers by their ids."""
        self.timeout_s = timeout_s
        self._own_dir = None if data_dir is not None else tempfile.mkdtemp(prefix="tidelog-cluster-")
        self.directory = ClusterDirectory(data_dir or str(self._own_dir))
        settings = {name: setting_text(value) for name, value in {**_TEST_DEFAULTS, **(config or {})}.items()}
        if self.directory.exists():
            self._description = self.directory.read()
        else:
            self._description = new_description(brokers, settings=settings, zookeeper=zookeeper)
            for broker_id, own in (broker_config or {}).items():
                texts = {name: setting_text(value) for name, value in own.items()}
                self._description.broker(broker_id).settings = texts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._supervisor: Supervisor | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start all brokers and return when they serve. Raises ClusterError with the reason."""
        if self._thread is not None:
            raise RuntimeError("this cluster runs already")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog-cluster", daemon=True)
        self._thread.start()
        self._supervisor = Supervisor(self.directory, self._description)
        try:
            self._call(self._supervisor.start())
        except BaseException:
            self._end_thread()
            self._remove_data()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers in order and remove their data. Does nothing when the cluster does not run."""
        if self._supervisor is not None and self._loop is not None:
            try:
                self._call(self._supervisor.close())
            finally:
                self._end_thread()
        self._remove_data()

    # --- brokers ---

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` of all brokers, as every Kafka client takes it."""
        return self._description.bootstrap_servers

    @property
    def broker_ids(self) -> list[int]:
        return [broker.broker_id for broker in self._description.brokers]

    def address_of(self, broker_id: int) -> str:
        return f"{self._description.host}:{self._description.broker(broker_id).port}"

    def pid_of(self, broker_id: int) -> int:
        """0 while it does not run."""
        return self._description.broker(broker_id).pid

    def logs_of(self, broker_id: int) -> str:
        """Everything the broker has logged."""
        return self.directory.log_of(broker_id).read_text(errors="replace")

    def is_running(self, broker_id: int) -> bool:
        return self._running().is_running(broker_id)

    def kill(self, broker_id: int) -> None:
        """kill -9."""
        self._call(self._running().kill(broker_id))

    def restart(self, broker_id: int) -> None:
        """Stop a broker in order, if it runs, and start it again: same port, same data."""
        self._call(self._running().restart(broker_id))

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in order and leave it so."""
        self._call(self._running().stop(broker_id))

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""
        self._running().signal(broker_id, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._running().signal(broker_id, signal.SIGCONT)

    def add_broker(self) -> int:
        """Start one more broker; its id."""
        return self._call(self._running().add()).broker_id

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        replication_factor: int = BROKERS_DEFAULT,
    ) -> None:
        """Create a topic; when this returns, clients can use it. By default three brokers have its replicas."""
        create_topic(self.bootstrap_servers, name, partitions, config, replication_factor, self.timeout_s)

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; -1 if none does."""
        from tidelog.client import Admin

        with Admin({"bootstrap.servers": self.bootstrap_servers}) as admin:
            return admin.describe_topics([topic])[topic].partitions[partition].leader_id

    def controller_id(self) -> int:
        """The broker that is the controller."""
        from tidelog.client import Admin

        with Admin({"bootstrap.servers": self.bootstrap_servers}) as admin:
            return admin.describe_cluster().controller_id

    # --- the supervisor's thread ---

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise RuntimeError("this cluster does not run")
        return self._supervisor

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "the cluster was started"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(self.timeout_s)

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = self._supervisor = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _remove_data(self) -> None:
        if self._own_dir is not None:
            shutil.rmtree(self._own_dir, ignore_errors=True)
