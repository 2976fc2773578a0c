"""RESULTS.md has parts that different programs write: taking one out of the page, or keeping it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CLIENTS_HEADING = "# Clients: ours beside those for Python"
SPARK_HEADING = "# Spark: our connector beside Spark's own"


def section_of(page: Path, heading: str) -> str:
    """The part under `heading`, heading included, up to the next heading of its rank; empty if there is none."""
    return _split(page, heading)[1]


def page_without(page: Path, heading: str) -> str:
    """The page but for that part."""
    return _split(page, heading)[0]


def raw_of(page: Path) -> dict[str, Any]:
    """The JSON beside the page; empty if there is none."""
    path = page.with_suffix(".json")
    raw: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return raw


def _split(page: Path, heading: str) -> tuple[str, str]:
    rest: list[str] = []
    part: list[str] = []
    is_inside = False
    for line in page.read_text().splitlines(keepends=True) if page.exists() else []:
        if line.startswith("# "):
            is_inside = line.rstrip() == heading
        (part if is_inside else rest).append(line)
    return "".join(rest), "".join(part)
