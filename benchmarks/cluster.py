"""`python -m benchmarks cluster`: three of our brokers beside three of Apache Kafka, on one ZooKeeper, in turn."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import apache_kafka, tidelog_broker
from benchmarks.apache_kafka import ZooKeeper
from benchmarks.cluster_cases import CLUSTER_CASES
from benchmarks.clusters import SESSION_TIMEOUT_S, ZOOKEEPER_SETTINGS, kafka_cluster, tidelog_cluster
from benchmarks.limits import raise_descriptor_limit
from benchmarks.method import FULL, BrokerFactory, Laboratory
from benchmarks.part_report import CLUSTER, PartReport, part_options, plan_of
from benchmarks.report import OURS, THEIRS

WARM = dataclasses.replace(FULL, first_warm_up_seconds=8.0)
"""Three virtual machines compile their hot paths on the cores of one: that takes longer than a single broker's."""
NOTES = (
    f"Apache Kafka {apache_kafka.VERSION} with its start script's JVM flags (1 GB heap each), logging off",
    "one ZooKeeper for both clusters, which already runs when their start is timed",
    f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_S * 1000:.0f} and min.insync.replicas=2 on both",
    f"a tick of ZooKeeper takes {ZOOKEEPER_SETTINGS['tickTime']} ms",
)


def main(arguments: list[str]) -> int:
    """Run the cases and write the part."""
    options = part_options("cluster", __doc__, CLUSTER_CASES, rounds=2).parse_args(arguments)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tidelog_broker.use_source_tree()
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        print(f"ZooKeeper and Apache Kafka are needed: {reason}", file=sys.stderr)
        return 1
    cases = [CLUSTER_CASES[name] for name in options.case or CLUSTER_CASES]
    plan = plan_of(options, WARM)
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.dir) as directory,
        ZooKeeper(Path(directory) / "zookeeper", ZOOKEEPER_SETTINGS) as zookeeper,
        contextlib.ExitStack() as stack,
    ):
        factories: dict[str, BrokerFactory] = {OURS: tidelog_cluster(zookeeper), THEIRS: kafka_cluster(zookeeper)}
        if options.no_kafka:
            del factories[THEIRS]
        laboratory = Laboratory(factories, Path(directory), plan, options.profile)
        stack.callback(laboratory.close)
        measurements = laboratory.run(cases)
    report = PartReport(cases, measurements, [], laboratory.failures, NOTES, plan, part=CLUSTER)
    print(report.text())
    is_whole = len(cases) == len(CLUSTER_CASES) and not (options.quick or options.no_kafka)
    report.keep(CLUSTER_CASES, options, is_whole)
    return 1 if laboratory.failures else 0
