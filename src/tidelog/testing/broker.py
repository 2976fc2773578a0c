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
from tidelog.testing.faults import FaultProxy, Faults
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
        faults: bool = False,
    ) -> None:
        """With `faults`, clients reach the broker through a proxy that lets faults happen to their requests."""
        if faults and {"listeners", "advertised.listeners"} & (config or {}).keys():
            raise ValueError(
                "a broker with faults=True listens without TLS on an address of its own: leave out listeners"
            )
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
        self._faults = Faults() if faults else None
        self._proxy: FaultProxy | None = None

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
        if self._faults is not None:
            if self._proxy is None:
                self._proxy = FaultProxy(self._faults)
                self._proxy.start()
            host, port = self._proxy.address
            properties["advertised.listeners"] = f"PLAINTEXT://{host}:{port}"
        runner = self._new_runner()
        try:
            self._address = runner.start(properties)
        except BaseException:
            if self._address is None:
                self._remove_data()
                self._stop_proxy()
            self._last_logs = runner.logs()
            raise
        self._runner = runner
        if self._proxy is not None:
            self._proxy.forward_to(*self._address)
        return self

    def stop(self) -> None:
        """Stop it in order, keep its logs and remove its data. Does nothing when it does not run."""
        try:
            self._end(lambda runner: runner.stop())
        finally:
            self._stop_proxy()
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
    def faults(self) -> Faults:
        """What is to happen to the next requests; for a broker with `faults=True`."""
        if self._faults is None:
            raise RuntimeError("this broker has no faults: Broker(faults=True)")
        return self._faults

    def travel(self, *, hours: float = 0, seconds: float = 0) -> None:
        """Set the clocks of an in-process broker forward: what is due by then happens now.

        Retention, delayed records, expiring offsets and transactions see the new time. So do the sessions of group
        members, which rejoin as after a long silence.
        """
        if self.is_process:
            raise RuntimeError("travel() needs a broker in this process: Broker()")
        forward_ms = round((hours * 3600 + seconds) * 1000)
        if forward_ms <= 0:
            raise ValueError(f"travel by {forward_ms} ms: time goes forward")
        self._running().travel(forward_ms)

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
        """The address that clients connect to."""
        return self._client_address()[0]

    @property
    def port(self) -> int:
        """The port that clients connect to; kept over restarts."""
        return self._client_address()[1]

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

    def _client_address(self) -> tuple[str, int]:
        if self._address is None:
            raise RuntimeError("this broker was not started yet, so it has no address")
        return self._address if self._proxy is None else self._proxy.address

    def _stop_proxy(self) -> None:
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            proxy.stop()

    def _remove_data(self) -> None:
        if self._own_dir is not None:
            shutil.rmtree(self._own_dir, ignore_errors=True)
            self._own_dir = self._data_dir = None
