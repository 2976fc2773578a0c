"""One broker process for each core, behind the addresses of one machine.

The supervisor imports what a broker needs, once, and forks: a core that starts has nothing to load, and shares the
code's memory with the others. It runs no event loop and no thread, so that it may fork at any time. Without ZooKeeper
another child serves the metadata tree to the cores over a Unix socket, as `tidelog cluster` does for its brokers.

A child that ends is started again, after a pause that grows while it does not come up. SIGTERM and SIGINT are a
controlled shutdown of all; so is the end of a supervisor that is killed, as each child watches a pipe that only the
supervisor holds open. SIGUSR2 stops the cores, spreads the partitions over them and starts them
again (`tidelog cores rebalance`).
"""

from __future__ import annotations

import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, NoReturn

from tidelog.broker.configuration.settings import network_limits
from tidelog.broker.server import run
from tidelog.broker.stores import open_store
from tidelog.broker.surroundings import Surroundings
from tidelog.cluster.cores.layout import FIRST, check_cores, settings_of
from tidelog.cluster.cores.moves import needs_settling, settle
from tidelog.config import BrokerConfig, ConfigError, load_broker_config
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.errors import StoreError
from tidelog.metadata.store import Store
from tidelog.network.limits import UNLIMITED
from tidelog.network.listener import Listener, listen_tcp
from tidelog.storage.directories.log_directory import CORES_DIRECTORY, LogDirectory
from tidelog.storage.errors import StorageError
from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

EXIT_FAILED: Final = 1
EXIT_MISUSED: Final = 2
STATE_NAME: Final = "cores.json"
REBALANCE_SIGNAL: Final = signal.SIGUSR2

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, REBALANCE_SIGNAL)
_TREE: Final = 0
"""In place of the number of a core: the child that serves the metadata tree."""
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 10.0
_STOP_SECONDS: Final = 60.0
_ORPHANED_SECONDS: Final = 15.0
"""How long the tree outlives a supervisor that was killed, at most: the cores stop in order meanwhile."""
_SOCKET_PATH_BYTES_MAX: Final = 100


class State(NamedTuple):
    """What the supervisor writes beside the cores' directories, for `tidelog cores`."""

    pid: int
    cores: int
    address: str
    is_serving: bool
    rebalanced: int = 0
    """How often partitions were spread since the start."""
    moved: int = 0
    """How many of them moved the last time."""


def state_path(config: BrokerConfig) -> str:
    return os.path.join(config.log_dirs[0], CORES_DIRECTORY, STATE_NAME)


def read_state(config: BrokerConfig) -> State | None:
    """The state of the supervisor that runs on these log directories; None if none does."""
    try:
        with open(state_path(config), encoding="utf-8") as file:
            state = State(**json.load(file))
        os.kill(state.pid, 0)
    except (OSError, ValueError, TypeError):
        return None
    return state


