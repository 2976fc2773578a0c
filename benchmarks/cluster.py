"""`python -m benchmarks cluster`: three of our brokers beside three of Apache Kafka, on one ZooKeeper, in turn."""

from __future__ import annotations

import argparse
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
from benchmarks.method import FULL, QUICK, BrokerFactory, Laboratory, Plan
from benchmarks.part_report import CLUSTER, PartReport
from benchmarks.report import OURS, THEIRS

WARM = dataclasses.replace(FULL, first_warm_up_seconds=8.0)
"""Three virtual machines compile their hot paths on the cores of one: that takes longer than a single broker's."""
PAGE = Path(__file__).resolve().parent / "RESULTS.md"
NOTES = (
    f"Apache Kafka {apache_kafka.VERSION} with its start script's JVM flags (1 GB heap each), logging off",
    "one ZooKeeper for both clusters, which already runs when their start is timed",
    f"zookeeper.session.timeout.ms={SESSION_TIMEOUT_S * 1000:.0f} and min.insync.replicas=2 on both",
    f"a tick of ZooKeeper takes {ZOOKEEPER_SETTINGS['tickTime']} ms",
)


def main(arguments: list[str]) -> int:
    """Run the cases and write the part."""
    options = parse_arguments(arguments)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tidelog_broker.use_source_tree()
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        print(f"ZooKeeper and Apache Kafka are needed: {reason}", file=sys.stderr)
        return 1
    cases = [CLUSTER_CASES[name] for name in options.case or CLUSTER_CASES]
    plan = plan_of(options)
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
    if options.merge and not is_whole:
        report.merged_into(options.output, list(CLUSTER_CASES.values())).write(options.output)
    elif is_whole:
        report.write(options.output)
    return 1 if laboratory.failures else 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, a tenth of the partitions")
    parser.add_argument("--case", action="append", choices=sorted(CLUSTER_CASES), help="only this; may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds to measure (default 2)")
    parser.add_argument("--seconds", type=float, help="measured seconds a case and round (default 3)")
    parser.add_argument("--no-kafka", action="store_true", help="measure Tidelog alone")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="record the first of our brokers with py-spy")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write into (default: RESULTS.md)")
    parser.add_argument("--merge", action="store_true", help="put the rows of these cases into the page")
    return parser.parse_args(arguments)


def plan_of(options: argparse.Namespace) -> Plan:
    plan = dataclasses.replace(QUICK if options.quick else WARM, rounds=options.rounds or 2)
    return dataclasses.replace(plan, seconds=options.seconds) if options.seconds else plan
