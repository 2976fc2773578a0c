"""RESULTS.md has parts that different programs write: one is read, replaced or kept by its heading.

Pages of docs/ have tables of measurements between two marks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CLIENTS_HEADING = "# Clients: ours beside those for Python"
CLUSTER_HEADING = "# Cluster: three brokers beside three of Apache Kafka"
SPARK_HEADING = "# Spark: our connector beside Spark's own"
SECURITY_HEADING = "# Security: TLS, logins and ACLs beside Apache Kafka"
PARTS = (CLIENTS_HEADING, CLUSTER_HEADING, SECURITY_HEADING, SPARK_HEADING)


def section_of(page: Path, heading: str) -> str:
    """The part under `heading`, heading included, up to the next heading of its rank; empty if there is none."""
    return _parts_of(page).get(heading, "")


def put_section(page: Path, heading: str, part: str) -> None:
    """Write a part into the page, in the place of an older one; the parts stay in the order of `PARTS`."""
    parts = {**_parts_of(page), heading: part}
    found = [parts.get(each, "").strip() for each in ("", *PARTS)]
    page.write_text("\n\n".join(each for each in found if each) + "\n")


def put_between_marks(page: Path, command: str, lines: list[str]) -> None:
    """Replace what a page has between `<!-- command: begin -->` and the next `<!-- end -->`."""
    begin, end = f"<!-- {command}: begin -->", "<!-- end -->"
    before, _, rest = page.read_text().partition(begin)
    _, has_end, after = rest.partition(end)
    assert has_end, f"{page} has no {begin} … {end}"
    page.write_text("\n".join((before + begin, *lines, end + after)))


def raw_of(page: Path) -> dict[str, Any]:
    """The JSON beside the page; empty if there is none."""
    path = page.with_suffix(".json")
    raw: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return raw


def _parts_of(page: Path) -> dict[str, str]:
    """The parts by their headings; what belongs to none of them is under the empty one."""
    parts: dict[str, str] = {}
    heading = ""
    for line in page.read_text().splitlines(keepends=True) if page.exists() else []:
        if line.startswith("# "):
            heading = line.rstrip() if line.rstrip() in PARTS else ""
        parts[heading] = parts.get(heading, "") + line
    return parts
