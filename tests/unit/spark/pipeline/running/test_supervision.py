"""Restarting pipelines: when, how often, and what observers see; with queries that only pretend and a clock by hand."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from tidelog.spark.pipeline import PipelineError, topic
from tidelog.spark.pipeline.definition.expectations import Counts, RuleCount
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.running.restarts import UNLIMITED, RestartPolicy, Restarts, is_lasting
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State, Supervisor
from tidelog.spark.source.progress import QueryProgress

BATCH = QueryProgress("p", 0, 5, 1.0, 1.0, 7, 10, 0, 0, 1)


class Queries:
    """Queries that end at once, with or without an error."""

    def __init__(self, name: str, failure: Exception | None = None, *, runs: bool = False) -> None:
        self.names: Sequence[str] = [name]
        self._failure = failure
        self.position = None
        self.is_active = runs
        self.was_stopped = False

    def failure(self) -> Exception | None:
        return self._failure

    def late_progress(self) -> list[QueryProgress]:
        return [BATCH, BATCH, replace(BATCH, batch_id=1)]

    def rule_counts(self, progress: QueryProgress) -> Counts:
        return {"a > 0": RuleCount(progress.input_rows, 1)}

    def stop(self) -> None:
        self.was_stopped = True


class Observer:
    def __init__(self) -> None:
        self.states: list[tuple[str, State]] = []
        self.statuses: list[PipelineStatus] = []
        self.batches: list[int] = []

    def changed(self, status: PipelineStatus) -> None:
        self.states.append((status.pipeline, status.state))
        self.statuses.append(status)

    def progressed(self, status: PipelineStatus, progress: QueryProgress) -> None:
        self.batches.append(progress.batch_id)


class Clock:
    """Every look at it takes ten seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


def pipeline(name: str) -> Pipeline:
    return Pipeline(name, source=topic("a"), sink=topic("b"))


def supervised(
    queries: dict[str, list[Any]], restarts: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Supervisor, Observer]:
    monkeypatch.setattr("tidelog.spark.pipeline.running.supervision.WATCH_S", 0)
    observer = Observer()

    def begin(each: Pipeline) -> Queries:
        started = queries[each.name].pop(0)
        if isinstance(started, Exception):
            raise started
        assert isinstance(started, Queries)
        return started

    pipelines = [pipeline(name) for name in queries]
    return Supervisor(pipelines, begin, RestartPolicy(restarts), [observer], clock=Clock()), observer


def test_a_failed_pipeline_is_restarted_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Queries("p", ValueError("a worker died"))
    supervisor, observer = supervised({"p": [failed, Queries("p")], "q": [Queries("q")]}, 1, monkeypatch)
    assert supervisor.run(Event()) is False
    assert [state for name, state in observer.states if name == "p"] == [
        State.STARTING, State.RUNNING, State.RESTARTING, State.STARTING, State.RUNNING, State.DONE,
    ]  # fmt: skip
    assert ("q", State.DONE) in observer.states
    assert failed.was_stopped, "its other queries do not stay"
    restarting = next(status for status in observer.statuses if status.state is State.RESTARTING)
    assert (restarting.error, restarting.restarts, restarting.restart_in_s) == ("a worker died", 1, 0.5)
    runs = {status.run_id for status in observer.statuses if status.pipeline == "p"}
    assert len(runs) == 2, "each start is a run of its own"


