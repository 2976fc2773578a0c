"""`python -m benchmarks`: run the cases and write RESULTS.md. Progress goes to stderr, the page to stdout as well.

`python -m benchmarks cluster` measures three brokers beside three of Apache Kafka,
`python -m benchmarks security` TLS, logins and ACLs,
`python -m benchmarks spark` runs those of the Spark connector, which have a part of the page to themselves;
`python -m benchmarks metrics` compares a broker with metrics to one without,
`python -m benchmarks console` the latency of a large broker with and without an open console,
`python -m benchmarks retry` the retries of clients with those of Celery, Dramatiq and kafka-python,
`python -m benchmarks delay` measures the punctuality of delayed records and what a million of them cost,
`python -m benchmarks share` compares share groups with those of Apache Kafka 4.3.1,
`python -m benchmarks hostile` sends hostile requests and writes HOSTILE.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks import apache_kafka, tidelog_broker
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.cases import Case
from benchmarks.limits import raise_descriptor_limit
from benchmarks.method import FULL, QUICK, BrokerFactory, Laboratory, Plan, calibrate
from benchmarks.processes import BrokerProcess
from benchmarks.report import OURS, THEIRS, Report
from benchmarks.scale import CASES
from benchmarks.tidelog_broker import TidelogBroker

HERE = Path(__file__).resolve().parent
# Both brokers run with their defaults but for these two: a deleted topic leaves the disk within a second. By default
# its dirty pages would be written back a minute later, in the time of another case.
SETTINGS = {"log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "500"}
PROGRAMS = {
    "clients": "benchmarks.clients",
    "cluster": "benchmarks.cluster",
    "console": "benchmarks.console",
    "delay": "benchmarks.delay",
    "hostile": "benchmarks.hostile.command",
    "metrics": "benchmarks.metrics",
    "quotas": "benchmarks.quotas",
    "retry": "benchmarks.retry",
    "security": "benchmarks.security",
    "share": "benchmarks.share",
    "spark": "benchmarks.spark",
}
"""The others, by the first argument; each is imported when it runs, with what it needs."""
PROFILED = Plan(rounds=1, seconds=8.0, first_warm_up_seconds=1.0, warm_up_seconds=1.0)


def main() -> int:
    if sys.argv[1:2] and sys.argv[1] in PROGRAMS:
        program = importlib.import_module(PROGRAMS[sys.argv[1]])
        code: int = program.main(sys.argv[2:])
        return code
    options = parse_arguments()
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tidelog_broker.use_source_tree()
    cases = [CASES[name] for name in options.case or CASES]
    plan = plan_of(options)
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.dir) as directory,
        contextlib.ExitStack() as stack,
    ):
        scratch = Path(directory)
        factories, notes = make_factories(options, scratch, stack)
        if not factories:
            print("nothing to measure: " + "; ".join(notes), file=sys.stderr)
            return 1
        ceilings = [] if options.profile else calibrate(min(plan.seconds, 2.0))
        laboratory = Laboratory(factories, scratch, plan, options.profile_output if options.profile else None)
        stack.callback(laboratory.close)
        measurements = laboratory.run(cases)
    report = Report(cases, measurements, ceilings, laboratory.failures, notes, plan)
    conclude(options, cases, report)
    return 1 if laboratory.failures else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="half-second samples, two rounds: does it all still run?")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds to measure (default 5)")
    parser.add_argument("--seconds", type=float, help="measured seconds a case and round (default 3)")
    parser.add_argument("--no-kafka", action="store_true", help="measure Tidelog alone")
    parser.add_argument("--only-kafka", action="store_true", help="measure Apache Kafka alone")
    parser.add_argument(
        "--profile", choices=sorted(CASES), metavar="CASE", help="record Tidelog with py-spy in this case"
    )
    parser.add_argument(
        "--profile-output",
        type=Path,
        default=Path("profile.txt"),
        help="where the profile goes: .json for speedscope, .svg for a flame graph, else raw stacks",
    )
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    parser.add_argument(
        "--output", type=Path, help="where the page goes (default benchmarks/RESULTS.md after a whole run)"
    )
    parser.add_argument(
        "--merge", action="store_true", help="put the rows of these cases into RESULTS.md and leave the others"
    )
    options = parser.parse_args()
    if options.profile:
        options.case, options.no_kafka = [options.profile], True
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    plan = PROFILED if options.profile else QUICK if options.quick else FULL
    if options.rounds:
        plan = dataclasses.replace(plan, rounds=options.rounds)
    if options.seconds:
        plan = dataclasses.replace(plan, seconds=options.seconds)
    return plan


def make_factories(
    options: argparse.Namespace, scratch: Path, stack: contextlib.ExitStack
) -> tuple[Mapping[str, BrokerFactory], list[str]]:
    """The brokers that can run here, and what to say of those that cannot."""
    factories: dict[str, BrokerFactory] = {}
    notes = []
    if not options.only_kafka:
        reason = tidelog_broker.unavailable_reason()
        if reason is None:
            factories[OURS] = tidelog_factory
        else:
            notes.append(f"without Tidelog: {reason}")
    if not options.no_kafka:
        reason = apache_kafka.unavailable_reason()
        if reason is None:
            zookeeper = stack.enter_context(ZooKeeper(scratch / "zookeeper"))
            factories[THEIRS] = kafka_factory(zookeeper)
            notes.append(
                f"Apache Kafka {apache_kafka.VERSION}, its defaults and its start script's JVM flags (1 GB heap, G1), "
                "logging off; ZooKeeper already runs when its start is timed"
            )
        else:
            notes.append(f"without Apache Kafka: {reason}")
    if options.quick:
        notes.append("quick: 1,000 partitions for 10,000, 500 idle connections for 5,000; figures are rough")
    for note in notes:
        print(note, file=sys.stderr)
    return factories, notes


def tidelog_factory(directory: Path) -> BrokerProcess:
    return TidelogBroker(directory, SETTINGS)


def kafka_factory(zookeeper: ZooKeeper) -> BrokerFactory:
    """Brokers that share one ZooKeeper, each a cluster of its own under its own root node."""

    def make(directory: Path) -> BrokerProcess:
        root = f"{zookeeper.connect_string}/{directory.name}"
        return KafkaBroker(directory, zookeeper, {"zookeeper.connect": root, **SETTINGS})

    return make


def conclude(options: argparse.Namespace, cases: list[Case], report: Report) -> None:
    """Print the page; write it where asked, or as RESULTS.md when everything was measured in full."""
    print(report.text())
    if options.merge:
        page = options.output or HERE / "RESULTS.md"
        report.merged_into(page, list(CASES.values())).write(page)
        print(f"merged into {page}: {', '.join(case.name for case in cases)}", file=sys.stderr)
        return
    is_whole = len(cases) == len(CASES) and not (options.quick or options.no_kafka or options.only_kafka)
    page = options.output or (HERE / "RESULTS.md" if is_whole else None)
    if page is not None:
        report.write(page)
        print(f"written: {page}", file=sys.stderr)
    if options.profile:
        print(f"profile: {options.profile_output}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
