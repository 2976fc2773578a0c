"""What a session is asked for: our defaults, unless another setting is there."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import session
from tidelog.spark.session import interrupts_held, spark_session

ZONE = "spark.sql.session.timeZone"
started: list[dict[str, str]] = []
"""What Java was started with."""


class Builder:
    """Takes down what a session would be made with."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    def config(self, name: str, value: str) -> "Builder":
        self.asked[name] = value
        return self

    def appName(self, name: str) -> "Builder":
        return self.config("spark.app.name", name)

    def master(self, name: str) -> "Builder":
        return self.config("spark.master", name)

    def getOrCreate(self) -> dict[str, str]:
        return self.asked


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.setattr(session, "find_java_home", lambda: "/java")
    monkeypatch.setattr(session, "is_running", lambda: False)
    monkeypatch.setattr(session, "start_java", started.append)
    started.clear()
    for name in ("SPARK_MASTER", "SPARK_REMOTE", "SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", "/user's")
    monkeypatch.setenv("SPARK_HOME", "/user's")
    monkeypatch.setattr(os, "environ", dict(os.environ))


def asked(**options: Any) -> dict[str, str]:
    return dict(spark_session("app", **options))  # type: ignore[call-overload]


def test_a_new_session_is_local_and_speaks_utc() -> None:
    made = asked(settings={"spark.ui.enabled": "true"})

    assert made["spark.master"].startswith("local[")
    assert (made[ZONE], made["spark.ui.enabled"], made["spark.speculation"]) == ("UTC", "true", "false")
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert started == [made], "the memory of a driver, for one, is chosen when its JVM starts"


def test_checkpoints_are_written_the_quick_way_only_where_all_of_them_are_local() -> None:
    """An object store cannot rename atomically; only the caller knows where checkpoints will be."""
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert manager not in asked()
    assert manager not in asked(local_checkpoints=True, master="spark://host:7077")
    assert "FileSystemBased" in asked(local_checkpoints=True, master="local[2]")[manager]


def test_a_session_that_runs_gets_no_more_than_the_caller_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another time zone would change what its other queries say."""
    monkeypatch.setattr(session, "is_running", lambda: True)

    assert asked(settings={"spark.sql.shuffle.partitions": "3"}) == {"spark.sql.shuffle.partitions": "3"}


def test_settings_of_spark_submit_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job for a cluster must not run on one machine because its code makes its session with this."""
    monkeypatch.setattr(session, "_submitted", lambda: {"spark.master": "yarn", ZONE: "Europe/Paris"})

    made = asked()

    assert made["spark.master"] == "yarn"
    assert ZONE not in made
    assert made["spark.speculation"] == "false"


def test_executors_elsewhere_find_the_driver() -> None:
    asked(master="spark://host:7077")

    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_session_far_away_has_its_own_master_and_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SPARK_REMOTE", "sc://host")

    assert asked(settings={ZONE: "Asia/Tokyo"}) == {"spark.app.name": "app", ZONE: "Asia/Tokyo"}
    assert os.environ["JAVA_HOME"] == "/user's"


@pytest.fixture
def usual_interrupts() -> Iterator[None]:
    """Python's own; a session that another test had in this process may have left Spark's."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("usual_interrupts")
def test_an_interrupt_waits_for_what_must_be_whole() -> None:
    steps = []

    def interrupted() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            steps.append("whole")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert steps == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Ended(Exception):
    """What PySpark raises when its JVM does not come up."""

    def getCondition(self) -> str:
        return "JAVA_GATEWAY_EXITED"


def test_a_jvm_that_is_killed_while_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [Ended(), Ended()]
    monkeypatch.setattr(session, "end_java", lambda: None)

    def start(settings: dict[str, str]) -> None:
        if ends:
            raise ends.pop()
        started.append(settings)

    monkeypatch.setattr(session, "start_java", start)
    assert asked(master="local[1]")["spark.master"] == "local[1]"
    assert len(started) == 1
    ends += [Ended()] * session.STARTS_MAX
    with pytest.raises(session.JavaEndedAtStart, match="ended 3 times while it started"):
        asked(master="local[1]")


def test_another_failure_of_a_start_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(settings: dict[str, str]) -> None:
        raise ValueError("no such option")

    monkeypatch.setattr(session, "start_java", start)
    with pytest.raises(ValueError, match="no such option"):
        asked(master="local[1]")
