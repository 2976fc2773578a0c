"""Ratios, spreads and verdicts of the results page."""

from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.cases import Aim, Better, Case, Figure, at_least, below, times_kafka
from benchmarks.load import Sample
from benchmarks.method import FULL, Measurement
from benchmarks.report import OURS, THEIRS, Report, ratio_text, ratios_of, verdict

RATE = Figure("rate", "records", "requests/s", Better.HIGHER, times_kafka(3))
LATENCY = Figure("p50", "latency", "µs", Better.LOWER, times_kafka(2))


@pytest.fixture(autouse=True)
def _a_known_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page names the Java of the machine, which a process would have to be started for."""
    monkeypatch.setattr(report, "_java_version", lambda: "a Java")


def measured(broker: str, number: int, rate: float, latency: float) -> Measurement:
    return Measurement("case", broker, number, {"rate": rate, "p50": latency}, 0.2, 40.0, 10.0)


def test_a_ratio_above_one_means_better_whichever_way_the_figure_improves() -> None:
    assert ratios_of(RATE, {0: 300.0}, {0: 100.0}) == [3.0]
    assert ratios_of(LATENCY, {0: 50.0}, {0: 100.0}) == [2.0]


def test_a_round_without_both_brokers_has_no_ratio() -> None:
    assert ratios_of(RATE, {0: 300.0, 1: 300.0}, {1: 150.0}) == [2.0]


def test_figures_at_or_below_zero_have_no_ratio() -> None:
    """Memory may shrink while connections come; a ratio of that says nothing."""
    assert ratios_of(LATENCY, {0: 5.0}, {0: -1.0}) == []


def test_the_spread_stands_beside_the_median() -> None:
    assert ratio_text([1.0, 4.0, 2.0]) == "2.00× [1.00–4.00]"


@pytest.mark.parametrize(
    ("aim", "ours", "ratios", "expected"),
    [
        (times_kafka(3), [1.0], [2.9, 3.0, 3.1], "yes"),
        (times_kafka(3), [1.0], [2.9], "**no**"),
        (times_kafka(3), [1.0], [], "–"),
        (below(0.3), [0.2], [], "yes"),
        (below(0.3), [0.3], [], "**no**"),
        (at_least(0.8), [0.8], [], "yes"),
        (None, [1.0], [1.0], "–"),
    ],
)
def test_an_aim_is_held_against_the_median(
    aim: Aim | None, ours: list[float], ratios: list[float], expected: str
) -> None:
    assert verdict(aim, ours, ratios) == expected


def test_the_page_shows_figures_aims_and_failures() -> None:
    case = Case("case", lambda bench: {}, (RATE, LATENCY))
    measurements = [measured(OURS, 0, 30_000, 20), measured(THEIRS, 0, 10_000, 80)]
    page = Report([case], measurements, [], ["other on Tidelog, round 1: gone"], ["a note"], FULL).text()
    assert "| records | requests/s | 30,000 | 10,000 | 3.00× [3.00–3.00] | 3× Kafka | yes |" in page
    assert "| latency | µs | 20 | 80 | 4.00× [4.00–4.00] | 2× Kafka | yes |" in page
    assert "- other on Tidelog, round 1: gone" in page
    assert "- a note" in page


def test_percentiles_are_requests_that_happened() -> None:
    sample = Sample(latencies_ns=[number * 1000 for number in range(1000, 0, -1)])
    assert (sample.latency_us(50), sample.latency_us(99), sample.latency_us(99.9)) == (501, 991, 1000)


def test_a_case_that_is_measured_again_takes_the_place_of_its_row_alone(tmp_path: Path) -> None:
    """The rows of the other cases, and what other programs wrote into the page, stay."""
    page = tmp_path / "RESULTS.md"
    first, second = (Case(name, lambda _: {}, (RATE,)) for name in ("first", "second"))
    both = [
        Measurement(case.name, broker, 0, {"rate": 100.0}, 0.2, 40.0, 10.0)
        for case in (first, second)
        for broker in (OURS, THEIRS)
    ]
    Report([first, second], both, [], [], ["a note"], FULL).write(page)
    page.write_text(page.read_text() + "# Clients: ours beside those for Python\n\nfast\n")
    for rate in (200.0, 300.0):
        again = [Measurement("second", OURS, 0, {"rate": rate}, 0.2, 40.0, 10.0), both[3]]
        Report([second], again, [], [], ["another note"], FULL).merged_into(page, [first, second]).write(page)
    text = page.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| records")]
    assert ["1.00×" in rows[0], "3.00×" in rows[1], len(rows)] == [True, True, 2]
    assert text.count("measured by itself") == 1
    assert "a note" in text
    assert text.endswith("fast\n")
