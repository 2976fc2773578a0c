"""The page: one table of figures beside their aims, what the load cost, and the machine."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cases import Aim, AimKind, Better, Case, Figure
from benchmarks.method import Ceiling, Measurement, Plan
from benchmarks.sections import PARTS, raw_of, section_of

OURS, THEIRS = "Tidelog", "Apache Kafka"


@dataclass(frozen=True, slots=True)
class Report:
    """All that a run found out."""

    cases: Sequence[Case]
    measurements: Sequence[Measurement]
    ceilings: Sequence[Ceiling]
    failures: Sequence[str]
    notes: Sequence[str]
    plan: Plan
    facts: Sequence[str] = ()
    """The machine and the time; those of now if there are none."""

    def merged_into(self, page: Path, all_cases: Sequence[Case]) -> Report:
        """The report that the page was written from, with the cases of this one in place of its own."""
        raw = self.raw_before(page)
        measured = {case.name for case in self.cases}
        kept = [Measurement(**entry) for entry in raw.get("measurements", ()) if entry["case"] not in measured]
        measurements = [*kept, *self.measurements]
        found = {measurement.case for measurement in measurements}
        own = f"measured by itself, {now()}, {self.plan.rounds} rounds of {self.plan.seconds:g} s"
        notes = [note for note in raw.get("notes", ()) if not measured.issuperset(_named_in(note))]
        return replace(
            self,
            cases=[case for case in all_cases if case.name in found],
            measurements=measurements,
            ceilings=[Ceiling(**entry) for entry in raw.get("load_alone", ())],
            failures=self.failures,
            notes=[*notes, f"{own}: {', '.join(sorted(measured))}"],
            plan=Plan(**raw["plan"]) if "plan" in raw else self.plan,
            facts=raw.get("machine", ()),
        )

    def write(self, page: Path) -> None:
        """The page, and the single measurements as JSON beside it. What others have said there stays."""
        others = [section_of(page, heading) for heading in PARTS]
        page.write_text(self.text() + "".join(others))
        kept = {name: part for name, part in raw_of(page).items() if name in ("cluster", "security", "spark")}
        page.with_suffix(".json").write_text(json.dumps({**kept, **self.raw()}, indent=1) + "\n")

    def raw_before(self, page: Path) -> dict[str, Any]:
        """What the page was written from."""
        return raw_of(page)

    def raw(self) -> dict[str, Any]:
        """The single measurements, and what they were made with."""
        return {
            "machine": list(self.facts) or machine(),
            "notes": list(self.notes),
            "plan": asdict(self.plan),
            "measurements": [asdict(measurement) for measurement in self.measurements],
            "load_alone": [asdict(ceiling) for ceiling in self.ceilings],
        }

    def text(self) -> str:
        return "\n".join(
            [
                "# Tidelog beside Apache Kafka",
                "",
                "Written by `python -m benchmarks`; see `benchmarks/README.md` for how it measures.",
                "",
                *self.circumstances(),
                "",
                "Figures are medians of the rounds. The ratio says how many times better Tidelog was than Apache Kafka",
                "in the same round (above 1 is better, for latencies too): median [lowest–highest].",
                "",
                *self.figures(),
                "",
                "## What the load costs",
                "",
                "Load and broker share the two cores, so the load must be the cheaper of the two. Processor time per",
                "request on both sides, medians; and what the same load reaches against a server that only answers.",
                "",
                *self.efforts(),
                "",
                *self._ceilings(),
                *self.what_failed(),
                "",
            ]
        )

    def circumstances(self) -> Iterable[str]:
        """The machine, the plan and what else a reader must know."""
        yield from (f"- {fact}" for fact in self.facts or machine())
        yield f"- {self.plan.rounds} rounds of {self.plan.seconds:g} s a case and broker, in turns of half a second"
        yield from (f"- {note}" for note in self.notes)

    def figures(self) -> Iterable[str]:
        yield "| case | unit | Tidelog | Apache Kafka | ratio | aim | met |"
        yield "|---|---|---:|---:|---:|---|---|"
        for case in self.cases:
            for figure in case.figures:
                ours, theirs = self._values(case, figure, OURS), self._values(case, figure, THEIRS)
                ratios = ratios_of(figure, ours, theirs)
                cells = [
                    figure.title,
                    figure.unit,
                    spread(list(ours.values())),
                    spread(list(theirs.values())),
                    ratio_text(ratios),
                    aim_text(figure.aim, figure.unit),
                    verdict(figure.aim, list(ours.values()), ratios),
                ]
                yield f"| {' | '.join(cells)} |"

    def efforts(self) -> Iterable[str]:
        yield "| case | broker | broker, µs a request | load, µs a request | load's share |"
        yield "|---|---|---:|---:|---:|"
        for case in self.cases:
            for broker in (OURS, THEIRS):
                own = [m for m in self.measurements if m.case == case.name and m.broker == broker]
                if own and own[0].load_cpu_share:
                    theirs = statistics.median(m.broker_cpu_us_per_request for m in own)
                    load = statistics.median(m.load_cpu_us_per_request for m in own)
                    share = statistics.median(m.load_cpu_share for m in own)
                    yield f"| {case.name} | {broker} | {theirs:,.1f} | {load:,.1f} | {share:.0%} |"

    def _ceilings(self) -> Iterable[str]:
        if self.ceilings:
            yield "| load alone | requests/s | load, µs a request |"
            yield "|---|---:|---:|"
            for ceiling in self.ceilings:
                rate, cost = ceiling.requests_per_second, ceiling.load_cpu_us_per_request
                yield f"| {ceiling.loop} | {rate:,.0f} | {cost:,.1f} |"

    def what_failed(self) -> Iterable[str]:
        if self.failures:
            yield from ("", "## What failed", "")
            yield from (f"- {failure}" for failure in self.failures)

    def _values(self, case: Case, figure: Figure, broker: str) -> dict[int, float]:
        return {
            measurement.round: measurement.figures[figure.key]
            for measurement in self.measurements
            if measurement.case == case.name and measurement.broker == broker
        }


def _named_in(note: str) -> list[str]:
    """The cases that a note on a merged run lists."""
    return note.rpartition(": ")[2].split(", ") if note.startswith("measured by itself") else [note]


def ratios_of(figure: Figure, ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    """How many times better ours was, for each round in which both have a figure that a ratio makes sense of."""
    pairs = [(ours[number], theirs[number]) for number in ours if number in theirs]
    sound = [(our, their) for our, their in pairs if our > 0 and their > 0]
    if figure.better is Better.LOWER:
        return [their / our for our, their in sound]
    return [our / their for our, their in sound]


def verdict(aim: Aim | None, ours: list[float], ratios: list[float]) -> str:
    """Whether the median meets the aim; a dash where there is nothing to hold it against."""
    if aim is None or not ours or (aim.kind is AimKind.RATIO and not ratios):
        return "–"
    met = {
        AimKind.RATIO: lambda: statistics.median(ratios) >= aim.value,
        AimKind.BELOW: lambda: statistics.median(ours) < aim.value,
        AimKind.AT_LEAST: lambda: statistics.median(ours) >= aim.value,
    }[aim.kind]()
    return "yes" if met else "**no**"


def aim_text(aim: Aim | None, unit: str) -> str:
    if aim is None:
        return "–"
    return {
        AimKind.RATIO: f"{aim.value:g}× Kafka",
        AimKind.BELOW: f"under {aim.value:g} {unit}",
        AimKind.AT_LEAST: f"at least {aim.value:g} {unit}",
    }[aim.kind]


def ratio_text(ratios: list[float]) -> str:
    if not ratios:
        return "–"
    return f"{statistics.median(ratios):.2f}× [{min(ratios):.2f}–{max(ratios):.2f}]"


def spread(values: list[float]) -> str:
    return number(statistics.median(values)) if values else "–"


def number(value: float) -> str:
    """Three digits that matter, or all of the whole ones."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def machine() -> list[str]:
    """The facts a reader needs to compare this page with another."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return [
        now(),
        f"{_processor()}, {os.cpu_count()} cores, {memory_gb:.0f} GB of memory; load and broker share them",
        f"Linux {platform.release()}, Python {platform.python_version()}, {_java_version()}",
    ]


def now() -> str:
    """The time, for readers."""
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _java_version() -> str:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return "no Java"
    return done.stderr.splitlines()[0] if done.stderr else "Java of unknown version"
