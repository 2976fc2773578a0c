"""Runs of offsets in equal state: the form in which a share partition keeps its records.

A run is a range of offsets that were acquired, acknowledged or released together. Runs cover the range from the start
to the end of a share partition without gaps, and neighbours that have become equal are joined, so that a partition
whose consumers acknowledge whole batches holds a few runs, however many records are in flight.

A run with a `change` has an acknowledgement under way: it keeps its lock until the change is stored, and has its
`target` from then on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple


class DeliveryState(IntEnum):
    """The state of a record for a group, by the number that Kafka stores."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Its dead letter is being written."""
    ARCHIVED = 4


AVAILABLE: Final = DeliveryState.AVAILABLE
ACQUIRED: Final = DeliveryState.ACQUIRED
ACKNOWLEDGED: Final = DeliveryState.ACKNOWLEDGED
ARCHIVING: Final = DeliveryState.ARCHIVING
ARCHIVED: Final = DeliveryState.ARCHIVED
FINAL: Final = frozenset((ACKNOWLEDGED, ARCHIVED))


class StateBatch(NamedTuple):
    """A run as it is stored."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    time_ms: int = 0
    """By the wall clock: when what is available may be delivered, since when the rest is being archived."""

    @classmethod
    def of(cls, value: Any) -> StateBatch:
        """From any message or record that has these fields."""
        first, last = value.first_offset, value.last_offset
        return cls(first, last, value.delivery_state, value.delivery_count, value.time_ms)

    def fields(self) -> dict[str, Any]:
        """For any message or record that has these fields."""
        return {**self._asdict(), "delivery_state": int(self.delivery_state)}


class Change:
    """One acknowledgement on its way to the store."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[Run] = []


class Run:
    """Offsets `first` to `last`, both included."""

    __slots__ = (
        "change",
        "count",
        "deadline_ms",
        "first",
        "is_rejected",
        "last",
        "member_id",
        "state",
        "target",
        "target_deadline_ms",
    )

    def __init__(self, first: int, last: int, state: DeliveryState, count: int = 0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        """How often it was delivered."""
        self.member_id = ""
        """Who holds the lock, while it is acquired."""
        self.deadline_ms = 0
        """When its lock ends; before which it is not delivered; since when it is being archived: by its state."""
        self.target = state
        self.target_deadline_ms = 0
        """The deadline once the change is stored."""
        self.change: Change | None = None
        self.is_rejected = False
        """Whether a consumer has rejected it: the reason of its dead letter."""

    def __repr__(self) -> str:
        return f"<{self.first}-{self.last} {self.state.name} {self.count} {self.member_id}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_done(self) -> bool:
        """Whether it is never delivered again, as far as is stored."""
        return self.state in FINAL and self.change is None

    def is_acquirable(self, now_ms: int) -> bool:
        return self.state is AVAILABLE and self.change is None and self.deadline_ms <= now_ms

    def is_like(self, other: Run) -> bool:
        """Whether the two can be one run. How often a record that is done was delivered does not matter any more."""
        if self.state is not other.state or self.change is not None or other.change is not None:
            return False
        if self.state in FINAL:
            return True
        return (
            self.count == other.count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.is_rejected == other.is_rejected
        )


class Runs:
    """The runs of one share partition, in order. Owned by one `SharePartition`."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, run: Run) -> None:
        """Add a run behind the others; it joins the last one if it is like it."""
        if self._runs:
            last = self._runs[-1]
            assert last.last + 1 == run.first, f"{run} does not follow {last}"
            if last.is_like(run):
                last.last = run.last
                return
        self._runs.append(run)

    def within(self, first: int, last: int) -> list[Run]:
        """The runs that have an offset in common with a range."""
        runs = self._runs
        start = max(bisect_right(runs, first, key=_first) - 1, 0)
        if start < len(runs) and runs[start].last < first:
            start += 1
        end = bisect_right(runs, last, lo=start, key=_first)
        return runs[start:end]

    def cut_out(self, first: int, last: int) -> list[Run]:
        """The runs of exactly this range, those at its borders divided if need be."""
        self._divide(first)
        self._divide(last + 1)
        return self.within(first, last)

    def _divide(self, offset: int) -> None:
        """Let a run begin at `offset`, if that lies in one."""
        runs = self._runs
        index = bisect_right(runs, offset, key=_first) - 1
        if index < 0 or runs[index].first == offset or runs[index].last < offset:
            return
        run = runs[index]
        rest = Run(offset, run.last, run.state, run.count)
        rest.member_id, rest.deadline_ms, rest.is_rejected = run.member_id, run.deadline_ms, run.is_rejected
        rest.target, rest.target_deadline_ms, rest.change = run.target, run.target_deadline_ms, run.change
        if run.change is not None:
            run.change.runs.append(rest)
        run.last = offset - 1
        runs.insert(index + 1, rest)

    def join(self) -> None:
        """Make one of neighbours that are alike."""
        runs = self._runs
        kept: list[Run] = []
        for run in runs:
            if kept and kept[-1].is_like(run):
                kept[-1].last = run.last
            else:
                kept.append(run)
        if len(kept) < len(runs):
            self._runs = kept

    def drop_before(self, offset: int) -> None:
        """Forget what lies before an offset."""
        self._divide(offset)
        del self._runs[: len(self._runs) - len(self._from(offset))]

    def _from(self, offset: int) -> list[Run]:
        index = bisect_right(self._runs, offset, key=_first) - 1
        if index >= 0 and self._runs[index].last >= offset:
            return self._runs[index:]
        return self._runs[index + 1 :]


def _first(run: Run) -> int:
    return run.first
