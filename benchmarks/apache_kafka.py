"""Apache Kafka 3.9.1 in ZooKeeper mode: its jars, its broker, its command line tools.

The jars come from Maven once and stay in `${XDG_CACHE_HOME:-~/.cache}/tidelog/kafka-3.9.1`, outside the tree. The
benchmarks run the broker beside ours; `tests/compat/kafka_tools` reads our files with Kafka's tools and opens Kafka's
files with our broker. Both ask `unavailable_reason()` first: without Java, or without Maven and a network the first
time, they skip or go on without Kafka, and say why.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from benchmarks.maven import SECONDS_MAX, Jars
from benchmarks.processes import HOST, BrokerProcess, Child, ProcessFailedError, free_port

VERSION = "3.9.1"
ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-nop", "1.7.36"),
)
MAVEN_SECONDS_MAX = SECONDS_MAX
JARS = Jars(f"kafka-{VERSION}", f"Kafka {VERSION}", ARTIFACTS, with_dependencies=True)

# What bin/kafka-run-class.sh and bin/kafka-server-start.sh give the JVM when the operator sets nothing.
PERFORMANCE_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
BROKER_HEAP = ("-Xmx1G", "-Xms1G")
ZOOKEEPER_HEAP = ("-Xmx512M", "-Xms512M")
# Tools live for a second: the first compiler and the simplest collector start soonest. Java's log is off, because it
# would be part of their output.
TOOL_FLAGS = (
    *("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Xshare:auto", "-Xlog:disable", "-XX:+IgnoreUnrecognizedVMOptions"),
)


@cache
def unavailable_reason() -> str | None:
    """Why Apache Kafka cannot run here, or None when it can. Fetches the jars the first time."""
    return "java is not installed" if shutil.which("java") is None else JARS.unavailable_reason()


def class_path() -> str:
    return str(JARS.libs / "*")


def run_tool(main_class: str, *arguments: str, input_text: str = "", timeout_seconds: float = 60.0) -> str:
    """Run one of Kafka's command line tools to its end and return what it printed. Failure raises with both outputs."""
    command, archive = tool_command(main_class), _class_archive()
    made: Path | None = None
    if not archive.exists():
        made = archive.with_suffix(f".{os.getpid()}")
        command.insert(1, f"-XX:ArchiveClassesAtExit={made}")
    try:
        done = subprocess.run(
            [*command, *arguments],
            input=input_text,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        if done.returncode != 0:
            raise ProcessFailedError(f"{main_class} ended with code {done.returncode}:\n{done.stdout}\n{done.stderr}")
        if made is not None and made.exists():
            made.replace(archive)
    finally:
        if made is not None:
            made.unlink(missing_ok=True)
    return done.stdout


def tool_command(main_class: str) -> list[str]:
    """The words that start one of Kafka's command line tools, without its arguments.

    The classes that the first of them loaded are kept beside the jars, parsed: later starts take half the time.
    """
    archive = _class_archive()
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    return ["java", *TOOL_FLAGS, *shared, "-cp", class_path(), main_class]


@cache
def _class_archive() -> Path:
    """Of this Java: another does not accept it."""
    java = shutil.which("java")
    assert java is not None, "the caller has looked"
    return JARS.directory / f"tools-{Path(java).resolve().stat().st_mtime_ns:x}.jsa"


def dump_log_segments(files: Sequence[Path], *options: str) -> str:
    """`kafka-dump-log.sh` over the named files."""
    return run_tool("kafka.tools.DumpLogSegments", "--files", ",".join(map(str, files)), *options)


class Ensemble(Protocol):
    """A ZooKeeper that a broker connects to."""

    @property
    def connect_string(self) -> str: ...


class ZooKeeper:
    """One ZooKeeper server from Kafka's own jars."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self._settings = dict(settings or {})
        self._child: Child | None = None

    @property
    def connect_string(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> Self:
        """Start it and wait until its port answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zookeeper.properties"
        _write_properties(
            config,
            {
                "dataDir": str(self.directory / "data"),
                "clientPort": str(self.port),
                "clientPortAddress": HOST,
                "maxClientCnxns": "0",
                "admin.enableServer": "false",
                **self._settings,
            },
        )
        self._child = Child(
            _java(ZOOKEEPER_HEAP, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config),
            self.directory / "zookeeper.out",
        )
        deadline = time.monotonic() + 60
        while not _port_answers(self.port):
            self._child.check_alive()
            if time.monotonic() > deadline:
                self.stop()
                raise ProcessFailedError("ZooKeeper did not listen within 60 s")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """End it. It keeps nothing that a kill could lose: every transaction is synced before it is answered."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class KafkaBroker(BrokerProcess):
    """One Kafka broker with its defaults, registered in a running ZooKeeper."""

    name = "Apache Kafka"

    def __init__(self, directory: Path, zookeeper: Ensemble, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self._zookeeper = zookeeper
        self._settings = dict(settings or {})

    def command(self) -> list[str]:
        config = self.directory / "server.properties"
        _write_properties(
            config,
            {
                "broker.id": "0",
                "listeners": f"PLAINTEXT://{HOST}:{self.port}",
                "log.dirs": str(self.log_dir),
                "zookeeper.connect": self._zookeeper.connect_string,
                "offsets.topic.replication.factor": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                **self._settings,
            },
        )
        return _java(BROKER_HEAP, "kafka.Kafka", config)


def _java(heap: Sequence[str], main_class: str, config: Path) -> list[str]:
    return ["java", *heap, *PERFORMANCE_FLAGS, "-cp", class_path(), main_class, str(config)]


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _port_answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
