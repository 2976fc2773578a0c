"""`python -m tests.compat.chaos`: schedules of faults against three brokers that are real processes.

Prints a line for each schedule, then tables of the faults that happened, of what the clients did, and of the longest
time that a partition took no writes. A schedule that fails is printed with its faults, the anomalies, and the command
that repeats it. The exit code is the number of schedules that failed, at most 100.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.compat.chaos import load
from tests.compat.chaos.faults import FAULTS
from tests.compat.chaos.run import FAULT_SECONDS, FAULTS_PER_SCHEDULE, TREES, Report, run_schedule
from tidelog.testing.zookeeper import unavailable_reason


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    # Processes and mounted disks are cleaned up at the end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # The tree that this process serves logs every session that a fault ends; aiokafka leaves failed futures behind.
    for name in ("tidelog", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Brokers start faster if they find the bytecode of an earlier start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.careless:
        load.CONFLUENT_IDEMPOTENT = {"enable.idempotence": False, "acks": 1}
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.schedules)
    reports = []
    for seed in seeds:
        report = run_schedule(
            seed,
            options.tree,
            names=options.only,
            count=options.faults,
            seconds=options.seconds,
            java=_java(options),
            keep=options.keep,
        )
        reports.append(report)
        _print_line(report)
        if report.failed:
            _print_failure(report, options)
    _print_tables(reports)
    return min(100, sum(report.failed for report in reports))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.chaos",
        description="Runs three brokers under faults and checks that nothing acknowledged is lost.",
        epilog="example: python -m tests.compat.chaos --schedules 30",
    )
    parser.add_argument("--seed", type=int, default=None, help="run this schedule alone")
    parser.add_argument("--schedules", type=int, default=30, help="how many schedules to run (default: 30)")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first of them (default: 0)")
    parser.add_argument("--tree", choices=TREES, default=None, help="where the metadata is (default: in turn)")
    parser.add_argument("--only", action="append", default=[], choices=sorted(FAULTS), help="draw only this fault")
    parser.add_argument(
        "--faults", type=int, default=FAULTS_PER_SCHEDULE, help=f"faults of a schedule (default: {FAULTS_PER_SCHEDULE})"
    )
    parser.add_argument(
        "--seconds", type=float, default=FAULT_SECONDS, help=f"faults begin within so many (default: {FAULT_SECONDS:g})"
    )
    parser.add_argument(
        "--careless", action="store_true", help="let a producer with acks=1 claim acks=all, which must be found"
    )
    parser.add_argument("--java", action="store_true", help="add Kafka's Java client to the load")
    parser.add_argument("--keep", type=Path, default=None, help="copy logs and data of failing schedules to this place")
    options = parser.parse_args(arguments)
    if options.tree is None and unavailable_reason() is not None:
        print(f"without ZooKeeper: {unavailable_reason()}", file=sys.stderr)
        options.tree = "shared"
    return options


def _java(options: argparse.Namespace):
    if not options.java:
        return None
    from tests.compat.chaos.java import add_java_clients

    return add_java_clients


def _print_line(report: Report) -> None:
    names = ", ".join(fault.name for fault in report.schedule)
    counts = report.counts
    verdict = f"FAILED ({len(report.anomalies)})" if report.failed else "held"
    print(
        f"{time.strftime('%H:%M:%S')}  seed {report.seed:<4} {report.tree:<9} {report.seconds:5.1f} s  {verdict:<11} "
        f"{counts['acknowledged sends']:>6,} acknowledged, {counts['sends without an acknowledgement']} not, "
        f"{counts['transactions committed']:>4} commits, in sync after {report.recovery_seconds:.1f} s: {names}",
        flush=True,
    )


def _print_failure(report: Report, options: argparse.Namespace) -> None:
    for anomaly in report.anomalies[:12]:
        print(f"    {anomaly}")
    only = "".join(f' --only "{name}"' for name in options.only)
    print(
        f"  repeat it: python -m tests.compat.chaos --seed {report.seed} --tree {report.tree} "
        f"--faults {options.faults}{only}{' --java' if options.java else ''}"
    )
    for fault in report.schedule:
        print(f"    {fault}")
    print("  what happened:")
    for line in report.story:
        print(f"    {line}", flush=True)


def _print_tables(reports: list[Report]) -> None:
    faults, counts, unavailable = Counter[str](dict.fromkeys(FAULTS, 0)), Counter[str](), dict[str, float]()
    for report in reports:
        faults.update(report.faults)
        counts.update(report.counts)
        for name, seconds in report.unavailable.items():
            unavailable[name] = max(seconds, unavailable.get(name, 0.0))
    seconds = sum(report.seconds for report in reports)
    failed = sum(report.failed for report in reports)
    print(f"\n{len(reports)} schedules, {failed} failed, {seconds / max(1, len(reports)):.1f} s each")
    print("\nfaults that happened                     times   longest without a write")
    for name, number in sorted(faults.items()):
        longest = f"{unavailable[name]:.1f} s" if name in unavailable else ""
        print(f"  {name:<36} {number:>7,}   {longest:>8}")
    print("\nwhat clients did")
    for name, number in sorted(counts.items()):
        print(f"  {name:<60} {number:>9,}")


if __name__ == "__main__":
    sys.exit(main())
