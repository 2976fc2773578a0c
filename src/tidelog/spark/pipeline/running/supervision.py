"""Runs pipelines side by side and restarts those that fail, with growing delays, until they succeed or it gives up.

    supervisor = Supervisor([orders, returns], begin, RestartPolicy(5), observers)
    supervisor.run(asked_to_stop)

A failure that a restart would cure is none once a stop is requested: what asks a process to stop often asks Spark's JVM
and its workers, too (systemd does), and these end in the middle of a batch, which the next run repeats.

`begin` starts the queries of one pipeline. Each pipeline fails, restarts and ends for itself: one that has given up
does not stop the others. Observers receive every change of state and every micro-batch, in the thread of `run`, and
must not block. `progress` holds micro-batches for them, which another thread may add at any time.
"""

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.spark.pipeline.definition.expectations import Counts, added
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.restarts import RestartPolicy, Restarts, is_lasting

if TYPE_CHECKING:
    from tidelog.spark.source.progress import QueryProgress

LOG: Final = logging.getLogger("tidelog.pipeline")

WATCH_S: Final = 0.2


class State(StrEnum):
    """The states of a pipeline. The last three are final."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


_OUTSIDE: Final = ("pyspark.", "py4j.", "tidelog.client.", "tidelog.wire.")

FINAL: Final = frozenset({State.DONE, State.STOPPED, State.FAILED})


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What is known of one pipeline now."""

    pipeline: str
    state: State
    run_id: str
    """A new one for each start."""
    restarts: int = 0
    error: str | None = None
    """Why it failed last."""
    restart_in_s: float | None = None
    """The delay before the next start, while it is restarting."""
    queries: "dict[str, QueryProgress]" = field(default_factory=dict)
    """The last micro-batch of each query, by the query's name."""
    rules: Counts = field(default_factory=dict)
    """What expectations have found since the process started, by rule. Rows that are tried again count again."""

    @property
    def lag_records(self) -> int | None:
        """The records that its queries had not read after their last micro-batches; None if that is unknown."""
        lags = [progress.lag_records for progress in self.queries.values() if progress.lag_records is not None]
        return max(lags, default=None)


class Observer(Protocol):
    """Receives what happens to the pipelines of a process."""

    def changed(self, status: PipelineStatus) -> None:
        """A pipeline has another state."""

    def progressed(self, status: PipelineStatus, progress: "QueryProgress") -> None:
        """A micro-batch of a pipeline is done."""


