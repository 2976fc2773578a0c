"""Three brokers of one kind on one ZooKeeper, which a case uses like one broker, or one by one.

The clusters of a run share the ZooKeeper, each under its own root node, and have the same settings: what an operator
sets for three brokers, and a session timeout that keeps a run short. Everything else is each broker's default.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from kazoo.client import KazooClient

from benchmarks.admin import Admin, AdminError
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess, Child, ProcessFailedError, Usage
from benchmarks.tidelog_broker import TidelogBroker

BROKERS: Final = 3
SESSION_TIMEOUT_S: Final = 6.0
ZOOKEEPER_SETTINGS: Final = {"tickTime": "200"}
"""A session's end is noticed at a tick. The default of three seconds would be most of what a failover takes."""
SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "zookeeper.session.timeout.ms": f"{SESSION_TIMEOUT_S * 1000:.0f}",
    # By default a session's time is all that a broker gives its first connection; a loaded machine may need more.
    "zookeeper.connection.timeout.ms": "60000",
    "log.segment.delete.delay.ms": "1000",
    "log.initial.task.delay.ms": "500",
}
_SERVES_SECONDS_MAX: Final = 300.0
_POLL_SECONDS: Final = 0.005

Found = TypeVar("Found")
MakeMember = Callable[[Path, Mapping[str, str]], BrokerProcess]


class BrokerCluster(BrokerProcess):
    """Brokers 1 to 3. As a single broker it is the first of them, with the memory and processor time of all."""

    start_seconds_max = _SERVES_SECONDS_MAX

    def __init__(self, directory: Path, make_member: MakeMember, root: str) -> None:
        """`root` is the ZooKeeper, and the root node, of this cluster alone."""
        super().__init__(directory)
        self._root = root
        self.members = {
            broker_id: make_member(directory / f"broker-{broker_id}", {**SETTINGS, "broker.id": str(broker_id)})
            for broker_id in range(1, BROKERS + 1)
        }
        self.name = self.members[1].name
        self.port = self.members[1].port

    def command(self) -> list[str]:
        return self.members[1].command()

    @property
    def child(self) -> Child:
        return self.members[1].child

    def spawn(self) -> None:
        for member in self.members.values():
            member.spawn()

    def wait_until_serves(self) -> None:
        """Every broker knows of all the others and of a controller."""
        deadline = time.monotonic() + self.start_seconds_max
        waiting = dict(self.members)
        while waiting and time.monotonic() < deadline:
            for broker_id, member in list(waiting.items()):
                member.child.check_alive()
                with contextlib.suppress(OSError, AdminError), Admin.connect(member.address) as admin:
                    if admin.serves(BROKERS):
                        del waiting[broker_id]
            time.sleep(0.02)
        if waiting:
            self.kill()
            raise ProcessFailedError(f"{self.name} did not serve within {self.start_seconds_max:.0f} s")

    def stop(self) -> None:
        for member in self.members.values():
            member.stop()

    def kill(self) -> None:
        for member in self.members.values():
            member.kill()

    def usage(self) -> Usage:
        every = [member.usage() for member in self.running().values()]
        return Usage(sum(each.cpu_seconds for each in every), sum(each.resident_bytes for each in every))

    # --- one by one ---

    def running(self) -> dict[int, BrokerProcess]:
        return {broker_id: member for broker_id, member in self.members.items() if member.is_spawned}

    @contextmanager
    def admin(self, broker_id: int | None = None) -> Iterator[Admin]:
        """A control connection to a broker; to the controller if none is named, as CreateTopics needs it."""
        with Admin.connect(self.members[broker_id or self.controller()].address) as admin:
            yield admin

    def controller(self) -> int:
        """The broker that every running broker takes for the controller, which runs."""
        return self.wait_for(self._agreed_controller, "a controller")

    def _agreed_controller(self) -> int | None:
        found = set()
        for member in self.running().values():
            with Admin.connect(member.address) as admin:
                found.add(admin.registered()[1])
        return found.pop() if len(found) == 1 and found <= set(self.running()) else None

    def in_sync(self, topic: str) -> bool:
        """Whether every partition of a topic has a leader and all replicas in sync, by the controller's word."""
        with self.admin() as admin:
            description = admin.describe(topic)
        return description.is_led and min(description.in_sync) == BROKERS

    def kill_member(self, broker_id: int) -> SessionEnd:
        """kill -9 one broker; returns what waits for the end of its session in ZooKeeper."""
        end = SessionEnd(self._root, broker_id)
        self.members[broker_id].kill()
        return end

    def restart(self, broker_id: int) -> None:
        """Start a broker that is down; return when it is registered."""
        self.members[broker_id].start()
        self.wait_until_serves()

    def wait_for(self, find: Callable[[], Found | None], what: str) -> Found:
        """What `find` returns as soon as it is neither None nor False; what it raises meanwhile is not of interest."""
        deadline = time.monotonic() + _SERVES_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, AdminError):
                found = find()
                if found is not None and found is not False:
                    return found
            time.sleep(_POLL_SECONDS)
        raise ProcessFailedError(f"{self.name}: no {what} within {_SERVES_SECONDS_MAX:.0f} s")


class SessionEnd:
    """When ZooKeeper ended the session of a broker: until then no other broker can know that it is gone.

    A session ends after its timeout, counted from the last heartbeat. When that was is chance, so what the brokers take
    is counted from here.
    """

    def __init__(self, root: str, broker_id: int) -> None:
        self._client = KazooClient(root)
        self._client.start(timeout=60)
        self._ended = threading.Event()
        self._at = 0.0
        if self._client.exists(f"/brokers/ids/{broker_id}", watch=self._on_change) is None:
            raise ProcessFailedError(f"broker {broker_id} is not registered in ZooKeeper")

    def _on_change(self, _event: object) -> None:
        self._at = time.perf_counter()
        self._ended.set()

    def wait(self) -> float:
        """The time at which it ended, by `time.perf_counter`."""
        has_ended = self._ended.wait(_SERVES_SECONDS_MAX)
        self._client.stop()
        self._client.close()
        if not has_ended:
            raise ProcessFailedError(f"ZooKeeper did not end a session within {_SERVES_SECONDS_MAX:.0f} s")
        return self._at


def tidelog_cluster(zookeeper: ZooKeeper) -> Callable[[Path], BrokerCluster]:
    """Makes clusters of ours."""

    def make(directory: Path) -> BrokerCluster:
        root = f"{zookeeper.connect_string}/{directory.name}"
        connect = {"zookeeper.connect": root}
        return BrokerCluster(directory, lambda place, settings: TidelogBroker(place, {**settings, **connect}), root)

    return make


def kafka_cluster(zookeeper: ZooKeeper) -> Callable[[Path], BrokerCluster]:
    """Makes clusters of Apache Kafka."""

    def make(directory: Path) -> BrokerCluster:
        root = f"{zookeeper.connect_string}/{directory.name}"
        connect = {"zookeeper.connect": root}

        def make_member(place: Path, settings: Mapping[str, str]) -> BrokerProcess:
            return KafkaBroker(place, zookeeper, {**settings, **connect})

        return BrokerCluster(directory, make_member, root)

    return make
