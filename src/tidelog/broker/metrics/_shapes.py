"""Families in the shapes that the JMX exporter gives to Kafka's meters, gauges, histograms and timers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Final

from tidelog.metrics import Distribution, Family, Kind, WindowedDistribution
from tidelog.metrics.distribution import quantiles
from tidelog.metrics.families import Sample

SHARES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_LABELS: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""As the exporter writes them."""


def gauge(name: str, documentation: str, value: float) -> Family:
    return Family(name, Kind.GAUGE, documentation, [("", "", value)])


def gauges(name: str, documentation: str, samples: Iterable[tuple[str, float]]) -> Family:
    """One gauge for each set of labels."""
    return Family(name, Kind.GAUGE, documentation, (("", labels, value) for labels, value in samples))


def counter(name: str, documentation: str, value: float) -> Family:
    return Family(name, Kind.COUNTER, documentation, [("_total", "", value)])


def counters(name: str, documentation: str, samples: Iterable[tuple[str, float]]) -> Family:
    """One counter for each set of labels."""
    return Family(name, Kind.COUNTER, documentation, (("_total", labels, value) for labels, value in samples))


class Timer:
    """Quantiles of the last minute and a count, as the exporter shows Kafka's histograms and timers."""

    __slots__ = ("_distribution", "_unit", "_window")

    def __init__(self, distribution: Distribution, unit: float = 0.001) -> None:
        """Values are shown in units of `unit`: microseconds as milliseconds."""
        self._distribution = distribution
        self._unit = unit
        self._window = WindowedDistribution()

    def samples(self, labels: str = "") -> list[Sample]:
        recent = self._window.recent(self._distribution.counts, monotonic())
        values = quantiles(recent, SHARES)
        before = f"{labels}," if labels else ""
        return [
            ("", f'{before}quantile="{share}"', round(value * self._unit, 9))
            for share, value in zip(_LABELS, values, strict=True)
        ]

    @property
    def count(self) -> int:
        return self._distribution.count

    def families(self, name: str, documentation: str) -> Sequence[Family]:
        """The timer without labels."""
        return (
            Family(name, Kind.GAUGE, documentation, self.samples()),
            Family(f"{name}_count", Kind.COUNT, f"{documentation} How many.", [("", "", self.count)]),
        )