def test_it_gives_up_with_the_reason_and_the_others_end_first(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Queries("p", ValueError("a worker died"))
    queries: dict[str, list[Any]] = {"p": [failed, *[ValueError("no broker")] * 2], "q": [Queries("q")]}
    supervisor, observer = supervised(queries, 2, monkeypatch)
    with pytest.raises(ValueError, match="no broker"):
        supervisor.run(Event())
    assert [state for name, state in observer.states if name == "p"].count(State.RESTARTING) == 2
    assert {status.pipeline: status.state for status in supervisor.statuses} == {"p": State.FAILED, "q": State.DONE}


def test_a_mistake_in_the_definition_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for mistake in (PipelineError("no such column"), TypeError("at its first start")):
        supervisor, observer = supervised({"p": [mistake]}, UNLIMITED, monkeypatch)
        with pytest.raises(type(mistake)):
            supervisor.run(Event())
        assert [state for _, state in observer.states] == [State.STARTING, State.FAILED]


def test_a_stop_ends_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    running, asked = Queries("p", runs=True), Event()
    supervisor, _ = supervised({"p": [running]}, UNLIMITED, monkeypatch)
    asked.set()
    assert supervisor.run(asked) is True
    assert running.was_stopped
    assert {status.state for status in supervisor.statuses} == {State.STOPPED}


def test_batches_that_spark_reports_late_or_twice_are_passed_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor, observer = supervised({"p": [Queries("p")]}, 0, monkeypatch)
    supervisor.run(Event())
    assert observer.batches == [0, 1]
    assert supervisor.statuses[0].lag_records == 7


def test_delays_grow_up_to_a_minute_and_progress_sets_them_back() -> None:
    restarts = Restarts(RestartPolicy(UNLIMITED))
    assert [restarts.delay_s("x", 1) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 32, 60]
    assert restarts.delay_s("x", 2) == 0.5
    assert restarts.total == 9


@pytest.mark.parametrize(
    ("failure", "lasts"),
    [
        ("a row failed (topic a partition 0 offset 7): ValueError: x; set on_failure to go on without such rows", True),
        ("OptionError: option 'x' is not known", True),
        ("AnalysisException: no such column", True),
        ("DataLossError: 5 offsets are lost", True),
        ("BatchRejected: delta t needs the column 'id'; the rows have key, value", True),
        ("StreamingQueryException: [CAST_INVALID_INPUT] The value 'x' cannot be cast. SQLSTATE: 22018", True),
        ("SinkError: 2 of 4 rows have no topic: the column 'topic' is null there", True),
        ("assertion failed: There are [2] sources in the checkpoint offsets and now there are [1] sources", True),
        ("StreamingQueryException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", True),
        ("StreamingQueryException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] SQLSTATE: 58030", False),
        ("BatchFailed: subject 'orders-value': the registry does not answer", False),
        ("SparkException: Python worker exited unexpectedly (crashed)", False),
        ("SinkError: task 1 runs for the 2. time", False),
        ("SinkError: the brokers aborted the transaction of this batch: it was open for 60 s", False),
    ],
)
def test_failures_that_a_restart_cannot_cure_are_known(failure: str, lasts: bool) -> None:
    assert is_lasting(failure) == lasts


class CutOff(Queries):
    """Queries whose JVM is asked to stop with the process, and ends first."""

    def __init__(self, asked: Event, failure: Exception, *, is_seen_first: bool) -> None:
        super().__init__("p", runs=True)
        self._asked = asked
        self._end = failure
        self._is_seen_first = is_seen_first

    def failure(self) -> Exception | None:
        self._asked.set()
        return self._end if self._is_seen_first or self.was_stopped else None

    def late_progress(self) -> list[QueryProgress]:
        raise ConnectionRefusedError("the JVM is gone")


@pytest.mark.parametrize("is_seen_first", [True, False])
def test_a_jvm_that_ends_with_the_process_is_no_failure(monkeypatch: pytest.MonkeyPatch, is_seen_first: bool) -> None:
    asked = Event()
    queries = CutOff(asked, RuntimeError("the JVM of Spark's driver has ended"), is_seen_first=is_seen_first)
    supervisor, observer = supervised({"p": [queries]}, 3, monkeypatch)
    assert supervisor.run(asked) is True
    assert observer.states[-1] == ("p", State.STOPPED)


def test_a_failure_that_lasts_is_one_although_a_stop_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Event()
    queries = CutOff(asked, PipelineError("no such column"), is_seen_first=False)
    supervisor, observer = supervised({"p": [queries]}, 3, monkeypatch)
    with pytest.raises(PipelineError):
        supervisor.run(asked)
    assert observer.states[-1] == ("p", State.FAILED)


def test_what_expectations_find_is_added_up_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch once, though the first is reported twice."""
    supervisor, observer = supervised({"p": [Queries("p")]}, 1, monkeypatch)
    supervisor.run(Event())
    assert observer.statuses[-1].rules == {"a > 0": RuleCount(10, 2)}
