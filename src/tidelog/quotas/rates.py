"""Rates of replication over windows of time, measured as Kafka's `SampledStat` and `SimpleRate` do, and bounds on them.

Values are added up in samples of one window each. A sample ends with the first value after its window; at most
`sample_count` samples count, and one more that overlaps the oldest of them. With three windows of a second:

    values      5        3    4              2
    time        0.0      0.7  1.2            2.9
    samples     [0.0: 8]      [1.2: 4]       [2.9: 2]
    at 3.0      14 in 3.0 s

A rate is the sum of the samples that have a value within the windows, over the time since the oldest of them began, or
one window if that is more. Times are in milliseconds of a monotonic clock, rates per second.
"""

from __future__ import annotations

from typing import NamedTuple


class RateWindows(NamedTuple):
    """How many samples a rate is measured over, and how long each is: the `*quota.window.*` settings."""

    sample_count: int = 11
    window_ms: int = 1000

    @property
    def total_ms(self) -> int:
        """After this long without a value a sample does not count any more."""
        return self.sample_count * self.window_ms


class _Sample:
    """The values of one window."""

    __slots__ = ("last_value_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_value_ms = now_ms
        self.total = 0.0


class SimpleRate:
    """The rate of values a second."""

    __slots__ = ("_samples", "windows")

    def __init__(self, windows: RateWindows | None = None) -> None:
        self.windows = windows or RateWindows()
        self._samples: list[_Sample] = []
        """In the order of their time, the current one last."""

    def record(self, value: float, now_ms: int) -> None:
        """Count a value."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self.windows.window_ms:
            samples.append(_Sample(now_ms))
            # One more than the windows: the oldest may overlap them.
            if len(samples) > self.windows.sample_count + 1:
                del samples[0]
        sample = samples[-1]
        sample.total += value
        sample.last_value_ms = now_ms

    def measure(self, now_ms: int) -> float:
        """The rate at this time, per second."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(sample.total for sample in self._samples) * 1000 / elapsed_ms

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the rate is measured over, as it is now. Samples that are too old are dropped."""
        expired_ms = now_ms - self.windows.total_ms
        samples = self._samples
        while samples and samples[0].last_value_ms <= expired_ms:
            del samples[0]
        return max(now_ms - samples[0].start_ms if samples else 0, self.windows.window_ms)


class Quota:
    """A rate and the bound that it must not exceed."""

    __slots__ = ("bound", "rate")

    def __init__(self, rate: SimpleRate, bound: float) -> None:
        self.rate = rate
        self.bound = bound
        """Values per second; it may be changed at any time."""

    def record(self, value: float, now_ms: int) -> None:
        """Count a value, whether or not the bound is exceeded."""
        self.rate.record(value, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the rate is above the bound."""
        return self.rate.measure(now_ms) > self.bound

    def throttle_ms(self, now_ms: int) -> int:
        """How long nothing may be counted until the rate is within the bound; 0 if it is.

        As Kafka reckons it: the excess over the bound, times the time that the rate is measured over; at most all
        windows, as by then the samples of now do not count any more.
        """
        observed = self.rate.measure(now_ms)
        if observed <= self.bound:
            return 0
        total_ms = self.rate.windows.total_ms
        if self.bound <= 0:
            return total_ms
        excess = (observed - self.bound) / self.bound
        return min(max(round(excess * self.rate.elapsed_ms(now_ms)), 1), total_ms)
