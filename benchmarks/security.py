"""`python -m benchmarks security`: TLS, logins and ACLs on one of our brokers beside one of Apache Kafka, in turn."""

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
from benchmarks.limits import raise_descriptor_limit
from benchmarks.method import FULL, QUICK, BrokerFactory, Laboratory, Plan
from benchmarks.part_report import SECURITY, PartReport
from benchmarks.report import OURS, THEIRS
from benchmarks.secured_brokers import SecuredKafka, SecuredTidelog, write_certificate
from benchmarks.security_cases import SECURITY_CASES

PAGE = Path(__file__).resolve().parent / "RESULTS.md"
# A deleted topic leaves the disk within a second, as in `python -m benchmarks`.
SETTINGS = {"log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "500"}


def main(arguments: list[str]) -> int:
    """Run the cases and write the part."""
    options = parse_arguments(arguments)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tidelog_broker.use_source_tree()
    cases = [SECURITY_CASES[name] for name in options.case or SECURITY_CASES]
    plan = plan_of(options)
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=options.dir) as directory,
        contextlib.ExitStack() as stack,
    ):
        scratch = Path(directory)
        certificate = write_certificate(scratch / "broker.pem")
        factories: dict[str, BrokerFactory] = {OURS: lambda home: SecuredTidelog(home, SETTINGS, certificate)}
        notes = []
        reason = "not asked for" if options.no_kafka else apache_kafka.unavailable_reason()
        if reason is None:
            zookeeper = stack.enter_context(ZooKeeper(scratch / "zookeeper"))

            def kafka(home: Path) -> SecuredKafka:
                root = {"zookeeper.connect": f"{zookeeper.connect_string}/{home.name}"}
                return SecuredKafka(home, zookeeper, {**root, **SETTINGS}, certificate)

            factories[THEIRS] = kafka
            notes.append(f"Apache Kafka {apache_kafka.VERSION} with its start script's JVM flags, logging off")
        else:
            notes.append(f"without Apache Kafka: {reason}")
        laboratory = Laboratory(factories, scratch, plan, options.profile)
        stack.callback(laboratory.close)
        measurements = laboratory.run(cases)
    report = PartReport(cases, measurements, [], laboratory.failures, notes, plan, part=SECURITY)
    print(report.text())
    is_whole = len(cases) == len(SECURITY_CASES) and not options.quick and len(factories) > 1
    if options.merge and not is_whole:
        report.merged_into(options.output, list(SECURITY_CASES.values())).write(options.output)
    elif is_whole:
        report.write(options.output)
    return 1 if laboratory.failures else 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks security", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples: does it all still run?")
    parser.add_argument("--case", action="append", choices=sorted(SECURITY_CASES), help="only this; may be repeated")
    parser.add_argument("--rounds", type=int, help="rounds to measure (default 5)")
    parser.add_argument("--seconds", type=float, help="measured seconds a case and round (default 3)")
    parser.add_argument("--no-kafka", action="store_true", help="measure Tidelog alone")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="record our broker with py-spy")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write into (default: RESULTS.md)")
    parser.add_argument("--merge", action="store_true", help="put the rows of these cases into the page")
    return parser.parse_args(arguments)


def plan_of(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    if options.rounds:
        plan = dataclasses.replace(plan, rounds=options.rounds)
    return dataclasses.replace(plan, seconds=options.seconds) if options.seconds else plan