class CoreSupervisor:
    """Runs the cores of one machine, from `run` until a signal."""

    def __init__(self, config: BrokerConfig, count: int, on_ready: Callable[[str], None]) -> None:
        """Raises ConfigError."""
        check_cores(config, count)
        self._config = config
        self._count = count
        self._announce = on_ready
        self._is_alone = config.zookeeper_connect is None
        self._temporary = ""
        self._listeners: dict[str, Listener] = {}
        self._children: dict[int, int] = {}
        """Process ids, by core."""
        self._ready: set[int] = set()
        self._due: dict[int, float] = {}
        """When a child that ended is started again."""
        self._pauses: dict[int, float] = {}
        self._stop_asked = False
        self._rebalance_asked = False
        self._has_served = False
        self._is_pausing = False
        """Whether children are meant to end."""
        self._exit_code = 0
        self._rebalanced = self._moved = 0

    # --- life ---

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; the exit code."""
        self._prepare_directories()
        self._listen()
        _preload()
        self._open_pipes()
        try:
            self._start_all()
            while not self._is_over():
                self._turn()
        finally:
            self._stop_all()
            self._tidy_up()
        return self._exit_code

    def _is_over(self) -> bool:
        return self._stop_asked or self._exit_code != 0

    def _prepare_directories(self) -> None:
        """Refuse what no core could begin with, and make the directory of this machine's cores."""
        if self._is_alone and not _has_metadata(self._config) and _has_partitions(self._config):
            raise ConfigError(
                f"log.dirs={','.join(self._config.log_dirs)} has partitions and no metadata: start it with one core "
                "first, which adopts them"
            )
        os.makedirs(os.path.join(self._config.log_dirs[0], CORES_DIRECTORY), exist_ok=True)
        other = read_state(self._config)
        if other is not None and other.pid != os.getpid():
            raise StorageError(f"{self._config.log_dirs[0]} is in use by another broker (process {other.pid})")

    def _listen(self) -> None:
        """The addresses of the machine. A child that ends takes no waiting client along."""
        limits = network_limits(self._config, UNLIMITED)
        for listener in self._config.parsed_listeners:
            try:
                self._listeners[listener.name] = listening = listen_tcp(listener.host, listener.port, limits)
            except OSError as cause:
                where = f"{listener.host or '0.0.0.0'}:{listener.port}"  # noqa: S104 - only said, not bound
                text = f"cannot listen on {where}: {cause.strerror or cause}; change listeners"
                raise OSError(cause.errno, text) from cause
            if len(self._listeners) == 1:
                host = listener.host or "127.0.0.1"
                self._address = f"[{host}]:{listening.port}" if ":" in host else f"{host}:{listening.port}"

    def _open_pipes(self) -> None:
        self._lifeline, self._lifeline_end = os.pipe()
        self._notices, self._notices_end = os.pipe()
        self._wakeup, wakeup_end = socket.socketpair()
        self._wakeup_end = wakeup_end
        for end in (self._wakeup, wakeup_end):
            end.setblocking(False)
        os.set_blocking(self._notices, False)
        signal.set_wakeup_fd(wakeup_end.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._selector.register(self._notices, selectors.EVENT_READ)

    def _on_signal(self, number: int, _frame: object) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stop_asked = True
        elif number == REBALANCE_SIGNAL:
            self._rebalance_asked = True

    # --- starting ---

    def _start_all(self) -> None:
        if needs_settling(self._config, self._count):
            self._settle(balance=False)
        if self._is_alone and not self._exit_code:
            self._start(_TREE)
            self._wait_until(lambda: _TREE in self._ready)
        if not self._is_over():
            for core in range(FIRST, self._count + 1):
                self._start(core)

    def _settle(self, *, balance: bool) -> None:
        """Move what is to be moved, in a process of its own: this one is to stay free of threads and open databases."""
        report, report_end = os.pipe()
        pid = self._fork(lambda: _settle(self._config, self._count, balance, report_end))
        os.close(report_end)
        with os.fdopen(report, "rb") as file:
            text = file.read()
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            self._moved = int(text)
        elif not self._has_served:
            self._exit_code = EXIT_FAILED if code < 0 else code

    def _start(self, child: int) -> None:
        self._due.pop(child, None)
        target = self._serve_tree if child == _TREE else lambda: self._serve_core(child)
        self._children[child] = self._fork(target)

    def _fork(self, target: Callable[[], int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal for the child must not come while it still has the handlers of the supervisor.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if not pid:
            self._become_child(target)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return pid

    def _become_child(self, target: Callable[[], int]) -> NoReturn:
        code = EXIT_FAILED
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            # Ctrl-C is for the supervisor, which stops the children in order.
            os.setpgid(0, 0)
            self._selector.close()
            self._wakeup.close()
            self._wakeup_end.close()
            os.close(self._lifeline_end)
            os.close(self._notices)
            code = _exit_code_of(target)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _serve_core(self, core: int) -> int:
        _name_process(f"core {core}")
        socket_path = self._metadata_socket if self._is_alone else None
        config = load_broker_config(settings_of(self._config, core, self._count, socket_path))
        surroundings = Surroundings.of_this_machine(config, self._listeners)
        return run(config, lambda _address: self._notify(core), surroundings=surroundings, lifeline=self._lifeline)

    def _serve_tree(self) -> int:
        _name_process("metadata")
        import asyncio

        for listener in self._listeners.values():
            listener.close()
        with asyncio.Runner() as runner:
            return runner.run(
                _serve_tree(self._config, self._metadata_socket, self._lifeline, lambda: self._notify(_TREE))
            )

    def _notify(self, child: int) -> None:
        os.write(self._notices_end, b"%d\n" % child)

    @property
    def _metadata_socket(self) -> str:
        path = os.path.abspath(os.path.join(self._config.log_dirs[0], CORES_DIRECTORY, "metadata.sock"))
        if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
            return path
        if not self._temporary:
            import tempfile

            self._temporary = tempfile.mkdtemp(prefix="tidelog-")
        return os.path.join(self._temporary, "metadata.sock")

    # --- watching ---

    def _turn(self) -> None:
        """Wait for something to happen, and follow it."""
        due = min(self._due.values(), default=None)
        self._wait(None if due is None else max(0.0, due - time.monotonic()))
        if self._is_over():
            return
        if self._rebalance_asked and self._has_served:
            self._rebalance_asked = False
            self._rebalance()
        now = time.monotonic()
        for child in [each for each, at in self._due.items() if at <= now]:
            self._start(child)

    def _wait(self, seconds: float | None) -> None:
        for key, _events in self._selector.select(seconds):
            if key.fileobj is self._wakeup:
                with suppress(BlockingIOError):
                    self._wakeup.recv(4096)
            else:
                self._take_notices()
        self._reap()

    def _wait_until(self, is_done: Callable[[], bool], seconds: float | None = None) -> bool:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not is_done():
            if deadline is None:
                if self._is_over():
                    return False
                self._wait(None)
            elif (left := deadline - time.monotonic()) > 0:
                self._wait(left)
            else:
                return False
        return True

    def _take_notices(self) -> None:
        for line in os.read(self._notices, 65536).split():
            child = int(line)
            self._ready.add(child)
            self._pauses.pop(child, None)
        if len(self._ready) == self._count + self._is_alone:
            self._serve()

    def _serve(self) -> None:
        """Every core serves, for the first time or again."""
        self._write_state(is_serving=True)
        if not self._has_served:
            self._has_served = True
            logger.info("%d cores serve on %s", self._count, self._address)
            self._announce(self._address)

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._on_end(pid, os.waitstatus_to_exitcode(status))

    def _on_end(self, pid: int, code: int) -> None:
        child = next((each for each, known in self._children.items() if known == pid), None)
        if child is None:
            return  # another child, such as the console's process
        del self._children[child]
        self._ready.discard(child)
        if self._is_pausing or self._is_over():
            return
        name = "the metadata" if child == _TREE else f"core {child}"
        if not self._has_served:
            if not self._exit_code:
                logger.error("%s did not start (exit code %d)", name, code)
                self._exit_code = code if code > 0 else EXIT_FAILED
            return
        pause = self._pauses.get(child, _PAUSE_SECONDS)
        self._pauses[child] = min(2 * pause, _PAUSE_SECONDS_MAX)
        self._due[child] = time.monotonic() + pause
        logger.error("%s ended (exit code %d) and starts again in %.1f s", name, code, pause)

    # --- stopping ---

    def _rebalance(self) -> None:
        """Stop the cores, spread their partitions, start them again. Clients wait, and are refused by no one."""
        self._is_pausing = True
        self._due.clear()
        self._write_state(is_serving=False)
        self._stop()
        if self._is_over():
            return
        self._is_pausing = False
        self._settle(balance=True)
        self._rebalanced += 1
        self._start_all()

    def _stop_all(self) -> None:
        self._is_pausing = True
        self._due.clear()
        self._stop()

    def _stop(self) -> None:
        """The cores first: they leave the cluster while there is a tree to leave."""
        self._end(set(self._children) - {_TREE})
        self._end({_TREE})

    def _end(self, group: set[int]) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for child in group:
                _send(self._children.get(child), number)
            if self._wait_until(lambda: group.isdisjoint(self._children), _STOP_SECONDS):
                return
            logger.error("processes did not stop within %d s and are killed", _STOP_SECONDS)

    def _tidy_up(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        with suppress(FileNotFoundError):
            os.unlink(state_path(self._config))
        if self._temporary:
            with suppress(OSError):
                os.rmdir(self._temporary)

    def _write_state(self, *, is_serving: bool) -> None:
        state = State(os.getpid(), self._count, self._address, is_serving, self._rebalanced, self._moved)
        path = state_path(self._config)
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump(state._asdict(), file)
        os.replace(f"{path}.tmp", path)


def _exit_code_of(target: Callable[[], int]) -> int:
    """Run a child; what stops it is said as `tidelog serve` says it."""
    try:
        return target()
    except ConfigError as error:
        return _fail(str(error), EXIT_MISUSED)
    except (StorageError, StoreError) as error:
        return _fail(str(error), EXIT_FAILED)
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(f"{error.filename}: {reason}" if error.filename else reason, EXIT_FAILED)
    except Exception:
        logger.exception("this process ends by an error of the program")
        return EXIT_FAILED


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"tidelog: {message}\n")
    return code


def _settle(config: BrokerConfig, count: int, balance: bool, report: int) -> int:
    moved = settle(config, count, lambda: _open_tree(config), balance=balance)
    os.write(report, b"%d" % moved)
    return 0


def _open_tree(config: BrokerConfig) -> Store:
    directories = [os.path.abspath(each) for each in config.log_dirs]
    return open_store(config, [each for each in directories if os.path.isdir(each)])


async def _serve_tree(config: BrokerConfig, path: str, lifeline: int, on_ready: Callable[[], None]) -> int:
    """Serve the machine's metadata until SIGTERM, or until the cores have left after their supervisor was killed."""
    import asyncio

    from tidelog.metadata.shared_server import SharedTreeServer

    loop = asyncio.get_running_loop()
    stop_asked = asyncio.Event()
    supervisor_gone = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)

    def on_supervisor_gone() -> None:
        loop.remove_reader(lifeline)
        supervisor_gone.set()
        stop_asked.set()

    loop.add_reader(lifeline, on_supervisor_gone)
    tree = _open_tree(config)
    assert isinstance(tree, EmbeddedStore), "the metadata of a machine that is alone is in a file"
    server = SharedTreeServer(tree, path)
    await server.start()
    on_ready()
    await stop_asked.wait()
    if supervisor_gone.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(server.wait_until_left(), _ORPHANED_SECONDS)
    await server.stop()
    return 0


def _has_metadata(config: BrokerConfig) -> bool:
    return any(os.path.exists(os.path.join(log_dir, METADATA_FILE_NAME)) for log_dir in config.log_dirs)


def _has_partitions(config: BrokerConfig) -> bool:
    return any(os.path.isdir(log_dir) and LogDirectory(log_dir).partitions() for log_dir in config.log_dirs)


def _send(pid: int | None, number: int) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, number)


def _name_process(name: str) -> None:
    """Log lines say which process of the machine they are from."""
    for handler in logging.getLogger().handlers:
        set_part = getattr(handler.formatter, "set_part", None)
        if set_part is not None:
            set_part(name)


def _preload() -> None:
    """Import what every core needs, once for all of them."""
    import asyncio  # noqa: F401
    from importlib import import_module

    for module in _PRELOADED:
        import_module(module)
    for module, name in _COMPILED:
        message: type[Message] = getattr(import_module(f"tidelog.wire.messages.{module}"), name)
        version = message.versions[1]
        message.decode(message().encode(version), version)
    with suppress(ModuleNotFoundError):
        import uvloop  # noqa: F401
    gc.collect()
    gc.freeze()


_PRELOADED: Final = (
    "sqlite3",
    "tidelog.broker.handlers.api_versions",
    "tidelog.broker.handlers.between_brokers",
    "tidelog.broker.topology.member",
    "tidelog.metadata.shared",
    "tidelog.metadata.shared_server",
    "tidelog.broker.handlers.produce",
    "tidelog.broker.handlers.fetch",
    "tidelog.broker.handlers.metadata",
)
_COMPILED: Final = (
    ("update_metadata", "UpdateMetadataRequest"),
    ("update_metadata", "UpdateMetadataResponse"),
    ("leader_and_isr", "LeaderAndIsrRequest"),
    ("leader_and_isr", "LeaderAndIsrResponse"),
    ("allocate_producer_ids", "AllocateProducerIdsRequest"),
    ("allocate_producer_ids", "AllocateProducerIdsResponse"),
    ("api_versions", "ApiVersionsResponse"),
    ("metadata", "MetadataRequest"),
    ("metadata", "MetadataResponse"),
)
"""Messages that every core sends or receives while it joins: their codecs are compiled once."""
