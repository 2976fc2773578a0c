"""Three brokers under faults and third-party clients: nothing acknowledged is lost, duplicated, reordered or hidden.

`make chaos` runs more of these; see `__main__.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import apache_kafka
from tests.compat.chaos import load
from tests.compat.chaos.run import Report, run_schedule
from tests.integration.zookeeper_support import needs_zookeeper

pytestmark = pytest.mark.timeout(300)

LONG_SEEDS = range(10)


def check(report: Report) -> None:
    story = "\n".join([*report.anomalies, "schedule:", *map(str, report.schedule), "what happened:", *report.story])
    assert not report.failed, f"seed {report.seed} on the {report.tree} tree fails:\n{story}"
    assert report.counts["acknowledged sends"] > 0
    assert report.counts["transactions committed"] > 0


def test_a_killed_leader_loses_nothing() -> None:
    check(run_schedule(5, "shared", names=["kill the leader"], count=1))


def test_a_broker_cut_off_from_all_others_loses_nothing() -> None:
    check(run_schedule(7, "shared", names=["isolate from all"], count=1))


@needs_zookeeper
def test_a_killed_zookeeper_loses_nothing() -> None:
    check(run_schedule(8, "zookeeper", names=["kill ZooKeeper"], count=1))


@pytest.mark.long
@needs_zookeeper
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_schedules_hold_every_promise(seed: int) -> None:
    check(run_schedule(seed))


@pytest.mark.long
def test_writes_that_only_a_leader_acknowledged_are_found_to_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker finds what it looks for: a producer with acks=1 that claims acks=all."""
    real = load.Producer

    def careless(settings: dict[str, Any]) -> Any:
        if settings.get("enable.idempotence"):
            settings = {**settings, "enable.idempotence": False, "acks": 1}
        return real(settings)

    monkeypatch.setattr(load, "Producer", careless)
    reports = (run_schedule(seed, "shared", names=["isolate from all"], count=2) for seed in range(4))
    assert any(anomaly.startswith("lost write") for report in reports for anomaly in report.anomalies)


@pytest.mark.long
@pytest.mark.java
@needs_zookeeper
@pytest.mark.parametrize("seed", [100, 101])
def test_schedules_hold_every_promise_to_the_java_client(seed: int) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    from tests.compat.chaos.java import add_java_clients

    check(run_schedule(seed, java=add_java_clients))
