"""`python -m benchmarks spark`: our Spark connector beside the one that Spark has for the JVM, in one session.

Rounds as in the other benchmarks: a round runs every measure once, those that are held against each other back to
back, in an order that changes from round to round; the page gives medians and, of each ratio, its spread. The first
round is preceded by one that is not counted, in which the JVM compiles and workers start.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import spark_connector
from benchmarks.spark_cases import CASES, Measure
from benchmarks.spark_lab import FULL, QUICK, SESSION_SETTINGS, SparkLab
from benchmarks.spark_report import SparkMeasurement, SparkReport
from benchmarks.tidelog_broker import TidelogBroker, use_source_tree

HERE = Path(__file__).resolve().parent
SETTINGS = {"log.segment.delete.delay.ms": "1000", "log.initial.task.delay.ms": "500"}
ROUNDS = 3


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    use_source_tree()
    reason = spark_connector.unavailable_reason()
    notes = [] if reason is None else [f"without Spark's own connector: {reason}"]
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-spark-", dir=options.dir) as directory:
        measurements, failures, notes_of_run = run(options, Path(directory), has_theirs=reason is None)
    report = SparkReport(measurements, failures, [*notes, *notes_of_run], options.rounds)
    print("\n".join(report.lines()))
    is_whole = reason is None and not (options.quick or options.case)
    page = options.output or (HERE / "RESULTS.md" if is_whole or options.merge else None)
    if page is not None:
        (report.merged_into(page, options.case or list(CASES)) if options.merge else report).write(page)
        print(f"written: {page}", file=sys.stderr)
    return 1 if failures else 0


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows: does it all still run?")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="only this case; may be repeated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds to measure (default {ROUNDS})")
    parser.add_argument("--dir", type=Path, help="where the broker keeps its data (default: the temporary directory)")
    parser.add_argument("--output", type=Path, help="the page to write into (default benchmarks/RESULTS.md)")
    parser.add_argument(
        "--merge", action="store_true", help="put the figures of these cases into RESULTS.md and leave the others"
    )
    return parser.parse_args(arguments)


def run(
    options: argparse.Namespace, scratch: Path, *, has_theirs: bool
) -> tuple[list[SparkMeasurement], list[str], list[str]]:
    """Start broker and session, fill the topics, run the rounds."""
    from tidelog.spark import spark_session

    settings = {**SESSION_SETTINGS, **({"spark.jars": spark_connector.spark_jars()} if has_theirs else {})}
    spark = spark_session("benchmarks", master="local[2]", settings=settings, local_checkpoints=True)
    try:
        with TidelogBroker(scratch / "broker", SETTINGS) as broker:
            lab = SparkLab(spark, broker, scratch, QUICK if options.quick else FULL)
            say(f"filling topics: {lab.sizes}")
            lab.fill(is_theirs_here=has_theirs)
            cases = chosen_cases(options.case, has_theirs=has_theirs)
            measurements, failures = run_rounds(lab, cases, options.rounds)
        notes = [
            f"Spark {spark.version} in local[2], Java {java_version(spark)}, Tidelog's broker on the same two cores"
        ]
    finally:
        spark.stop()
    return measurements, failures, notes


def chosen_cases(names: list[str] | None, *, has_theirs: bool) -> list[dict[str, Measure]]:
    """The measures of the cases that are asked for, as far as they can run here."""
    return [
        {measure: run for measure, run in case.items() if has_theirs or not measure.endswith("-jvm")}
        for name, case in CASES.items()
        if not names or name in names
    ]


def run_rounds(lab: SparkLab, cases: list[dict[str, Measure]], rounds: int) -> tuple[list[SparkMeasurement], list[str]]:
    """Every measure in every round; round 0 is the warm-up. A measure that fails is not tried again."""
    measurements, failures = [], []
    failed: set[str] = set()
    for number in range(rounds + 1):
        for case in cases:
            names = [name for name in (case if number % 2 else reversed(case)) if name not in failed]
            for name in names:
                began, cpu_before = time.perf_counter(), lab.cpu_seconds()
                try:
                    value = case[name](lab)
                except Exception as error:
                    failures.append(f"{name}, round {number}: {first_line(error)}")
                    failed.add(name)
                    say(f"round {number}  {name:24} FAILED: {error}")
                    continue
                seconds, cpu_seconds = time.perf_counter() - began, lab.cpu_seconds() - cpu_before
                say(f"round {number}  {name:24} {value:14,.1f}   ({seconds:.1f} s, processor {cpu_seconds:.1f} s)")
                if number:
                    measurements.append(SparkMeasurement(name, number, value, seconds, cpu_seconds))
    return measurements, failures


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0]


def java_version(spark: object) -> str:
    context = spark.sparkContext  # type: ignore[attr-defined]
    return str(context._jvm.System.getProperty("java.version"))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
