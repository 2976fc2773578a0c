"""The results of a run, and their output."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidelog.cli._options import Format
from tidelog.cli.output import print_json, print_line


class Latencies(NamedTuple):
    """Of requests, in milliseconds."""

    p50: float
    p99: float
    p999: float
    highest: float


class Figures(NamedTuple):
    """One run."""

    records: int
    data_bytes: int
    seconds: float
    latencies: Latencies

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        """Of 1,000,000 bytes."""
        return self.data_bytes / self.seconds / 1e6


def summarize(latencies_ns: Sequence[int]) -> Latencies:
    """The percentiles of at least one latency: the smallest value that at least so many are not above."""
    ordered = sorted(latencies_ns)

    def at(share: float) -> float:
        index = min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))
        return ordered[index] / 1e6

    return Latencies(at(0.5), at(0.99), at(0.999), ordered[-1] / 1e6)


def report(figures: Figures, what: str, output: Format) -> None:
    """Print the figures; `what` says what one latency is of."""
    latencies = figures.latencies
    if output is Format.JSON:
        document: dict[str, Any] = {
            "records": figures.records,
            "bytes": figures.data_bytes,
            "seconds": round(figures.seconds, 6),
            "records_per_second": round(figures.records_per_second, 1),
            "megabytes_per_second": round(figures.megabytes_per_second, 3),
            "latency_ms": {name: round(value, 3) for name, value in _named(latencies).items()},
        }
        print_json(document)
        return
    print_line(
        f"{figures.records:,} records, {figures.data_bytes / 1e6:,.1f} MB in {figures.seconds:.2f} s: "
        f"{figures.records_per_second:,.0f} records/s, {figures.megabytes_per_second:,.1f} MB/s"
    )
    print_line(
        f"latency of {what}, ms: " + "  ".join(f"{name} {value:.2f}" for name, value in _named(latencies).items())
    )


def _named(latencies: Latencies) -> dict[str, float]:
    return {"p50": latencies.p50, "p99": latencies.p99, "p99.9": latencies.p999, "max": latencies.highest}
