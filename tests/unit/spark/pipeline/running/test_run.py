"""Waiting for queries and stopping them, with queries that only pretend."""

from threading import Event
from typing import Any

import pytest

from tidelog.spark.pipeline import Pipeline, PipelineError, topic
from tidelog.spark.pipeline.running.run import Running, has_local_checkpoints, session_settings

PIPELINE = Pipeline("p", source=topic("a"), sink=topic("b"), settings={"spark.driver.memory": "2g"})


class _Query:
    """A query that is busy for some looks at it, or fails, or ends."""

    def __init__(self, *, busy_looks: int = 0, ends_after: int | None = None, failure: Exception | None = None) -> None:
        self._busy_looks = busy_looks
        self._ends_after = ends_after
        self._failure = failure
        self._looks = 0
        self.was_stopped = False
        self.stopped_while_busy = False

    name = "p"
    recentProgress: tuple[Any, ...] = ()

    @property
    def isActive(self) -> bool:
        self._looks += 1
        over = self._ends_after is not None and self._looks > self._ends_after
        return not (self.was_stopped or over or self._failure is not None)

    @property
    def status(self) -> dict[str, Any]:
        self._busy_looks -= 1
        return {"isTriggerActive": self._busy_looks > 0}

    @property
    def lastProgress(self) -> dict[str, Any]:
        return {"batchId": 1}

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        self.stopped_while_busy = self._busy_looks > 0
        self.was_stopped = True


def _running(*queries: _Query) -> Running:
    return Running(PIPELINE, list(queries))  # type: ignore[arg-type]


def test_a_query_that_ends_by_itself_is_not_stopped() -> None:
    query = _Query(ends_after=0)
    assert _running(query).wait(Event()) is False
    assert not query.was_stopped


def test_who_asks_to_stop_waits_for_the_batch_in_progress() -> None:
    query, asked = _Query(busy_looks=4), Event()
    asked.set()
    assert _running(query).wait(asked) is True
    assert query.was_stopped
    assert not query.stopped_while_busy


def test_patience_has_an_end() -> None:
    query = _Query(busy_looks=1_000_000)
    _running(query).stop(patience_s=0.05)
    assert query.stopped_while_busy


def test_a_failed_query_stops_the_others_and_is_raised() -> None:
    well, failed = _Query(), _Query(failure=ValueError("bad"))
    with pytest.raises(ValueError, match="bad"):
        _running(well, failed).wait(Event())
    assert well.was_stopped


def test_a_tick_may_say_that_it_is_enough() -> None:
    query = _Query()
    assert _running(query).wait(Event(), lambda: True) is False
    assert query.was_stopped


def test_on_one_machine_a_shuffle_has_as_many_parts_as_cores() -> None:
    assert session_settings([PIPELINE], "local[3]")["spark.sql.shuffle.partitions"] == "3"
    assert session_settings([PIPELINE], "local[2,4]")["spark.sql.shuffle.partitions"] == "2"
    assert session_settings([PIPELINE], "spark://host:7077") == {"spark.driver.memory": "2g"}


@pytest.mark.parametrize(
    ("checkpoint", "is_quick"),
    [("/data/c", True), ("file:///data/c", True), ("s3a://bucket/c", False), ("hdfs://host/c", False)],
)
def test_checkpoints_on_local_disks_are_known_as_such(
    monkeypatch: pytest.MonkeyPatch, checkpoint: str, is_quick: bool
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    pipeline = Pipeline("p", source=topic("a"), sink=topic("b"), checkpoint=checkpoint)
    assert has_local_checkpoints([pipeline]) == is_quick


def test_pipelines_of_one_process_share_its_settings_or_are_refused() -> None:
    other = Pipeline("q", source=topic("a"), sink=topic("c"), settings={"spark.driver.memory": "2g", "spark.x": "1"})
    settings = session_settings([PIPELINE, other], "local[2]")
    assert (settings["spark.x"], settings["spark.scheduler.mode"]) == ("1", "FAIR")
    third = Pipeline("r", source=topic("a"), sink=topic("c"), settings={"spark.driver.memory": "3g"})
    with pytest.raises(PipelineError, match=r"'p' and 'r' cannot share a session: spark.driver.memory is 2g and 3g"):
        session_settings([PIPELINE, third], "local[2]")
