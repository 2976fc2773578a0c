"""A broker for tests: started in a moment, on a free port, in a directory that goes away with it.

`Broker()` runs in a thread of this process and is the quickest. `Broker(process=True)` is a process of its own, which
can be killed, paused and inspected like one in production. Both keep port and data over `restart`.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from tidelog.testing._settings import broker_properties
from tidelog.testing._topics import create_topic
from tidelog.testing.runner import BrokerFailed, Runner

__all__ = ["Broker", "BrokerFailed"]


class Broker:
    """One broker under test, alive between `start` and `stop`, or inside `with`.

    `config` holds settings under Kafka's names; values are turned into text. `data_dir` is made, and removed by `stop`,
    unless you name one of your own.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        process: bool = False,
        data_dir: str | os.PathLike[str] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self.config = dict(config or {})
        self.timeout_s = timeout_s
        self.is_process = process
        self.crash_at: str | None = None
        """The crash point at which the next process kills itself, for tests of crashes; None for no crash."""
        self._own_dir: str | None = None
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._runner: Runner | None = None
        self._address: tuple[str, int] | None = None
        self._last_logs = ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the broker and return when it serves. Raises BrokerFailed with the reason."""
        if self._runner is not None:
            raise RuntimeError("this broker runs already")
        properties = broker_properties(self.config, self.data_dir, self._address)
        runner = self._new_runner()
        try:
            self._address = runner.start(properties)
        except BaseException:
            if self._address is None:
                self._remove_data()
            self._last_logs = runner.logs()
            raise
        self._runner = runner
        return self

    def stop(self) -> None:
        """Stop it in order, keep its logs and remove its data. Does nothing when it does not run."""
        try:
            self._end(lambda runner: runner.stop())
        finally:
            self._remove_data()

    def kill(self) -> None:
        """`kill -9`. The data stays, as after a crash; `start` or `restart` goes on with it, `stop` removes it."""
        self._demand_process("kill")
        self._end(lambda runner: runner.kill())

    def restart(self) -> None:
        """Stop it in order, if it runs, and start it again: same port, same data."""
        self._end(lambda runner: runner.stop())
        self.start()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and answers no request, as a frozen machine does."""
        import signal

        self._demand_process("pause").signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: the end of a pause."""
        import signal

        self._demand_process("resume").signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._runner is not None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, as every Kafka client takes it."""
        return f"{self.host}:{self.port}"

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._known_address()[0]

    @property
    def port(self) -> int:
        """The port it listens on; kept over restarts."""
        return self._known_address()[1]

    @property
    def pid(self) -> int:
        """The process it runs in: its own, or this one."""
        return self._running().pid

    @property
    def data_dir(self) -> str:
        """The directory with its logs, made on first use."""
        if self._data_dir is None:
            self._data_dir = self._own_dir = tempfile.mkdtemp(prefix="tidelog-")
        return self._data_dir

    @property
    def logs(self) -> str:
        """What the last run of its process has logged; an in-process broker logs through `logging` instead."""
        return self._last_logs if self._runner is None else self._runner.logs()

    def create_topic(
        self, name: str, partitions: int = 1, *, config: Mapping[str, object] | None = None, replication_factor: int = 1
    ) -> None:
        """Create a topic; when this returns, clients can use it."""
        create_topic(self.bootstrap_servers, name, partitions, config, replication_factor, self.timeout_s)

    def _new_runner(self) -> Runner:
        if self.is_process:
            from tidelog.testing._process import ProcessRunner

            return ProcessRunner(self.timeout_s, self.crash_at)
        from tidelog.testing._threaded import ThreadRunner

        return ThreadRunner(self.timeout_s)

    def _end(self, how: Callable[[Runner], None]) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            try:
                how(runner)
            finally:
                self._last_logs = runner.logs()

    def _running(self) -> Runner:
        if self._runner is None:
            raise RuntimeError("this broker does not run; use `with Broker() as broker` or start()")
        return self._runner

    def _demand_process(self, verb: str) -> Runner:
        if not self.is_process:
            raise RuntimeError(f"{verb}() needs a process of its own: Broker(process=True)")
        return self._running()

    def _known_address(self) -> tuple[str, int]:
        if self._address is None:
            raise RuntimeError("this broker was not started yet, so it has no address")
        return self._address

    def _remove_data(self) -> None:
        if self._own_dir is not None:
            shutil.rmtree(self._own_dir, ignore_errors=True)
            self._own_dir = self._data_dir = None
