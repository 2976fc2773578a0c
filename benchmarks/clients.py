"""`python -m benchmarks clients`: our clients beside confluent-kafka, kafka-python and aiokafka, for RESULTS.md.

Runs `clients_producer`, `clients_consumer` and `clients_arrow`, which can also be run one by one and have options.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.report import machine
from benchmarks.sections import CLIENTS_HEADING, SPARK_HEADING, page_without, section_of

HERE = Path(__file__).resolve().parent
PROGRAMS = (
    ("Producers", "clients_producer"),
    ("Consumers", "clients_consumer"),
    ("Arrow tables", "clients_arrow"),
)


def main(arguments: list[str]) -> int:
    """Run them all, print the part and write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md", help="the page to write into")
    options = parser.parse_args(arguments)
    lines = [CLIENTS_HEADING, "", "Written by `python -m benchmarks clients`; one broker, clients in turn.", ""]
    lines += [f"- {fact}" for fact in machine()]
    lines.append(f"- {options.rounds} rounds; medians, and the lowest and highest of the rounds")
    for title, program in PROGRAMS:
        command = [sys.executable, "-m", f"benchmarks.{program}", "--rounds", str(options.rounds)]
        outcome = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        lines += ["", f"## {title}", outcome.stdout.rstrip()]
    print("\n".join(lines))
    write(options.output, "\n".join(lines))
    return 0


def write(page: Path, part: str) -> None:
    """Put the part before that of Spark, and in the place of an older one."""
    spark = section_of(page, SPARK_HEADING)
    before = page_without(page, CLIENTS_HEADING).removesuffix(spark).rstrip()
    page.write_text("\n\n".join(each for each in (before, part, spark.rstrip()) if each) + "\n")
    print(f"written: {page}", file=sys.stderr)
