"""The metrics of one process or component.

A metric is declared once, with a name, a documentation and the names of its labels:

    stored = registry.counter("orders_stored", "Orders that were written.", ["region"])
    stored.labels("north").increment()

What a program counts anyway is better read when a page is made: `gauge(…, function=…)` for one value, `add_collector`
for families of them. Metrics may be changed from any thread. Pages are made on one thread at a time; a collector runs
on that thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from time import monotonic
from typing import Final, Generic, TypeVar

from tidelog.metrics.distribution import Distribution, WindowedDistribution, quantiles
from tidelog.metrics.exposition import number_text, page_in_pieces
from tidelog.metrics.families import Family, Kind, Sample, check_names, labels_text

Collector = Callable[[], Iterable[Family]]
"""Returns families of samples that are read when a page is made."""

DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DEFAULT_QUANTILES: Final = (0.5, 0.75, 0.95, 0.99, 0.999)


class Registry:
    """All metrics that one page shows."""

    def __init__(self) -> None:
        self._metrics: dict[str, _Metric] = {}
        self._collectors: dict[Collector, None] = {}

    # --- declaring ---

    def counter(self, name: str, documentation: str, label_names: Sequence[str] = ()) -> Counter:
        """A number that only grows. Its samples end in `_total`, whether `name` does or not."""
        return self._add(Counter(name.removesuffix("_total"), documentation, label_names))

    def gauge(
        self,
        name: str,
        documentation: str,
        label_names: Sequence[str] = (),
        function: Callable[[], float] | None = None,
    ) -> Gauge:
        """A number that goes up and down; with a `function`, what that returns when a page is made."""
        gauge = self._add(Gauge(name, documentation, label_names))
        if function is not None:
            gauge.set_function(function)
        return gauge

    def summary(
        self,
        name: str,
        documentation: str,
        label_names: Sequence[str] = (),
        quantiles: Sequence[float] = DEFAULT_QUANTILES,
        unit: float = 1e-6,
    ) -> Summary:
        """Values of which quantiles are shown, of about the last minute; values below `unit` count as 0."""
        return self._add(Summary(name, documentation, label_names, quantiles, unit))

    def histogram(
        self,
        name: str,
        documentation: str,
        label_names: Sequence[str] = (),
        buckets: Sequence[float] = DEFAULT_BUCKETS,
    ) -> Histogram:
        """Values that are counted in buckets, each by its upper bound."""
        return self._add(Histogram(name, documentation, label_names, buckets))

    def _add(self, metric: MetricT) -> MetricT:
        if metric.name in self._metrics:
            raise ValueError(f"a metric {metric.name} exists already")
        self._metrics[metric.name] = metric
        return metric

    def add_collector(self, collector: Collector) -> None:
        """Show what `collector` returns, too, on every page from now on."""
        self._collectors[collector] = None

    def remove_collector(self, collector: Collector) -> None:
        self._collectors.pop(collector, None)

    # --- reading ---

    def families(self) -> Iterator[Family]:
        """Everything there is now."""
        for metric in list(self._metrics.values()):
            yield metric.family()
        for collector in list(self._collectors):
            yield from collector()

    def exposition(self, openmetrics: bool = False) -> bytes:
        """The page, in the format of Prometheus or of OpenMetrics."""
        return b"".join(self.exposition_pieces(openmetrics))

    def exposition_pieces(self, openmetrics: bool = False) -> Iterator[bytes]:
        """The same, piece by piece, each made in less than a millisecond if the collectors are that quick."""
        return page_in_pieces(self.families(), openmetrics)


class _Metric(ABC):
    """A name and its samples by the values of its labels."""

    kind: Kind

    def __init__(self, name: str, documentation: str, label_names: Sequence[str]) -> None:
        check_names(name, label_names)
        self.name = name
        self.documentation = documentation
        self.label_names = tuple(label_names)

    def family(self) -> Family:
        return Family(self.name, self.kind, self.documentation, self._samples())

    @abstractmethod
    def _samples(self) -> Iterable[Sample]: ...


MetricT = TypeVar("MetricT", bound=_Metric)
ChildT = TypeVar("ChildT")


class _Labelled(_Metric, Generic[ChildT]):
    """A metric with one child for each set of label values; without labels there is one child."""

    def __init__(self, name: str, documentation: str, label_names: Sequence[str]) -> None:
        super().__init__(name, documentation, label_names)
        self._lock = Lock()
        self._children: dict[tuple[str, ...], ChildT] = {}
        if not label_names:
            self._children[()] = self._new_child()

    @abstractmethod
    def _new_child(self) -> ChildT: ...

    def labels(self, *values: str) -> ChildT:
        """The child with these values of the labels, in the order in which they were declared."""
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has the labels {self.label_names}, not {values}")
        child = self._children.get(values)
        if child is None:
            with self._lock:
                child = self._children.setdefault(values, self._new_child())
        return child

    def remove(self, *values: str) -> None:
        """Show the child with these values no longer."""
        self._children.pop(values, None)

    @property
    def _only(self) -> ChildT:
        if self.label_names:
            raise ValueError(f"{self.name} has labels: call labels({', '.join(self.label_names)}) first")
        return self._children[()]

    def _labelled(self) -> Iterator[tuple[str, ChildT]]:
        for values, child in list(self._children.items()):
            yield labels_text(self.label_names, values), child


class CounterChild:
    """One number that only grows."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = Lock()
        self.value: float = 0

    def increment(self, amount: float = 1) -> None:
        if amount < 0:
            raise ValueError(f"a counter cannot be incremented by {amount}")
        with self._lock:
            self.value += amount


