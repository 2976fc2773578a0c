"""A part of RESULTS.md with a heading of its own, and its measurements under a name of their own in RESULTS.json."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.cases import Case
from benchmarks.method import QUICK, Plan
from benchmarks.report import Report
from benchmarks.sections import CLUSTER_HEADING, SECURITY_HEADING, put_section, raw_of

PAGE: Final = Path(__file__).resolve().parent / "RESULTS.md"


@dataclass(frozen=True, slots=True)
class Part:
    """What a part says besides its figures."""

    heading: str
    key: str
    """Its name in RESULTS.json."""
    about: tuple[str, ...]
    efforts: str


CLUSTER: Final = Part(
    CLUSTER_HEADING,
    "cluster",
    ("Written by `python -m benchmarks cluster`. Three replicas, acks=all. Figures are medians;",),
    "Processor time per request, of the three brokers together and of the load:",
)
SECURITY: Final = Part(
    SECURITY_HEADING,
    "security",
    (
        "Written by `python -m benchmarks security`. TLS 1.3 with a key on P-256, SCRAM-SHA-256 with 4,096",
        "iterations, `AclAuthorizer`; one connection at a time where bytes are counted. Figures are medians;",
    ),
    "Processor time per request (a handshake or a login is one), of the broker and of the load:",
)


@dataclass(frozen=True, slots=True)
class PartReport(Report):
    """All that a run found out about what a part is about."""

    part: Part = CLUSTER

    def write(self, page: Path) -> None:
        put_section(page, self.part.heading, self.text())
        raw = {**raw_of(page), self.part.key: self.raw()}
        page.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")

    def raw_before(self, page: Path) -> dict[str, Any]:
        before: dict[str, Any] = raw_of(page).get(self.part.key, {})
        return before

    def text(self) -> str:
        return "\n".join(
            [
                self.part.heading,
                "",
                *self.part.about,
                "the ratio says how many times better Tidelog was in the same round: median [lowest–highest].",
                "",
                *self.circumstances(),
                "",
                *self.figures(),
                "",
                self.part.efforts,
                "",
                *self.efforts(),
                *self.what_failed(),
                "",
            ]
        )

    def keep(self, cases: Mapping[str, Case], options: argparse.Namespace, is_whole: bool) -> None:
        """Write a whole run into the page; of others, with `--merge`, the rows that were measured."""
        if is_whole:
            self.write(options.output)
        elif options.merge:
            self.merged_into(options.output, list(cases.values())).write(options.output)


def part_options(name: str, description: str | None, cases: Mapping[str, Case], rounds: int) -> argparse.ArgumentParser:
    """The options that the commands of all parts have."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=description)
    parser.add_argument("--quick", action="store_true", help="short samples: does it all still run?")
    parser.add_argument("--case", action="append", choices=sorted(cases), help="only this; may be repeated")
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds to measure (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="measured seconds a case and round (default 3)")
    parser.add_argument("--no-kafka", action="store_true", help="measure Tidelog alone")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="record the first of our brokers with py-spy")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write into (default: RESULTS.md)")
    parser.add_argument("--merge", action="store_true", help="put the rows of these cases into the page")
    return parser


def plan_of(options: argparse.Namespace, plan: Plan) -> Plan:
    """`plan`, or the quick one, with the rounds and seconds of the options."""
    plan = replace(QUICK if options.quick else plan, rounds=options.rounds)
    return replace(plan, seconds=options.seconds) if options.seconds else plan
