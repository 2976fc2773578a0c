"""A part of RESULTS.md with a heading of its own, and its measurements under a name of their own in RESULTS.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Report
from benchmarks.sections import CLUSTER_HEADING, SECURITY_HEADING, put_section, raw_of


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
