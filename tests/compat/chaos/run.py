"""One schedule from beginning to end: clients, faults, then peace, and the question whether every promise held."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.error import KafkaException

from tests.compat.chaos.cluster import BROKERS, ChaosCluster, wait_until
from tests.compat.chaos.faults import Fault, Running, draw_schedule
from tests.compat.chaos.load import EVENTS, PARTITIONS, TOPICS, Load, copying_errors, read_everything
from tidelog.testing.simulation.history import History

FAULT_SECONDS: Final = 8.0
FAULTS_PER_SCHEDULE: Final = 3
_QUIET_SECONDS: Final = 1.0
_FIRST_RECORDS: Final = 50
_HEALTHY_SECONDS: Final = 60.0
TREES: Final = ("zookeeper", "shared")


@dataclass
class Report:
    """What one schedule showed."""

    seed: int
    tree: str
    schedule: Sequence[Fault] = ()
    anomalies: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    unavailable: dict[str, float] = field(default_factory=dict)
    """For each fault the longest time that a partition of `events` acknowledged nothing with acks=all meanwhile.

    Only these partitions are written to all the time; a transaction that waits for another partition would count, too.
    """
    story: list[str] = field(default_factory=list)
    seconds: float = 0.0
    recovery_seconds: float = 0.0
    """From the end of the last fault until every replica was in sync."""

    @property
    def failed(self) -> bool:
        return bool(self.anomalies)


def run_schedule(
    seed: int,
    tree: str | None = None,
    *,
    names: Sequence[str] = (),
    count: int = FAULTS_PER_SCHEDULE,
    seconds: float = FAULT_SECONDS,
    java: Callable[[Load], None] | None = None,
    keep: Path | None = None,
) -> Report:
    """Run one seed. Its faults begin within `seconds`.

    `names` limits the faults, `java` adds clients, `keep` is where logs of a failure are copied to.
    """
    tree = tree or TREES[seed % len(TREES)]
    schedule = draw_schedule(seed, seconds, count, tree, names)
    report = Report(seed, tree, schedule)
    began = time.monotonic()
    cluster = ChaosCluster(tree)
    try:
        cluster.start()
        _live(cluster, report, java)
    finally:
        if report.failed and keep is not None:
            _keep_logs(cluster, keep / f"seed-{seed}-{tree}")
        cluster.close()
    report.seconds = time.monotonic() - began
    return report


def _live(cluster: ChaosCluster, report: Report, java: Callable[[Load], None] | None) -> None:
    history = History()
    load = Load(history, cluster.servers, random.Random(f"load {report.seed}"))
    create_topics(cluster.servers)
    load.start()
    if java is not None:
        java(load)
    started = wait_until(lambda: load.counts["acknowledged sends"] >= _FIRST_RECORDS, _HEALTHY_SECONDS)
    if not started:
        report.anomalies.append("clients did not get started")
    running = Running(cluster, report.schedule)
    report.anomalies += running.wait()
    report.anomalies += cluster.unexpected()
    peace = time.monotonic()
    cluster.make_peace()
    if not wait_until(lambda: not cluster.ailments(), _HEALTHY_SECONDS):
        report.anomalies += [f"not healthy: {each}" for each in cluster.ailments()[:6]]
    report.recovery_seconds = time.monotonic() - peace
    time.sleep(_QUIET_SECONDS)
    report.anomalies += finish(load)
    if not wait_until(lambda: not cluster.differing_logs(), _HEALTHY_SECONDS / 4):
        report.anomalies += cluster.differing_logs()[:6]
    report.anomalies += cluster.unexpected()
    report.faults.update(fault.name for fault, _, _ in running.happened)
    report.counts = load.counts
    for fault, start, end in running.happened:
        gap = longest_gap((times for place, times in load.acknowledgements.items() if place[0] == EVENTS), start, end)
        report.unavailable[fault.name] = max(gap, report.unavailable.get(fault.name, 0.0))
    report.story = [
        f"{start - began_at(running):6.2f} to {end - began_at(running):6.2f} s  {fault.name}"
        for fault, start, end in sorted(running.happened, key=lambda each: each[1])
    ]


def began_at(running: Running) -> float:
    return min(start for _, start, _ in running.happened)


def create_topics(servers: str, replicas: int = 3) -> None:
    """The topics of the load, as soon as the cluster knows its brokers."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    left = set(TOPICS)

    def create() -> bool:
        for topic in sorted(left):
            new = NewTopic(topic, PARTITIONS, replicas, config={"min.insync.replicas": "2"})
            try:
                admin.create_topics([new])[topic].result(30)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    continue
            left.discard(topic)
        return not left

    if not wait_until(create, _HEALTHY_SECONDS):
        raise TimeoutError(f"not created: {sorted(left)}")


def finish(load: Load) -> list[str]:
    """Let all clients come to their end; everything that was wrong with what they saw."""
    found = load.stop_producing()
    found += read_everything(load.servers, load.history)
    if not wait_until(lambda: not load.history.unseen(), _HEALTHY_SECONDS):
        found.append("consumers did not come to the end")
    found += load.stop()
    found += load.crashed
    found += copying_errors(load)
    return found + load.history.anomalies()


def longest_gap(acknowledged: Iterable[Sequence[float]], start: float, end: float) -> float:
    """The longest time without an acknowledgement of one partition that overlaps the time from `start` to `end`."""
    longest = 0.0
    for times in acknowledged:
        ordered = sorted(times)
        for before, after in pairwise(ordered):
            if before <= end and after >= start:
                longest = max(longest, after - before)
    return longest


def _keep_logs(cluster: ChaosCluster, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    for broker in BROKERS:
        (where / f"broker-{broker}.log").write_text(cluster.brokers.logs_of(broker))
        shutil.copytree(cluster.data_of(broker), where / f"data-{broker}", dirs_exist_ok=True)
    if cluster.zookeeper is not None:
        (where / "zookeeper.log").write_text(cluster.zookeeper.logs())
