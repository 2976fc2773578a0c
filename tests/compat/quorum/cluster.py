"""A KRaft cluster of Apache Kafka 4.3.1: controllers, brokers of Kafka's, and brokers of ours among them."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.maven import Jars
from benchmarks.processes import HOST, BrokerProcess, Child, ProcessFailedError, free_port
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.metadata.features import SUPPORTED

VERSION: Final = "4.3.1"
JARS: Final = Jars(
    f"kafka-{VERSION}",
    f"Kafka {VERSION}",
    (
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ),
    with_dependencies=True,
)
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_HEAP: Final = ("-Xmx192M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_FEATURES: Final = {"group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
"""What a new cluster of this version finalises."""
_PROTOCOLS: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
SECONDS_MAX: Final = 120.0
_PATIENCE: Final = {"initial.broker.registration.timeout.ms": "120000"}
"""The machine may be busy."""

B = TypeVar("B", bound=BrokerProcess)
T = TypeVar("T")


def java(main_class: str, *arguments: str) -> list[str]:
    return ["java", *_HEAP, "-cp", str(JARS.libs / "*"), main_class, *arguments]


def run_tool(main_class: str, *arguments: str) -> str:
    """Run one of Kafka's tools to its end and return what it printed."""
    done = subprocess.run(
        java(main_class, *arguments), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    if done.returncode:
        raise ProcessFailedError(f"{main_class} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def until(what: str, condition: Callable[[], T | None], seconds: float = SECONDS_MAX) -> T:
    """What `condition` returns as soon as that is true; errors count as not yet."""
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        try:
            found = condition()
            if found:
                return found
            last = found
        except Exception as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:.0f} s: {what}; the last was {last!r}")


def _write(path: Path, settings: Mapping[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


class ApacheBroker(BrokerProcess):
    """One of Kafka's own brokers."""

    name = "Apache Kafka"

    def __init__(self, directory: Path, node_id: int, bootstrap: str, settings: Mapping[str, str]) -> None:
        super().__init__(directory)
        self._settings = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.quorum.bootstrap.servers": bootstrap,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": _PROTOCOLS,
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.log_dir),
            "log.cleaner.dedupe.buffer.size": str(4 << 20),
            **_PATIENCE,
            **settings,
        }

    def command(self) -> list[str]:
        config = _write(self.directory / "server.properties", self._settings)
        if not self.log_dir.exists():
            # What `kafka-storage.sh format` writes for a broker.
            self.log_dir.mkdir()
            identity = {"version": "1", "node.id": self._settings["node.id"], "cluster.id": CLUSTER_ID}
            _write(self.log_dir / "meta.properties", {**identity, "directory.id": _new_id()})
        return java("kafka.Kafka", config)


def _new_id() -> str:
    return base64.urlsafe_b64encode(b"\x10" + os.urandom(15)).decode()[:22]


class Quorum:
    """Controllers, and whatever brokers a test adds. The features are those that a Tidelog broker supports, too."""

    def __init__(self, directory: Path, controllers: int, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are those of the controllers."""
        self.directory = directory
        self._settings = dict(settings or {})
        self.ports = {3000 + number: free_port() for number in range(controllers)}
        self._ids = {node: _new_id() for node in self.ports}
        self.controllers: dict[int, Child] = {}
        self.brokers: dict[int, BrokerProcess] = {}
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    @property
    def servers(self) -> str:
        """The addresses of the brokers that run."""
        return ",".join(each.bootstrap_servers for each in self.brokers.values() if each.is_spawned)

    def _config(self, node_id: int) -> Path:
        return self.directory / f"controller-{node_id}.properties"

    def start(self) -> None:
        """Format and start the controllers."""
        voters = ",".join(f"{node}@{HOST}:{port}:{self._ids[node]}" for node, port in self.ports.items())
        formats = []
        for node_id, port in self.ports.items():
            settings = {
                "process.roles": "controller",
                "node.id": str(node_id),
                "controller.quorum.bootstrap.servers": self.bootstrap,
                "listeners": f"CONTROLLER://{HOST}:{port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.directory / f"controller-{node_id}"),
                "broker.session.timeout.ms": "6000",
                "controller.quorum.election.timeout.ms": "500",
                "metadata.log.max.snapshot.interval.ms": "5000",
                "metadata.log.max.record.bytes.between.snapshots": "4096",
                **self._settings,
            }
            config = _write(self._config(node_id), settings)
            command = java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", config)
            command += ["--initial-controllers", voters]
            for name, level in _FEATURES.items():
                command += ["--feature", f"{name}={min(level, SUPPORTED.get(name, 0))}"]
            formats.append(Child(command, self.directory / f"format-{node_id}.out"))
        for each in formats:
            if code := each._process.wait(SECONDS_MAX):
                raise ProcessFailedError(
                    f"the controllers' storage was not formatted ({code}): {each.output.read_text()}"
                )
        for node_id in self.ports:
            self.start_controller(node_id)

    def start_controller(self, node_id: int) -> None:
        self.controllers[node_id] = Child(
            java("kafka.Kafka", str(self._config(node_id))), self.directory / f"controller-{node_id}.out"
        )

    def add_apache(self, node_id: int, settings: Mapping[str, str] | None = None) -> ApacheBroker:
        broker = ApacheBroker(self.directory / f"broker-{node_id}", node_id, self.bootstrap, settings or {})
        return self._add(node_id, broker)

    def add_ours(self, node_id: int, settings: Mapping[str, str] | None = None) -> TidelogBroker:
        broker = TidelogBroker(
            self.directory / f"broker-{node_id}",
            {
                "process.roles": "broker",
                "node.id": str(node_id),
                "controller.quorum.bootstrap.servers": self.bootstrap,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": _PROTOCOLS,
                **_PATIENCE,
                **(settings or {}),
            },
        )
        return self._add(node_id, broker)

    def _add(self, node_id: int, broker: B) -> B:
        broker.start_seconds_max = SECONDS_MAX
        self.brokers[node_id] = broker
        broker.spawn()
        return broker

    def tool(self, main_class: str, *arguments: str) -> str:
        """One of Kafka's tools, with the running brokers as its bootstrap servers."""
        return run_tool(main_class, "--bootstrap-server", self.servers, *arguments)

    def stop(self) -> None:
        """End everything."""
        for broker in self.brokers.values():
            with contextlib.suppress(ProcessFailedError):
                broker.kill()
        for child in self.controllers.values():
            child.kill()
