"""`python -m benchmarks security`: TLS, logins and ACLs on one of our brokers beside one of Apache Kafka, in turn."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import apache_kafka, tidelog_broker
from benchmarks.apache_kafka import ZooKeeper
from benchmarks.limits import raise_descriptor_limit
from benchmarks.method import FULL, BrokerFactory, Laboratory
from benchmarks.part_report import SECURITY, PartReport, part_options, plan_of
from benchmarks.report import OURS, THEIRS
from benchmarks.secured_brokers import SecuredKafka, SecuredTidelog, write_certificate
from benchmarks.security_cases import SECURITY_CASES

# A deleted topic leaves the disk within a second, as in `python -m benchmarks`.
SETTINGS = {"log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "500"}


def main(arguments: list[str]) -> int:
    """Run the cases and write the part."""
    options = part_options("security", __doc__, SECURITY_CASES, rounds=3).parse_args(arguments)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tidelog_broker.use_source_tree()
    cases = [SECURITY_CASES[name] for name in options.case or SECURITY_CASES]
    plan = plan_of(options, FULL)
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
    report.keep(SECURITY_CASES, options, is_whole)
    return 1 if laboratory.failures else 0
