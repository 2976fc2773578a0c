"""`python -m benchmarks clients`: our clients beside confluent-kafka, kafka-python and aiokafka, for RESULTS.md.

Runs `clients_producer`, `clients_consumer` and `clients_arrow`, which can also be run one by one and have options.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.report import machine
from benchmarks.sections import CLIENTS_HEADING, put_section

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
    put_section(options.output, CLIENTS_HEADING, "\n".join(lines))
    print(f"written: {options.output}", file=sys.stderr)
    return 0