class Queries(Protocol):
    """The queries of a pipeline that was started."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def is_active(self) -> bool: ...

    @property
    def position(self) -> object: ...

    def failure(self) -> Exception | None: ...

    def late_progress(self) -> "Sequence[QueryProgress]": ...

    def rule_counts(self, progress: "QueryProgress") -> Counts: ...

    def stop(self) -> None: ...


class _Supervised:
    """One pipeline: its queries while it runs, its next start while it waits for one."""

    def __init__(self, pipeline: Pipeline, policy: RestartPolicy, is_over: Callable[[], bool] | None) -> None:
        self.pipeline = pipeline
        self.restarts = Restarts(policy)
        self.is_over = is_over
        self.queries: Queries | None = None
        self.start_at = 0.0
        self.status = PipelineStatus(pipeline.name, State.STARTING, _new_run_id())
        self.failure: Exception | None = None
        self.has_run = False
        """Whether its queries were ever started."""
        self.seen: dict[str, tuple[int, int]] = {}


class Supervisor:
    """The pipelines of a process."""

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        begin: Callable[[Pipeline], Queries],
        policy: RestartPolicy,
        observers: Sequence[Observer] = (),
        *,
        is_over: Callable[[Pipeline], Callable[[], bool] | None] = lambda _: None,
        progress: "deque[QueryProgress] | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin = begin
        self._observers = observers
        self._clock = clock
        self._supervised = [_Supervised(pipeline, policy, is_over(pipeline)) for pipeline in pipelines]
        self._progress: deque[QueryProgress] = deque() if progress is None else progress
        self._asked_to_stop = Event()

    @property
    def statuses(self) -> list[PipelineStatus]:
        """One for each pipeline."""
        return [each.status for each in self._supervised]

    def run(self, asked_to_stop: Event, on_tick: Callable[[], Any] = lambda: None) -> bool:
        """Run until every pipeline has ended or a stop is requested. Returns whether a stop was requested.

        Raises the error of the first pipeline that failed, after all have ended.
        """
        self._asked_to_stop = asked_to_stop
        try:
            while True:
                for each in self._supervised:
                    self._advance(each)
                self._pass_on_progress()
                on_tick()
                has_ended = all(each.status.state in FINAL for each in self._supervised)
                if has_ended or asked_to_stop.wait(WATCH_S):
                    break
        finally:
            self._stop_all()
        for each in self._supervised:
            if each.failure is not None:
                raise each.failure
        return asked_to_stop.is_set()

    def _advance(self, each: _Supervised) -> None:
        if each.status.state in FINAL:
            return
        try:
            if each.queries is None:
                if self._clock() >= each.start_at:
                    self._start(each)
            elif (failure := each.queries.failure()) is not None:
                raise failure
            elif not each.queries.is_active:
                self._end(each, State.DONE)
            elif each.is_over is not None and each.is_over():
                self._halt(each)
                self._end(each, State.DONE)
        except Exception as error:  # noqa: BLE001 - one pipeline's failure is not the others'
            self._fail(each, error)

    def _start(self, each: _Supervised) -> None:
        run_id = each.status.run_id if each.status.state is State.STARTING else _new_run_id()
        self._change(each, state=State.STARTING, run_id=run_id, restart_in_s=None)
        each.queries = self._begin(each.pipeline)
        each.has_run = True
        self._change(each, state=State.RUNNING)

    def _fail(self, each: _Supervised, error: Exception) -> None:
        position = None
        with suppress(Exception):  # the JVM may be gone, and with it what the queries were
            position = None if each.queries is None else each.queries.position
        with suppress(Exception):
            self._halt(each)
        each.queries = None
        sentence = in_a_sentence(error)
        # Not the whole text, which has the query's plan in it and with it any word.
        failure = f"{type(error).__name__}: {sentence}"
        if self._asked_to_stop.is_set() and not is_lasting(failure):
            LOG.warning(
                "pipeline %s was stopped in a batch, which the next run repeats: %s", each.pipeline.name, failure
            )
            self._end(each, State.STOPPED)
            return
        delay_s = each.restarts.delay_s(failure, position)
        if delay_s is None or (not each.has_run and _is_a_mistake(error)):
            each.failure = error
            self._change(each, state=State.FAILED, error=sentence)
            return
        each.start_at = self._clock() + delay_s
        self._change(
            each,
            state=State.RESTARTING,
            error=sentence,
            restarts=each.restarts.total,
            restart_in_s=delay_s,
        )

    def _stop_all(self) -> None:
        for each in self._supervised:
            if each.status.state in FINAL:
                continue
            try:
                self._halt(each)
                failure = None if each.queries is None else each.queries.failure()
            except Exception as error:  # noqa: BLE001 - the pipeline's failure, whatever it is
                failure = error
            if failure is None:
                self._end(each, State.STOPPED)
            elif self._asked_to_stop.is_set():
                self._fail(each, failure)
            else:
                each.failure = failure
                self._change(each, state=State.FAILED, error=in_a_sentence(failure))

    def _halt(self, each: _Supervised) -> None:
        if each.queries is not None:
            each.queries.stop()

    def _end(self, each: _Supervised, state: State) -> None:
        self._pass_on_progress()
        if each.queries is not None:
            # Spark reports batches in another thread, perhaps too late for the last one.
            with suppress(Exception):
                for progress in each.queries.late_progress():
                    self._progressed(each, progress)
        self._change(each, state=state)

    def _change(self, each: _Supervised, **changes: Any) -> None:
        each.status = replace(each.status, **changes)
        for observer in self._observers:
            observer.changed(each.status)

    def _pass_on_progress(self) -> None:
        while self._progress:
            progress = self._progress.popleft()
            for each in self._supervised:
                if each.queries is not None and progress.name in each.queries.names:
                    self._progressed(each, progress)

    def _progressed(self, each: _Supervised, progress: "QueryProgress") -> None:
        at = (progress.batch_id, progress.timestamp_ms)
        if at <= each.seen.get(progress.name, (-1, -1)):
            return
        each.seen[progress.name] = at
        if progress.late_rows:
            LOG.warning(
                "query %s: Spark dropped %d rows or groups of batch %d, which were behind the watermark",
                progress.name,
                progress.late_rows,
                progress.batch_id,
            )
        queries = {**each.status.queries, progress.name: progress}
        each.status = replace(each.status, queries=queries, rules=_rules_after(each, progress))
        for observer in self._observers:
            observer.progressed(each.status, progress)


def _rules_after(each: _Supervised, progress: "QueryProgress") -> Counts:
    counts = {} if each.queries is None else each.queries.rule_counts(progress)
    for rule, count in counts.items():
        if count.failed:
            LOG.warning(
                "query %s: %d of %d rows of batch %d fail the expectation %r",
                progress.name,
                count.failed,
                count.evaluated,
                progress.batch_id,
                rule,
            )
    return added(each.status.rules, counts) if counts else each.status.rules


def _is_a_mistake(error: Exception) -> bool:
    """Whether an error of the first start comes from the pipeline's own code, and not from Spark or the brokers."""
    return not type(error).__module__.startswith(_OUTSIDE) and not isinstance(error, OSError)


def _new_run_id() -> str:
    return str(uuid.uuid4())
