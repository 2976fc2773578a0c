"""One seed from beginning to end: clients, faults, then peace, and the question whether every promise held.

`run_seed` returns a `Report`. The schedule of a seed that fails can be shortened with `shorten`: faults are left out
one by one, and stay out where the seed fails without them.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from tidelog.client import AsyncAdmin, NewTopic
from tidelog.testing.simulation.faults import FAULTS, Fault, draw_schedule
from tidelog.testing.simulation.history import History
from tidelog.testing.simulation.simulation import Simulation, SimulationFailed
from tidelog.testing.simulation.workload import PARTITIONS, TOPIC, TRANSACTIONS_TOPIC, Workload, read_everything

FAULT_SECONDS: Final = 12.0
FAULTS_PER_SEED: Final = 6
_HEALTHY_SECONDS_MAX: Final = 120.0
_STORY_LINES: Final = 60


@dataclass
class Report:
    """What one seed showed."""

    seed: int
    anomalies: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    """Those that happened."""
    counts: Counter[str] = field(default_factory=Counter)
    """What clients and brokers did."""
    schedule: Sequence[Fault] = ()
    story: list[str] = field(default_factory=list)
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    events: int = 0

    @property
    def failed(self) -> bool:
        return bool(self.anomalies)


def run_seed(seed: int, brokers: int = 3, schedule: Sequence[Fault] | None = None) -> Report:
    """Run one seed. A schedule of one's own is for trying a failing seed with fewer faults."""
    if schedule is None:
        schedule = draw_schedule(seed, FAULT_SECONDS, FAULTS_PER_SEED)
    report = Report(seed, schedule=schedule)
    began = perf_counter()
    with _quiet(), Simulation(seed, brokers) as cluster:
        try:
            _live(cluster, report)
        except SimulationFailed as failure:
            report.anomalies.append(str(failure).partition("\n")[0])
        report.anomalies += cluster.invariants.violations
        report.counts["leader epochs"] = cluster.invariants.leader_changes
        report.counts["controller epochs"] = cluster.invariants.controller_changes
        report.story = cluster.world.story(_STORY_LINES)
        report.virtual_seconds = cluster.world.now
        report.events = cluster.world.events_run
    report.real_seconds = perf_counter() - began
    return report


def _live(cluster: Simulation, report: Report) -> None:
    history = History()
    chance = random.Random(f"workload {cluster.seed}")
    replicas = min(3, len(cluster.brokers))
    workload = Workload(history, cluster.bootstrap_servers, chance, replicas)
    cluster.run(cluster.client().run(_create_topics(cluster.bootstrap_servers, replicas)))
    workload.start(cluster.client)
    began = cluster.world.now
    for fault in report.schedule:
        cluster.world.at(began + fault.at, lambda fault=fault: _begin(cluster, fault, report))  # type: ignore[misc]
    cluster.world.run_for(FAULT_SECONDS)
    cluster.world.tell("simulator", "all faults are over")
    cluster.make_peace()
    try:
        cluster.wait_until(cluster.is_healthy, "every broker serves and every replica is in sync", _HEALTHY_SECONDS_MAX)
    except SimulationFailed:
        report.anomalies += [f"not well: {each}" for each in cluster.ailments()[:6]]
        raise
    workload.stop()
    cluster.wait_until(lambda: workload.is_done, "every client comes to its end", _HEALTHY_SECONDS_MAX)
    cluster.run(cluster.client().run(read_everything(cluster.bootstrap_servers, history)))
    cluster.invariants.compare_logs(from_start=True)
    report.counts.update(workload.counts)
    report.anomalies += workload.errors() + workload.violations + history.anomalies() + cluster.defects()


def _begin(cluster: Simulation, fault: Fault, report: Report) -> None:
    if FAULTS[fault.name](cluster, random.Random(fault.choice), fault.seconds):
        report.faults[fault.name] += 1


async def _create_topics(servers: str, replicas: int) -> None:
    async with AsyncAdmin({"bootstrap.servers": servers}) as admin:
        await admin.create_topics(
            [
                NewTopic(name, PARTITIONS, replicas, configs={"min.insync.replicas": str(min(2, replicas))})
                for name in (TOPIC, TRANSACTIONS_TOPIC)
            ]
        )


def shorten(report: Report, brokers: int = 3) -> Report:
    """The same seed with as few faults as it takes to fail."""
    shortest = report
    for fault in list(report.schedule):
        rest = [each for each in shortest.schedule if each is not fault]
        tried = run_seed(report.seed, brokers, rest)
        if tried.failed:
            shortest = tried
    return shortest


@contextmanager
def _quiet() -> Iterator[None]:
    """Brokers and clients have much to say about faults."""
    logger = logging.getLogger("tidelog")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
