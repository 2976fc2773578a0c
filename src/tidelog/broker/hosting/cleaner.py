"""The log cleaner of a running broker: the core of `storage.cleaner`, with processes for its workers.

A process is started for the first job, kept for the next, and ended after a minute without any: a broker with nothing
to clean pays for neither its memory nor its start. If a process dies, is killed or breaks the protocol, its job fails.

The core itself is imported a second after the start, for the first search for dirty logs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.tasks import OwnedTasks

if TYPE_CHECKING:
    from tidelog.broker.runtime.background import BackgroundPool
    from tidelog.config import BrokerConfig
    from tidelog.storage.cleaner.jobs import CleanJob, Event
    from tidelog.storage.cleaner.manager import LogCleaner
    from tidelog.storage.cleaner.metrics import CleanerMetrics
    from tidelog.storage.directories.manager import LogManager
    from tidelog.storage.errors import LogDirFailure
    from tidelog.storage.log import Log
    from tidelog.timing import Clock, Scheduler

logger = logging.getLogger(__name__)

_MODULE: Final = "tidelog.storage.cleaner.worker"
_FIRST_LOOK_MS: Final = 1000
_IDLE_S: Final = 60.0
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A line names all segments of a group, which may be very many."""


class CleanerWorker(Protocol):
    """A `Worker` of the core that can be waited for."""

    def begin(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None: ...
    def abandon(self, on_gone: Callable[[], None]) -> None: ...
    def close(self) -> None: ...

    async def wait_closed(self) -> None:
        """Wait until nothing is left of what was ended."""


class CleanerService:
    """The cleaner and its workers, started and stopped together. `Server` owns it."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        clock: Clock,
        scheduler: Scheduler,
        background: BackgroundPool,
        on_failure: Callable[[LogDirFailure], None],
        new_worker: Callable[[], CleanerWorker],
    ) -> None:
        self._config = config
        self._logs = logs
        self._clock = clock
        self._scheduler = scheduler
        self._background = background
        self._on_failure = on_failure
        self._make_worker = new_worker
        self._workers: list[CleanerWorker] = []
        self._cleaner: LogCleaner | None = None

    def core(self) -> LogCleaner:
        """The cleaner itself, made when it is first needed."""
        if self._cleaner is None:
            from tidelog.storage.cleaner.manager import CleanerConfig, LogCleaner

            self._cleaner = LogCleaner(
                CleanerConfig.of(self._config),
                self._logs,
                self._clock,
                self._scheduler,
                self._new_worker,
                background=self._background,
                on_failure=self._on_failure,
            )
        return self._cleaner

    def _new_worker(self) -> CleanerWorker:
        worker = self._make_worker()
        self._workers.append(worker)
        return worker

    def start(self) -> None:
        """Begin, a little later, to look for dirty logs."""
        if self._config.log_cleaner_enable:
            self._scheduler.schedule("log-cleaner", lambda: self.core().start(), _FIRST_LOOK_MS)

    def update_config(self, config: BrokerConfig) -> None:
        """Follow changed settings."""
        self._config = config
        if self._cleaner is not None:
            from tidelog.storage.cleaner.manager import CleanerConfig

            self._cleaner.update_config(CleanerConfig.of(config))

    @property
    def metrics(self) -> CleanerMetrics | None:
        """The figures of the cleaner; None before its first look at the logs."""
        return None if self._cleaner is None else self._cleaner.metrics

    def abort(self, log: Log) -> None:
        """Stop cleaning a log, if it is being cleaned."""
        if self._cleaner is not None:
            self._cleaner.abort(log)

    def abort_in(self, directory: str) -> None:
        """A log directory is gone: stop cleaning in it."""
        if self._cleaner is not None:
            self._cleaner.abort_in(directory)

    async def stop(self) -> None:
        """End the jobs under way and wait until no worker is left."""
        if self._cleaner is not None:
            self._cleaner.stop()
        for worker in self._workers:
            await worker.wait_closed()


class _WorkerLostError(Exception):
    """The process has ended, or broke the protocol."""


class WorkerProcess:
    """A `CleanerWorker` that is a process of its own, while there is need for it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._conversation: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ending = OwnedTasks()

    def begin(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        """Have the process do a job."""
        assert self._conversation is None, "a worker does one job at a time"
        self._stay()
        self._conversation = asyncio.get_running_loop().create_task(self._converse(job, on_event, on_lost))

    def abandon(self, on_gone: Callable[[], None]) -> None:
        """Kill the process: the job under way is no longer needed."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None and conversation is not asyncio.current_task():
            conversation.cancel()
        self._end(kill=True, on_gone=on_gone)

    def close(self) -> None:
        """Let the process end; `wait_closed` returns when it has."""
        self.abandon(_nothing)

    async def wait_closed(self) -> None:
        """Wait until nothing is left of what was ended."""
        while self._ending:
            await self._ending.wait()

    async def _converse(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        """Give the job to the process and pass its events on, up to the last. Any error fails the job."""
        try:
            await self._pass_on(job, on_event)
        except Exception as error:
            if not isinstance(error, _WorkerLostError):
                logger.exception("cleaning %s failed", job.name)
            self._conversation = None
            self._end(kill=True)
            on_lost(f"the cleaner's worker failed: {error}")

    async def _pass_on(self, job: CleanJob, on_event: Callable[[Event], None]) -> None:
        from tidelog.storage.cleaner.jobs import JobDone, JobFailed, decode_event, encode_job

        process = self._process
        if process is None or process.returncode is not None:
            process = await self._spawn()
        assert process.stdin is not None, "the process was started with pipes"
        assert process.stdout is not None, "the process was started with pipes"
        try:
            process.stdin.write(encode_job(job))
        except RuntimeError as error:
            # uvloop raises this for a pipe whose other end is closed.
            raise _WorkerLostError(str(error)) from error
        while line := await process.stdout.readline():
            try:
                event = decode_event(line)
            except ValueError as error:
                raise _WorkerLostError(str(error)) from error
            is_last = isinstance(event, JobDone | JobFailed)
            if is_last:
                self._conversation = None
                self._rest()
            on_event(event)
            if is_last or self._conversation is not asyncio.current_task():
                return
        raise _WorkerLostError(f"it ended with code {await process.wait()}")

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(),
            limit=_LINE_BYTES_MAX,
        )
        return self._process

    def _rest(self) -> None:
        """The job is done. The process stays for a while, in case there is another."""
        self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_S, self._end)

    def _stay(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _end(self, *, kill: bool = False, on_gone: Callable[[], None] | None = None) -> None:
        """Let go of the process, or kill it; `on_gone` is called when it has ended."""
        self._stay()
        process, self._process = self._process, None
        self._ending.spawn(_wait_for_end(process, kill, on_gone or _nothing))


async def _wait_for_end(process: asyncio.subprocess.Process | None, kill: bool, on_gone: Callable[[], None]) -> None:
    if process is not None:
        if kill and process.returncode is None:
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
    on_gone()


def _environment() -> dict[str, str]:
    """Our environment, extended so that the process imports the same package."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, inherited]) if inherited else root}


def _nothing() -> None:
    return
