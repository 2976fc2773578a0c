"""The part about Spark: cases that are measured again replace their own figures and leave the others."""

from pathlib import Path

from benchmarks.sections import SPARK_HEADING, raw_of, section_of
from benchmarks.spark_cases import CASES, COMPARISONS
from benchmarks.spark_report import SparkMeasurement, SparkReport


def report(*measured: tuple[str, float]) -> SparkReport:
    measurements = [SparkMeasurement(name, 1, value) for name, value in measured]
    return SparkReport(measurements, [], ["a note"], rounds=1, facts=["a machine"])


def test_every_line_of_the_page_compares_measures_of_one_case() -> None:
    for line in COMPARISONS:
        (case,) = (measures for measures in CASES.values() if line.left in measures)
        others = [measures for measures in CASES.values() if line.right in measures]
        assert line.right is None or others == [case], line


def test_cases_measured_again_replace_their_own_figures(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    report(("copy", 100.0), ("copy-once", 60.0), ("copy-jvm", 50.0), ("floor", 9.0), ("floor-jvm", 10.0)).write(page)

    report(("copy", 100.0), ("copy-once", 80.0), ("copy-jvm", 50.0)).merged_into(page, ["copy"]).write(page)

    lines = section_of(page, SPARK_HEADING).splitlines()
    (once,) = (line for line in lines if "exactly once" in line and "at least once" in line)
    assert "0.80× [0.80–0.80] | 0.75× | yes" in once
    assert any("1.11× [1.11–1.11] | 1× | yes" in line for line in lines), "of the other case, as it was"
    assert any(line.startswith("- measured by itself") and line.endswith(": copy") for line in lines)
    assert raw_of(page)["spark"]["machine"] == ["a machine"]
