"""Runs the brokers of a cluster on one machine: one process each, and the metadata tree for all of them in this one.

A broker that exits is not restarted: a killed broker stays down, and a broker that cannot start writes the reason to
its log. `close` shuts all brokers down at the same time. Where the description says so, the metadata tree is kept by a
ZooKeeper that the supervisor starts before the brokers and stops after them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import tidelog
from tidelog.cluster.control import serve_commands
from tidelog.cluster.layout import BrokerDescription, ClusterDescription, ClusterDirectory, ClusterError
from tidelog.cluster.zookeeper import HOST, ZooKeeperFailed, ZooKeeperServer, free_port, unavailable_reason
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.shared_server import SharedTreeServer

_READY: Final = b"tidelog ready "
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_LOG_TAIL_LINES: Final = 8
_METRICS_PORT: Final = 9404
_PORT_MAX: Final = 65_535

ZOOKEEPER: Final = "zookeeper"
"""Names the supervisor's ZooKeeper where a command takes a broker."""
OWN_ZOOKEEPER: Final = "own"
"""In place of a connect string: start a ZooKeeper."""

DEFAULT_SETTINGS: Final = {
    # These are the values that Kafka recommends for small clusters.
    "default.replication.factor": "{replicas}",
    "min.insync.replicas": "{in_sync}",
    "offsets.topic.replication.factor": "{replicas}",
    "transaction.state.log.replication.factor": "{replicas}",
    "transaction.state.log.min.isr": "{in_sync}",
}


