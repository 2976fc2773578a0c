"""The part of RESULTS.md that is about clusters, and `cluster` in RESULTS.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import Report
from benchmarks.sections import CLUSTER_HEADING, put_section, raw_of


@dataclass(frozen=True, slots=True)
class ClusterReport(Report):
    """All that a run on clusters found out."""

    def write(self, page: Path) -> None:
        put_section(page, CLUSTER_HEADING, self.text())
        raw = {**raw_of(page), "cluster": self.raw()}
        page.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")

    def raw_before(self, page: Path) -> dict[str, Any]:
        before: dict[str, Any] = raw_of(page).get("cluster", {})
        return before

    def text(self) -> str:
        return "\n".join(
            [
                CLUSTER_HEADING,
                "",
                "Written by `python -m benchmarks cluster`. Three replicas, acks=all. Figures are medians;",
                "the ratio says how many times better Tidelog was in the same round: median [lowest–highest].",
                "",
                *self.circumstances(),
                "",
                *self.figures(),
                "",
                "Processor time per request, of the three brokers together and of the load:",
                "",
                *self.efforts(),
                *self.what_failed(),
                "",
            ]
        )
