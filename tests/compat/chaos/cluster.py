"""Three brokers as real processes whose connections to each other and to the metadata tree go through proxies.

Clients reach the brokers directly. The tree is a real ZooKeeper or the one that `tidelog cluster` serves. Each broker's
data is on a small disk of its own (a tmpfs) where this process may mount one; elsewhere a limit on the size of files
makes the disk full.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka.admin import ClusterMetadata
from kazoo.client import KazooClient

from tests.compat.chaos.network import TREE, Network
from tests.compat.chaos.observer import Observer, differing_logs
from tidelog.cluster.layout import ClusterDirectory, ClusterError
from tidelog.cluster.supervisor import free_ports
from tidelog.testing import Cluster
from tidelog.testing.zookeeper import HOST, ZooKeeperServer

BROKERS: Final = (1, 2, 3)
SESSION_MS: Final = 2_000
DISK_BYTES: Final = 128 << 20
_START_SECONDS_MAX: Final = 60.0
_TREE_UNREACHABLE: Final = (
    "has not replied within",
    "the session with ZooKeeper expired",
    "cannot be reached: it does not answer",
)
_SETTINGS: Final[dict[str, object]] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "zookeeper.connection.timeout.ms": 30_000,
    "replica.lag.time.max.ms": 3_000,
    "replica.socket.timeout.ms": 3_000,
    "replica.fetch.backoff.ms": 100,
    "controller.socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "request.timeout.ms": 3_000,
    "controlled.shutdown.retry.backoff.ms": 500,
    "auto.leader.rebalance.enable": True,
    "leader.imbalance.check.interval.seconds": 2,
    "log.segment.bytes": 200_000,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


class ChaosCluster:
    """The cluster and its surroundings; `tree` is "zookeeper" or "shared"."""

    def __init__(self, tree: str) -> None:
        self.tree = tree
        self._stack = contextlib.ExitStack()
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        self.network = Network()
        self._stack.callback(self.network.close)
        self.zookeeper = ZooKeeperServer() if tree == "zookeeper" else None
        self.mounted: set[int] = set()
        self.lock = threading.Lock()
        self.down: set[int] = set()
        """Brokers that a fault has taken down."""

    def start(self) -> ChaosCluster:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        if self.zookeeper is not None:
            self._stack.callback(self.zookeeper.stop)
            self.zookeeper.start()
        layout = ClusterDirectory(self.directory)
        own: dict[int, dict[str, object]] = {broker: self._metadata(broker, layout) for broker in BROKERS}
        clients, internal = free_ports(3, HOST), free_ports(3, HOST)
        for broker, port, inner in zip(BROKERS, clients, internal, strict=True):
            self._mount(broker)
            own[broker]["log.dirs"] = self.data_of(broker)
            proxied = self.network.to_broker(broker, inner)
            own[broker]["listeners"] = f"PLAINTEXT://{HOST}:{port},INTERNAL://{HOST}:{inner}"
            own[broker]["advertised.listeners"] = f"PLAINTEXT://{HOST}:{port},INTERNAL://{HOST}:{proxied}"
        self.servers = ",".join(f"{HOST}:{port}" for port in clients)
        self.observer = Observer(dict(zip(BROKERS, clients, strict=True)))
        zookeeper = None if self.zookeeper is None else f"{self.zookeeper.connect_string}/kafka"
        self.brokers = Cluster(
            len(BROKERS), _SETTINGS, broker_config=own, zookeeper=zookeeper, data_dir=str(self.directory)
        )
        self._stack.callback(self.brokers.stop)
        self._stack.callback(self._resume_all)
        if self.zookeeper is not None:
            with self.root() as client:
                client.ensure_path("/kafka")
        self.brokers.start()

    def close(self) -> None:
        self._stack.close()

    def _metadata(self, broker: int, layout: ClusterDirectory) -> dict[str, object]:
        if self.zookeeper is not None:
            port = self.network.to_zookeeper(broker, self.zookeeper.port)
            return {"zookeeper.connect": f"{HOST}:{port}/kafka"}
        return {"metadata.socket": self.network.to_shared_tree(broker, str(layout.metadata_socket))}

    @contextlib.contextmanager
    def root(self) -> Iterator[KazooClient]:
        """A connection to ZooKeeper that no fault touches."""
        assert self.zookeeper is not None, "this cluster has a ZooKeeper"
        client = KazooClient(hosts=self.zookeeper.connect_string, timeout=10)
        client.start(timeout=30)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    # --- what is where ---

    def leader(self, topic: str, partition: int = 0) -> int:
        found = self._any_metadata()
        return -1 if found is None or topic not in found.topics else found.topics[topic].partitions[partition].leader

    def controller(self) -> int:
        found = self._any_metadata()
        return -1 if found is None else found.controller_id

    def _any_metadata(self) -> ClusterMetadata | None:
        for broker in BROKERS:
            if self.brokers.is_running(broker) and broker not in self.down:
                found = self.observer.metadata(broker)
                if found is not None:
                    return found
        return None

    def ailments(self) -> list[str]:
        """What keeps the cluster from being healthy, as each broker sees it."""
        return [f"broker {each} does not run" for each in BROKERS if not self.brokers.is_running(each)] or (
            self.observer.ailments()
        )

    def differing_logs(self) -> list[str]:
        return differing_logs({broker: self.data_of(broker) for broker in BROKERS})

    # --- processes ---

    def kill(self, broker: int) -> bool:
        with self.lock:
            if broker in self.down or not self.brokers.is_running(broker):
                return False
            self.down.add(broker)
        self.brokers.kill(broker)
        return True

    def stop(self, broker: int) -> bool:
        """A controlled shutdown."""
        with self.lock:
            if broker in self.down or not self.brokers.is_running(broker):
                return False
            self.down.add(broker)
        self.brokers.stop_broker(broker)
        return True

    def start_again(self, broker: int) -> None:
        """Start a broker that a fault took down, as a service manager would: again and again.

        While another fault keeps it from the tree, it exits with the reason, as Kafka does.
        """
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                self.brokers.restart(broker)
                break
            except ClusterError as error:
                is_unreachable = any(reason in str(error) for reason in _TREE_UNREACHABLE)
                if not is_unreachable or time.monotonic() > give_up_at:
                    raise
        with self.lock:
            self.down.discard(broker)

    def _resume_all(self) -> None:
        for broker in BROKERS:
            with contextlib.suppress(Exception):
                self.brokers.resume(broker)

    def unexpected(self) -> list[str]:
        """Brokers that ended although no fault ended them, and failures that no code has handled."""
        found = []
        for broker in BROKERS:
            log = self.brokers.logs_of(broker)
            if not self.brokers.is_running(broker) and broker not in self.down:
                found.append(f"broker {broker} ended: {' / '.join(log.splitlines()[-3:])}")
            if "Traceback" in log:
                at = log.index("Traceback")
                lines = log[at:].splitlines()
                end = next((n for n, line in enumerate(lines[1:], 1) if line and not line.startswith(" ")), 0)
                found.append(f"broker {broker} logged an exception: {lines[end]}")
        return found

    # --- ZooKeeper's sessions ---

    def expire_session(self, broker: int) -> bool:
        """End a broker's session: in ZooKeeper by closing it in its name, in the shared tree with its connection."""
        if self.zookeeper is None:
            self.network.break_connections(broker, TREE)
            return True
        session = self.network.sessions.get(broker)
        if session is None:
            return False
        client = KazooClient(
            hosts=self.zookeeper.connect_string, client_id=(session.session_id, session.password), timeout=10
        )
        try:
            client.start(timeout=5)
            client.stop()
        except Exception:  # kazoo raises its own class for each way in which this fails
            return False
        finally:
            client.close()
        return True

    # --- disks ---

    def _disk(self, broker: int) -> Path:
        return self.directory / f"disk-{broker}"

    def data_of(self, broker: int) -> Path:
        return self._disk(broker) / "data"

    def _mount(self, broker: int) -> None:
        disk = self._disk(broker)
        disk.mkdir(parents=True, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", str(disk)]
        if os.geteuid() == 0 and subprocess.run(words, capture_output=True, check=False).returncode == 0:
            self.mounted.add(broker)
            self._stack.callback(subprocess.run, ["umount", "--lazy", str(disk)], capture_output=True, check=False)

    def fill_disk(self, broker: int) -> bool:
        """Leave no room on a broker's disk. It may go on until it has to write."""
        with self.lock:
            if broker in self.down or not self.brokers.is_running(broker):
                return False
            self.down.add(broker)
        if broker in self.mounted:
            _fill(self._filler(broker))
        else:
            resource.prlimit(self.brokers.pid_of(broker), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return True

    def empty_disk(self, broker: int) -> None:
        """Make room again, and restart the broker: a directory that failed stays offline until then."""
        if broker in self.mounted:
            self._filler(broker).unlink(missing_ok=True)
        else:
            with contextlib.suppress(ProcessLookupError):
                unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.prlimit(self.brokers.pid_of(broker), resource.RLIMIT_FSIZE, unlimited)
        self.start_again(broker)

    def _filler(self, broker: int) -> Path:
        return self._disk(broker) / "filler"

    # --- peace ---

    def make_peace(self) -> None:
        """End all that a fault may have left: the network is whole, ZooKeeper and every broker runs."""
        self.network.heal_all()
        if self.zookeeper is not None and not self.zookeeper.is_running:
            self.zookeeper.start()
        self._resume_all()
        for broker in BROKERS:
            if not self.brokers.is_running(broker):
                self.start_again(broker)


def _fill(path: Path) -> None:
    """Write until there is room for nothing more."""
    with path.open("wb", buffering=0) as file:
        for chunk_bytes in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while file.write(bytes(chunk_bytes)):
                    pass


def wait_until(holds: Callable[[], object], seconds: float) -> bool:
    """Whether a condition holds in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
