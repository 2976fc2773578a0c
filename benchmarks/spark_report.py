"""The part of the page that is about Spark: lines of two measures each, their ratio, and what was aimed at.

It lives at the end of RESULTS.md, under its own heading, and under `spark` in RESULTS.json; the two programs that write
these files leave each other's part alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cases import Figure
from benchmarks.report import machine, now, ratio_text, ratios_of, spread, verdict
from benchmarks.sections import SPARK_HEADING, put_section, raw_of
from benchmarks.spark_cases import CASES, COMPARISONS, Comparison


@dataclass(frozen=True, slots=True)
class SparkMeasurement:
    """One measure in one round; how long it took in all, and how much processor time of all processes."""

    measure: str
    round: int
    value: float
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SparkReport:
    """All that a run found out."""

    measurements: Sequence[SparkMeasurement]
    failures: Sequence[str]
    notes: Sequence[str]
    rounds: int
    facts: Sequence[str] = ()
    """The machine and the time; those of now if there are none."""

    def merged_into(self, page: Path, cases: Sequence[str]) -> SparkReport:
        """The report that the page was written from, with these cases from this one."""
        raw: dict[str, Any] = raw_of(page).get("spark", {})
        measured = {measure for case in cases for measure in CASES[case]}
        kept = [SparkMeasurement(**each) for each in raw.get("measurements", ()) if each["measure"] not in measured]
        return replace(
            self,
            measurements=[*kept, *self.measurements],
            notes=[*raw.get("notes", self.notes), f"measured by itself, {now()}: {', '.join(cases)}"],
            rounds=raw.get("rounds", self.rounds),
            facts=raw.get("machine", ()),
        )

    def write(self, page: Path) -> None:
        """Put this part into the page, and the single measurements into the JSON beside it."""
        put_section(page, SPARK_HEADING, "\n".join(self.lines()))
        raw: dict[str, Any] = raw_of(page)
        raw["spark"] = {
            "machine": list(self.facts) or machine(),
            "notes": list(self.notes),
            "rounds": self.rounds,
            "measurements": [asdict(measurement) for measurement in self.measurements],
        }
        page.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")

    def lines(self) -> list[str]:
        return [
            SPARK_HEADING,
            "",
            "Written by `python -m benchmarks spark`.",
            "",
            *(f"- {fact}" for fact in self.facts or machine()),
            *(f"- {note}" for note in self.notes),
            f"- {self.rounds} rounds after one to warm up; both connectors in one session, in turn, on the same topics",
            "",
            "| case | unit | Tidelog | beside | it | ratio | aim | met |",
            "|---|---|---:|---|---:|---:|---|---|",
            *self._lines_of_figures(),
            *self._lines_of_failures(),
        ]

    def _lines_of_figures(self) -> Iterable[str]:
        for comparison in COMPARISONS:
            left, right = self._values(comparison.left), self._values(comparison.right)
            if not left:
                continue
            ratios = ratios_of(_figure(comparison), left, right)
            cells = [
                comparison.title,
                comparison.unit,
                spread(list(left.values())),
                comparison.beside,
                spread(list(right.values())),
                ratio_text(ratios),
                "–" if comparison.aim is None else f"{comparison.aim.value:g}×",
                verdict(comparison.aim, list(left.values()), ratios),
            ]
            yield f"| {' | '.join(cells)} |"

    def _lines_of_failures(self) -> Iterable[str]:
        if self.failures:
            yield from ("", "What failed:", "")
            yield from (f"- {failure}" for failure in self.failures)

    def _values(self, measure: str | None) -> dict[int, float]:
        return {each.round: each.value for each in self.measurements if each.measure == measure}


def _figure(comparison: Comparison) -> Figure:
    return Figure(comparison.left, comparison.title, comparison.unit, comparison.better, comparison.aim)
