"""How values are distributed, in fixed buckets, for quantiles.

A bucket is a sixteenth of a power of two wide, so that a quantile is at most 6 % off, whatever the unit. Recording a
value costs a fifth of a microsecond and no memory. Values are integers, microseconds or bytes for example; negative
ones count as 0, and those above 2^40 as 2^40.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

_PRECISE_BITS: Final = 5
_LARGEST: Final = (1 << 40) - 1


def bucket_of(value: int) -> int:
    """The number of the bucket that a value falls into."""
    shift = value.bit_length() - _PRECISE_BITS
    return value if shift <= 0 else (shift << 4) + (value >> shift)


def middle_of(bucket: int) -> float:
    """A value in the middle of a bucket."""
    if bucket < 1 << _PRECISE_BITS:
        return float(bucket)
    shift = (bucket >> 4) - 1
    low = (bucket - (shift << 4)) << shift
    return low + ((1 << shift) - 1) / 2


BUCKETS: Final = bucket_of(_LARGEST) + 1


class Distribution:
    """Counts of values since the start."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.total = 0
        """The sum of all values."""

    def record(self, value: int) -> None:
        """Count a value."""
        value = 0 if value < 0 else _LARGEST if value > _LARGEST else value
        shift = value.bit_length() - 5
        self.counts[value if shift <= 0 else (shift << 4) + (value >> shift)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


def quantiles(counts: Sequence[int], wanted: Sequence[float]) -> list[float]:
    """The value below which each share of the counted values lies; 0 where there are none. `wanted` ascends."""
    count = sum(counts)
    found: list[float] = []
    if not count:
        return [0.0] * len(wanted)
    ranks = [max(1.0, share * count) for share in wanted]
    seen = 0
    for bucket, here in enumerate(counts):
        if not here:
            continue
        seen += here
        while len(found) < len(ranks) and seen >= ranks[len(found)]:
            found.append(middle_of(bucket))
        if len(found) == len(ranks):
            break
    return found


class WindowedDistribution:
    """The distribution of the last minute or two, from counts that only grow.

    Counts are noted when they are asked for, so that values which are recorded meanwhile cost nothing more. Without an
    earlier note the window reaches back to the start.
    """

    __slots__ = ("_notes", "_window_seconds")

    def __init__(self, window_seconds: float = 60.0) -> None:
        self._window_seconds = window_seconds
        self._notes: deque[tuple[float, Sequence[int]]] = deque()

    def recent(self, counts: Sequence[int], now_seconds: float) -> Sequence[int]:
        """The counts within the window, given those since the start."""
        notes = self._notes
        while len(notes) > 1 and notes[1][0] <= now_seconds - self._window_seconds:
            notes.popleft()
        base = notes[0][1] if notes and notes[0][0] <= now_seconds - self._window_seconds / 2 else None
        if not notes or now_seconds - notes[-1][0] >= self._window_seconds / 4:
            notes.append((now_seconds, tuple(counts)))
        if base is None:
            return counts
        return [now - before for now, before in zip(counts, base, strict=True)]
