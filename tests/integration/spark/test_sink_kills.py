"""`kill -9` at every point of a batch: after a restart each row is there exactly once.

The cases of the usual run, a crash point for each promise, go all at once, to spare starts of Java, and so do those of
the long run. In the first run each query goes to the point of its fault and stays there; when all have arrived, the
driver is killed, JVM and all. The second run starts the same queries on the same checkpoints, without faults, and lets
them do a few batches more.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.integration.spark.sink_checks import Driver, Verdict, judge, read_rows
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FAULT_BATCH = 1
BATCHES = 3


class Case(NamedTuple):
    """A query, where it is interrupted, and how its source is split afterwards."""

    delivery: str
    fault: str | None
    splits_after: int = 2
    is_placed: bool = True

    @property
    def name(self) -> str:
        return f"{self.delivery}_{self.fault}_{self.splits_after}{'' if self.is_placed else '_unplaced'}"

    @property
    def is_killed(self) -> bool:
        """Whether it stays at its fault to be killed there; else it ends by itself."""
        return self.fault is not None and not self.fault.startswith("raise")

    def query(self, *, is_first: bool) -> dict[str, Any]:
        query = {"name": self.name, "topic": self.name, "delivery": self.delivery, "batches": BATCHES}
        query["placed"] = self.is_placed
        if is_first:
            return {**query, "fault": self.fault, "fault_batch": FAULT_BATCH}
        return {**query, "splits": self.splits_after}


EXACTLY_ONCE = [
    Case("exactly-once", None),
    Case("exactly-once", "raise"),
    Case("exactly-once", "raise-once"),
    Case("exactly-once", "mid-write"),
    Case("exactly-once", "before-commit"),
    Case("exactly-once", "in-commit"),
    Case("exactly-once", "end-unanswered"),
    Case("exactly-once", "after-commit"),
    Case("exactly-once", "in-commit", 3),
    Case("exactly-once", "after-commit", 3),
    Case("exactly-once", "mid-write", is_placed=False),
    Case("exactly-once", "in-commit", is_placed=False),
    Case("exactly-once", "end-unanswered", is_placed=False),
    Case("exactly-once", "after-commit", 3, is_placed=False),
    Case("small", "mid-write"),
    Case("small", "in-commit"),
    Case("small", "after-commit", 3),
]
RETRIED = [Case("small", "raise-once")]
AT_LEAST_ONCE = [
    Case("at-least-once", "raise-once"),
    Case("at-least-once", "mid-write"),
    Case("at-least-once", "before-commit", 3),
]
CASES = EXACTLY_ONCE + RETRIED + AT_LEAST_ONCE
ZOMBIE = Case("exactly-once", "mid-write")
REFUSED = Case("exactly-once", "raise-once")
USUAL = [ZOMBIE, Case("exactly-once", "after-commit", 3)]
"""A batch that was killed while it was written, and one of whose commit Spark did not know."""


def marked(cases: list[Case]) -> list[Any]:
    """The cases, with those that are not for the usual run marked as long."""
    return [case if case in USUAL else pytest.param(case, marks=pytest.mark.long) for case in cases]


class Runs(NamedTuple):
    """What was found after both runs."""

    directory: Path
    verdicts: dict[str, Verdict]

    def text(self, case: Case, what: str) -> str:
        return (self.directory / f"{case.name}.{what}").read_text()


@pytest.fixture(scope="module")
def usual_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    yield from run_cases(tmp_path_factory.mktemp("kills"), USUAL)


@pytest.fixture(scope="module")
def long_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    yield from run_cases(tmp_path_factory.mktemp("kills"), [case for case in CASES if case not in USUAL])


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> Runs:
    """The runs that the case of a test is in; without a case, those of the usual run."""
    case = getattr(request.node, "callspec", None)
    is_usual = case is None or case.params["case"] in USUAL
    found: Runs = request.getfixturevalue("usual_runs" if is_usual else "long_runs")
    return found


def run_cases(directory: Path, cases: list[Case]) -> Iterator[Runs]:
    with Broker(process=True) as broker:
        servers = broker.bootstrap_servers
        for case in cases:
            broker.create_topic(case.name, 4)
        zombie = first_run(directory, servers, cases)
        try:
            second_run(directory, servers, cases)
            if zombie is not None:
                let_go(zombie, directory)
        finally:
            if zombie is not None:
                end_process(zombie)
        yield Runs(directory, {case.name: judge(read_rows(servers, case.name)) for case in cases})


def first_run(directory: Path, servers: str, cases: list[Case]) -> int | None:
    """Up to the kill; the task of ZOMBIE is paused before, and outlives its driver. Returns its process, if any."""
    queries = [case.query(is_first=True) for case in cases]
    # Tasks that stay in their write take a core each; and a task may be tried three times.
    with Driver(directory, servers, queries, master="local[5,3]", run="first") as driver:
        driver.await_files(f"{case.name}.{'reached' if case.is_killed else 'ended'}" for case in cases)
        zombie = int((directory / f"{ZOMBIE.name}.reached").read_text()) if ZOMBIE in cases else None
        if zombie is not None:
            os.kill(zombie, signal.SIGSTOP)
        driver.kill()
    for case in cases:
        if case.is_killed and case != ZOMBIE:
            end_process(int((directory / f"{case.name}.reached").read_text()))
        if case.is_killed:
            (directory / f"{case.name}.reached").unlink()
        else:
            (directory / f"{case.name}.ended").rename(directory / f"{case.name}.first")
    return zombie


def second_run(directory: Path, servers: str, cases: list[Case]) -> None:
    queries = [case.query(is_first=False) for case in cases]
    with Driver(directory, servers, queries, master="local[2]", run="second") as driver:
        driver.finish()
    for case in cases:
        assert (directory / f"{case.name}.ended").read_text() == "done", case.name


def let_go(zombie: int, directory: Path) -> None:
    """Resume the paused task, and wait for its outcome."""
    (directory / f"{ZOMBIE.name}.go").touch()
    os.kill(zombie, signal.SIGCONT)
    import time

    outcome = directory / f"{ZOMBIE.name}.outcome"
    deadline = time.monotonic() + 30
    while not outcome.exists():
        assert time.monotonic() < deadline, "the zombie did not tell how it ended"
        time.sleep(0.02)


def end_process(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.parametrize("case", marked(EXACTLY_ONCE + RETRIED), ids=lambda case: case.name)
def test_every_row_is_there_exactly_once(runs: Runs, case: Case) -> None:
    verdict = runs.verdicts[case.name]
    assert verdict.batches >= BATCHES
    assert (verdict.missing, verdict.duplicates) == ([], 0)


@pytest.mark.parametrize(
    "case", marked([case for case in EXACTLY_ONCE if case.splits_after == 2]), ids=lambda case: case.name
)
def test_rows_of_a_key_keep_their_order(runs: Runs, case: Case) -> None:
    assert runs.verdicts[case.name].disordered == []


@pytest.mark.parametrize("case", marked(AT_LEAST_ONCE), ids=lambda case: case.name)
def test_without_transactions_the_same_faults_write_rows_twice(runs: Runs, case: Case) -> None:
    """So the checker can fail, and the faults are where they should be."""
    verdict = runs.verdicts[case.name]
    assert verdict.missing == []
    assert verdict.duplicates > 0


@pytest.mark.parametrize("case", marked([REFUSED]), ids=lambda case: case.name)
def test_a_task_that_runs_again_is_refused_with_what_to_set(runs: Runs, case: Case) -> None:
    ended = runs.text(case, "first")
    assert "earlier attempt may have written" in ended
    assert "spark.speculation=false" in ended


@pytest.mark.parametrize("case", marked(RETRIED), ids=lambda case: case.name)
def test_rows_that_ride_in_messages_survive_tasks_that_run_again(runs: Runs, case: Case) -> None:
    assert runs.text(case, "first") == "done"


def test_a_zombie_is_fenced(runs: Runs) -> None:
    """Its driver was killed, its batch was written by another; then it woke up and went on writing."""
    outcome = runs.text(ZOMBIE, "outcome")
    assert outcome.startswith("SinkError: the transaction of this batch was ended or fenced"), outcome