class Counter(_Labelled[CounterChild]):
    """Numbers that only grow."""

    kind = Kind.COUNTER

    def _new_child(self) -> CounterChild:
        return CounterChild()

    def increment(self, amount: float = 1) -> None:
        """Add to a counter without labels."""
        self._only.increment(amount)

    @property
    def value(self) -> float:
        return self._only.value

    def _samples(self) -> Iterable[Sample]:
        return [("_total", labels, child.value) for labels, child in self._labelled()]


class GaugeChild:
    """One number that goes up and down."""

    __slots__ = ("_function", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = Lock()
        self._value: float = 0
        self._function: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        self._value = value

    def add(self, amount: float) -> None:
        with self._lock:
            self._value += amount

    def set_function(self, function: Callable[[], float]) -> None:
        """Call `function` for the value whenever a page is made."""
        self._function = function

    @property
    def value(self) -> float:
        return self._value if self._function is None else self._function()


class Gauge(_Labelled[GaugeChild]):
    """Numbers that go up and down."""

    kind = Kind.GAUGE

    def _new_child(self) -> GaugeChild:
        return GaugeChild()

    def set(self, value: float) -> None:
        """Set a gauge without labels."""
        self._only.set(value)

    def add(self, amount: float) -> None:
        self._only.add(amount)

    def set_function(self, function: Callable[[], float]) -> None:
        self._only.set_function(function)

    @property
    def value(self) -> float:
        return self._only.value

    def _samples(self) -> Iterable[Sample]:
        return [("", labels, child.value) for labels, child in self._labelled()]


class SummaryChild:
    """Values of one set of labels."""

    __slots__ = ("_distribution", "_lock", "_sum", "_unit", "_window")

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._lock = Lock()
        self._sum = 0.0
        self._distribution = Distribution()
        self._window = WindowedDistribution()

    def observe(self, value: float) -> None:
        with self._lock:
            self._sum += value
            self._distribution.record(int(value / self._unit))

    def read(self, shares: Sequence[float], now_seconds: float) -> tuple[list[float], int, float]:
        """Quantiles of the last minute, and count and sum since the start."""
        with self._lock:
            counts, total = list(self._distribution.counts), self._sum
        recent = self._window.recent(counts, now_seconds)
        return [value * self._unit for value in quantiles(recent, shares)], sum(counts), total


class Summary(_Labelled[SummaryChild]):
    """Values of which quantiles are shown."""

    kind = Kind.SUMMARY

    def __init__(
        self, name: str, documentation: str, label_names: Sequence[str], shares: Sequence[float], unit: float
    ) -> None:
        self._shares = tuple(sorted(shares))
        self._unit = unit
        super().__init__(name, documentation, label_names)

    def _new_child(self) -> SummaryChild:
        return SummaryChild(self._unit)

    def observe(self, value: float) -> None:
        """Count a value of a summary without labels."""
        self._only.observe(value)

    def _samples(self) -> Iterable[Sample]:
        now_seconds = monotonic()
        for labels, child in self._labelled():
            values, count, total = child.read(self._shares, now_seconds)
            before = f"{labels}," if labels else ""
            for share, value in zip(self._shares, values, strict=True):
                yield "", f'{before}quantile="{number_text(share)}"', value
            yield "_count", labels, count
            yield "_sum", labels, total


class HistogramChild:
    """Values of one set of labels."""

    __slots__ = ("_bounds", "_lock", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        with self._lock:
            self.counts[bisect_left(self._bounds, value)] += 1
            self.total += value


class Histogram(_Labelled[HistogramChild]):
    """Values that are counted in buckets."""

    kind = Kind.HISTOGRAM

    def __init__(self, name: str, documentation: str, label_names: Sequence[str], buckets: Sequence[float]) -> None:
        self._bounds = tuple(sorted(buckets))
        super().__init__(name, documentation, label_names)

    def _new_child(self) -> HistogramChild:
        return HistogramChild(self._bounds)

    def observe(self, value: float) -> None:
        """Count a value of a histogram without labels."""
        self._only.observe(value)

    def _samples(self) -> Iterable[Sample]:
        for labels, child in self._labelled():
            before = f"{labels}," if labels else ""
            counts = list(child.counts)
            below = 0
            for bound, here in zip((*self._bounds, float("inf")), counts, strict=True):
                below += here
                yield "_bucket", f'{before}le="{number_text(bound)}"', below
            yield "_count", labels, below
            yield "_sum", labels, child.total
