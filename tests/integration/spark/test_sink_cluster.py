"""Executors that are processes of their own: one that is killed, and one that is paused and comes back as a zombie."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.spark.sink_checks import REPOSITORY, Driver, judge, read_rows
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BATCHES = 3
SETTINGS = {
    "spark.executorEnv.PYTHONPATH": str(REPOSITORY),
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.task.maxFailures": "2",
}


def query(name: str, **others: Any) -> dict[str, Any]:
    """A query that stays in the write of batch 1, and is started again, without fault, when it has ended."""
    return {
        "name": name,
        "topic": name,
        "delivery": "exactly-once",
        "batches": BATCHES,
        "fault": "mid-write",
        "fault_batch": 1,
        "restart": True,
        **others,
    }


@pytest.mark.long
def test_executors_that_die_or_come_back_change_nothing(broker: Broker, tmp_path: Path) -> None:
    """Both cases in one cluster, for it takes long to start."""
    servers = broker.bootstrap_servers
    queries = [query("zombie"), query("killed", after="zombie")]
    for each in queries:
        broker.create_topic(each["topic"], 4)
    with Driver(tmp_path, servers, queries, master="local-cluster[2,1,1024]", settings=SETTINGS) as driver:
        come_back(driver, tmp_path)
        die(driver, tmp_path)
        driver.finish()

    outcome = (tmp_path / "zombie.outcome").read_text()
    assert outcome.startswith("SinkError: the transaction of this batch was ended or fenced"), outcome
    assert "earlier attempt may have written" in (tmp_path / "killed.failed").read_text()
    for each in queries:
        assert (tmp_path / f"{each['name']}.ended").read_text() == "done"
        verdict = judge(read_rows(servers, each["topic"]))
        assert verdict.is_clean, verdict
        assert verdict.batches >= BATCHES


def come_back(driver: Driver, directory: Path) -> None:
    """Pause an executor in its write, let the other one write the batch, and let the first go on."""
    driver.await_files(["zombie.reached"])
    family = executor_of(int((directory / "zombie.reached").read_text()))
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    try:
        (directory / "zombie.stop").touch()
        driver.await_files(["zombie.ended"])
        (directory / "zombie.go").touch()
    finally:
        for pid in family:
            os.kill(pid, signal.SIGCONT)
    driver.await_files(["zombie.outcome"])


def die(driver: Driver, directory: Path) -> None:
    """Kill an executor in its write: Spark tries the task again on the other one, and the sink refuses it."""
    driver.await_files(["killed.reached"])
    for pid in reversed(executor_of(int((directory / "killed.reached").read_text()))):
        os.kill(pid, signal.SIGKILL)


def executor_of(worker: int) -> list[int]:
    """A Python worker, the daemon that made it, and the JVM that both belong to."""
    daemon = parent_of(worker)
    return [worker, daemon, parent_of(daemon)]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
