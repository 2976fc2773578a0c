"""The parts of RESULTS.md: each program replaces its own and leaves the others."""

from pathlib import Path

import pytest

from benchmarks.cases import Better, Case, Figure
from benchmarks.method import Measurement, Plan
from benchmarks.part_report import PartReport
from benchmarks.sections import (
    CLIENTS_HEADING,
    CLUSTER_HEADING,
    SPARK_HEADING,
    put_between_marks,
    put_section,
    raw_of,
    section_of,
)

FIRST = "# Tidelog beside Apache Kafka\n\nfigures\n"


def case(name: str) -> Case:
    return Case(name, lambda _: {}, (Figure("seconds", f"title of {name}", "s", Better.LOWER),))


CASES = [case("failover"), case("restart")]


def report(*measured: tuple[str, str, float]) -> PartReport:
    """A report of (case, broker, seconds)."""
    names = {name for name, _, _ in measured}
    measurements = [Measurement(name, broker, 0, {"seconds": value}, 0, 0, 0) for name, broker, value in measured]
    cases = [each for each in CASES if each.name in names]
    return PartReport(cases, measurements, [], [], [], Plan(1, 1, 1, 1), ["a machine"])


def test_parts_keep_their_order_whichever_is_written_first(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(FIRST)
    for heading in (SPARK_HEADING, CLIENTS_HEADING, CLUSTER_HEADING):
        put_section(page, heading, f"{heading}\n\n## table\n")
    found = [line for line in page.read_text().splitlines() if line.startswith("# ")]
    assert found == [FIRST.splitlines()[0], CLIENTS_HEADING, CLUSTER_HEADING, SPARK_HEADING]


def test_a_part_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(FIRST)
    put_section(page, SPARK_HEADING, f"{SPARK_HEADING}\n\nold\n")
    put_section(page, CLUSTER_HEADING, f"{CLUSTER_HEADING}\n\ncluster\n")
    put_section(page, SPARK_HEADING, f"{SPARK_HEADING}\n\nnew\n")
    assert section_of(page, SPARK_HEADING) == f"{SPARK_HEADING}\n\nnew\n"
    assert "cluster" in section_of(page, CLUSTER_HEADING)
    assert page.read_text().startswith(FIRST)


def test_a_case_that_is_measured_again_replaces_its_row_alone(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(FIRST)
    first = report(("failover", "Tidelog", 4), ("failover", "Apache Kafka", 8), ("restart", "Tidelog", 1))
    first.write(page)
    report(("failover", "Tidelog", 2), ("failover", "Apache Kafka", 8)).merged_into(page, CASES).write(page)
    text = section_of(page, CLUSTER_HEADING)
    assert "| title of failover | s | 2 | 8 | 4.00× [4.00–4.00] |" in text
    assert "| title of restart | s | 1 |" in text
    assert len(raw_of(page)["cluster"]["measurements"]) == 3
    assert page.read_text().startswith(FIRST)


def test_what_stands_between_two_marks_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "delay.md"
    page.write_text("before\n<!-- a: begin -->\nold\n<!-- end -->\nafter\n<!-- b: begin -->\nkept\n<!-- end -->\n")
    put_between_marks(page, "a", ["new", "lines"])
    assert page.read_text() == (
        "before\n<!-- a: begin -->\nnew\nlines\n<!-- end -->\nafter\n<!-- b: begin -->\nkept\n<!-- end -->\n"
    )


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "delay.md"
    page.write_text("no marks\n")
    with pytest.raises(AssertionError, match="has no"):
        put_between_marks(page, "a", ["new"])
    assert page.read_text() == "no marks\n"