class Supervisor:
    """Runs the brokers of one directory, as long as this process runs."""

    def __init__(self, directory: ClusterDirectory, description: ClusterDescription) -> None:
        self.directory = directory
        self.description = description
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._tree: SharedTreeServer | None = None
        self._zookeeper: ZooKeeperServer | None = None
        self._control: asyncio.Server | None = None
        self._closed = asyncio.Event()

    # --- life ---

    async def start(self) -> None:
        """Start everything that the description names; returns when every broker serves.

        What the brokers do not start with is not remembered: neither new settings nor a new cluster.
        """
        self.directory.path.mkdir(parents=True, exist_ok=True)
        # It says that a cluster is up, and one whose supervisor was killed left it behind.
        self.directory.control_socket.unlink(missing_ok=True)
        known = self.directory.read() if self.directory.exists() else None
        try:
            await self._start()
        except BaseException:
            if known is not None:
                self.description.settings = known.settings
            await self.close()
            if known is None:
                self.directory.forget()
            raise

    async def _start(self) -> None:
        if self.description.zookeeper_port:
            self._zookeeper = ZooKeeperServer(
                self.directory.zookeeper, port=self.description.zookeeper_port, is_synced=True
            )
            await self.restart_zookeeper()
        elif self.description.zookeeper is None:
            tree = EmbeddedStore(str(self.directory.metadata_path))
            self._tree = SharedTreeServer(tree, str(self.directory.metadata_socket))
            await self._tree.start()
        self.description.supervisor_pid = os.getpid()
        await asyncio.gather(*(self._start_broker(broker) for broker in self.description.brokers))
        self._control = await serve_commands(self.directory.control_socket, self._commands())

    async def close(self) -> None:
        """Shut down the brokers, then the metadata tree."""
        if self._control is not None:
            self._control.close()
            self.directory.control_socket.unlink(missing_ok=True)
        await asyncio.gather(*(self._stop_broker(broker_id) for broker_id in list(self._processes)))
        if self._tree is not None:
            await self._tree.stop()
        if self._zookeeper is not None and self._zookeeper.is_running:
            await self.kill_zookeeper()
        self.description.supervisor_pid = 0
        if self.directory.path.exists():
            self.directory.write(self.description)
        self._closed.set()

    async def wait_until_asked_to_close(self) -> None:
        """Returns when `tidelog cluster down` was called."""
        await self._closed.wait()

    # --- ZooKeeper ---

    async def kill_zookeeper(self) -> None:
        """kill -9. It loses nothing: every transaction is on disk before it is answered."""
        await asyncio.to_thread(self._own_zookeeper().kill)
        self.description.zookeeper_pid = 0
        self.directory.write(self.description)

    async def restart_zookeeper(self) -> None:
        """Kill ZooKeeper, if it runs, and start it on the same port and data."""
        zookeeper = self._own_zookeeper()
        try:
            await asyncio.to_thread(zookeeper.restart)
        except ZooKeeperFailed as error:
            raise ClusterError(str(error)) from error
        self.description.zookeeper_pid = zookeeper.pid
        self.directory.write(self.description)

    def _own_zookeeper(self) -> ZooKeeperServer:
        if self._zookeeper is None:
            raise ClusterError("this cluster runs no ZooKeeper of its own: start one with `cluster up --zookeeper`")
        return self._zookeeper

    # --- brokers ---

    def is_running(self, broker_id: int) -> bool:
        return broker_id in self._processes

    async def kill(self, broker_id: int) -> None:
        """kill -9."""
        process = self._running(broker_id)
        process.kill()
        await process.wait()

    async def restart(self, broker_id: int) -> None:
        """Stop a broker by controlled shutdown, if it runs, and start it again."""
        broker = self.description.broker(broker_id)
        await self._stop_broker(broker_id)
        await self._start_broker(broker)

    async def stop(self, broker_id: int) -> None:
        """Stop a broker by controlled shutdown."""
        self._running(broker_id)
        await self._stop_broker(broker_id)

    async def add(self) -> BrokerDescription:
        """Start one more broker; it has no partitions until some are created on it or moved to it."""
        ids = [broker.broker_id for broker in self.description.brokers]
        broker = BrokerDescription(max(ids, default=0) + 1, self.next_port())
        await self._start_broker(broker)
        self.description.brokers.append(broker)
        self.directory.write(self.description)
        return broker

    def next_port(self) -> int:
        """The one after those of the other brokers; if that is taken, any that is free."""
        following = max((broker.port for broker in self.description.brokers), default=0) + 1
        if 1 < following <= _PORT_MAX and is_free(following, self.description.host):
            return following
        return next(iter(free_ports(1, self.description.host)))

    def signal(self, broker_id: int, number: int) -> None:
        """Send any signal: SIGSTOP and SIGCONT pause a broker and let it go on."""
        self._running(broker_id).send_signal(number)

    def _running(self, broker_id: int) -> asyncio.subprocess.Process:
        self.description.broker(broker_id)
        process = self._processes.get(broker_id)
        if process is None:
            raise ClusterError(f"broker {broker_id} is stopped: start it with `tidelog cluster restart {broker_id}`")
        return process

    async def _start_broker(self, broker: BrokerDescription) -> None:
        self._choose_metrics_port(broker)
        with self.directory.log_of(broker.broker_id).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "tidelog",
                "serve",
                *(word for name, value in self._settings_of(broker).items() for word in ("--set", f"{name}={value}")),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=_environment(),
                # Only the supervisor gets Ctrl-C; it shuts the brokers down.
                start_new_session=True,
            )
        self._processes[broker.broker_id] = process
        broker.pid = process.pid
        await self._wait_until_ready(broker, process)
        self.directory.write(self.description)
        task = asyncio.create_task(self._watch(broker, process))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    def _choose_metrics_port(self, broker: BrokerDescription) -> None:
        """The port of last time or, for the first broker, the one that the JMX exporter uses; else any that is free."""
        description = self.description
        if not description.has_metrics or "metrics.listeners" in description.settings.keys() | broker.settings.keys():
            broker.metrics_port = 0
            return
        preferred = broker.metrics_port or _METRICS_PORT + broker.broker_id - 1
        others = {each.metrics_port for each in description.brokers if each is not broker}
        if preferred in others or not is_free(preferred, description.host):
            preferred = next(iter(free_ports(1, description.host)))
        broker.metrics_port = preferred

    async def _wait_until_ready(self, broker: BrokerDescription, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "its stdout is a pipe"
        line: bytes | None = None
        with suppress(TimeoutError):
            line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        if line is None or not line.startswith(_READY):
            if line != b"":  # otherwise it has closed its stdout, and exits by itself
                _signal(process, signal.SIGKILL)
            code = await process.wait()
            del self._processes[broker.broker_id]
            broker.pid = 0
            raise ClusterError(
                f"broker {broker.broker_id} did not start (exit code {code}); the end of "
                f"{self.directory.log_of(broker.broker_id)}:\n{self._log_tail(broker.broker_id)}"
            )

    async def _watch(self, broker: BrokerDescription, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        if self._processes.get(broker.broker_id) is process:
            del self._processes[broker.broker_id]
            broker.pid = 0
            self.directory.write(self.description)

    async def _stop_broker(self, broker_id: int) -> None:
        process = self._processes.get(broker_id)
        if process is None:
            return
        _signal(process, signal.SIGCONT)
        _signal(process, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            _signal(process, signal.SIGKILL)
            await process.wait()
        self._processes.pop(broker_id, None)
        self.description.broker(broker_id).pid = 0

    def _settings_of(self, broker: BrokerDescription) -> Mapping[str, str]:
        description = self.description
        metadata = (
            {"metadata.socket": str(self.directory.metadata_socket)}
            if description.zookeeper is None
            else {"zookeeper.connect": description.zookeeper}
        )
        replicas = min(3, len(description.brokers))
        values = {"replicas": replicas, "in_sync": min(2, replicas)}
        return {
            **{name: text.format(**values) for name, text in DEFAULT_SETTINGS.items()},
            **description.settings,
            **metadata,
            "broker.id": str(broker.broker_id),
            "listeners": f"PLAINTEXT://{description.host}:{broker.port}",
            "log.dirs": str(self.directory.data_of(broker.broker_id)),
            **(
                {"metrics.listeners": f"http://{description.host}:{broker.metrics_port}"} if broker.metrics_port else {}
            ),
            **broker.settings,
        }

    def _log_tail(self, broker_id: int) -> str:
        try:
            text = self.directory.log_of(broker_id).read_text(errors="replace")
        except OSError as error:
            return f"({error})"
        return "\n".join(f"  {line}" for line in text.splitlines()[-_LOG_TAIL_LINES:])

    # --- commands ---

    def _commands(self) -> dict[str, Any]:
        async def add(_request: dict[str, Any]) -> dict[str, int]:
            broker = await self.add()
            return {"broker": broker.broker_id, "port": broker.port}

        async def down(_request: dict[str, Any]) -> dict[str, Any]:
            self._closed.set()
            return {}

        async def kill(request: dict[str, Any]) -> dict[str, Any]:
            if request.get("broker") == ZOOKEEPER:
                await self.kill_zookeeper()
            else:
                await self.kill(_broker_id(request))
            return {}

        async def stop(request: dict[str, Any]) -> dict[str, Any]:
            await self.stop(_broker_id(request))
            return {}

        async def restart(request: dict[str, Any]) -> dict[str, Any]:
            if request.get("broker") == ZOOKEEPER:
                await self.restart_zookeeper()
            else:
                await self.restart(_broker_id(request))
            return {}

        return {"add": add, "down": down, "kill": kill, "stop": stop, "restart": restart}


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal, and leave a process that has just exited to asyncio.

    `Process.send_signal` would reap it, and asyncio then warns that it does not know the process, and makes up the exit
    code 255.
    """
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _broker_id(request: dict[str, Any]) -> int:
    broker_id = request.get("broker")
    if not isinstance(broker_id, int):
        raise ClusterError(f"{broker_id!r} is not a broker id")
    return broker_id


def new_description(
    brokers: int,
    *,
    first_port: int | None = None,
    settings: Mapping[str, str] | None = None,
    zookeeper: str | None = None,
    host: str = "127.0.0.1",
) -> ClusterDescription:
    """A cluster of brokers 1 to `brokers`, on consecutive ports from `first_port` on, or on free ones.

    `zookeeper` is a connect string; `OWN_ZOOKEEPER` has the supervisor start one.
    """
    if brokers < 1:
        raise ClusterError(f"the number of brokers is {brokers}: it must be at least 1")
    zookeeper_port = 0
    if zookeeper == OWN_ZOOKEEPER:
        reason = unavailable_reason()
        if reason is not None:
            raise ClusterError(f"--zookeeper: no ZooKeeper can be started here ({reason}); or name one: HOST:PORT")
        zookeeper_port = free_port()
        zookeeper = f"{HOST}:{zookeeper_port}"
    ports = free_ports(brokers, host) if first_port is None else range(first_port, first_port + brokers)
    return ClusterDescription(
        brokers=[BrokerDescription(number, port) for number, port in enumerate(ports, 1)],
        settings=dict(settings or {}),
        zookeeper=zookeeper,
        zookeeper_port=zookeeper_port,
        host=host,
    )


def is_free(port: int, host: str) -> bool:
    """Whether nothing listens on a port now."""
    with socket.socket() as each:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            each.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count: int, host: str) -> Iterable[int]:
    """Ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((host, 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _environment() -> dict[str, str]:
    """Our environment, with a PYTHONPATH that finds the same package."""
    package_root = str(Path(tidelog.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([package_root, inherited]) if inherited else package_root
    return {**os.environ, "PYTHONPATH": path}
