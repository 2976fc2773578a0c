"""All waiting entries of one partition, ordered by time and arrival.

New entries are kept in a sorted list. When that is long it becomes a run, a sorted file, so a million entries need a
few megabytes of memory. The next due entry is the smallest of the list's first and of every run's first. An entry that
is removed out of order, by a cancellation, is remembered until its run's head passes it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Final

from tidelog.records.delayed import ENTRY_BYTES, unpack_entry
from tidelog.storage.waiting.runs import Run, write_run

RECENT_MAX: Final = 16_384
"""Entries in memory before they become a run."""
_SMALL_RUNS_MAX: Final = 24
_MERGED_RUNS: Final = 16
_LOCATIONS_SHIFT: Final = 6
LOCATION_STEP: Final = 1 << _LOCATIONS_SHIFT
"""`first_location` is a multiple of it."""
_HASH: Final = slice(28, 32)

RunPath = Callable[[int], str]
"""The path of the run of a number."""


class WaitingIndex:
    """The entries. One thread owns it; only the merge of runs may run on another one."""

    __slots__ = (
        "_merged_number",
        "_merging",
        "_path_of",
        "dead",
        "floor",
        "is_changed",
        "locations",
        "next_number",
        "recent",
        "recent_max",
        "runs",
    )

    def __init__(self, path_of: RunPath, recent_max: int = RECENT_MAX) -> None:
        self._path_of = path_of
        self.recent_max = recent_max
        self.recent: list[bytes] = []
        self.runs: list[Run] = []
        self.dead: set[bytes] = set()
        """Entries that were removed and are still in a run."""
        self.locations: dict[int, int] = {}
        """How many live entries lie in each stretch of 64 offsets of the log."""
        self.floor = 0
        """The last floor of the log: nothing below it waits."""
        self.next_number = 1
        self.is_changed = False
        """Whether there were changes since this was last set to False."""
        self._merging: list[tuple[Run, int]] = []
        self._merged_number = 0

    def __len__(self) -> int:
        return len(self.recent) + sum(map(len, self.runs)) - len(self.dead)

    # Changes

    def add(self, entry: bytes) -> None:
        """An entry begins to wait."""
        self.is_changed = True
        self._count_location(entry, 1)
        if entry in self.dead:
            self.dead.remove(entry)
            return
        insort(self.recent, entry)
        if len(self.recent) >= self.recent_max:
            self.spill()

    def remove(self, entry: bytes) -> bool:
        """An entry was delivered, cancelled or moved; False if it did not wait."""
        recent = self.recent
        found = bisect_left(recent, entry)
        if found < len(recent) and recent[found] == entry:
            del recent[found]
        elif not self._remove_from_runs(entry):
            return False
        self.is_changed = True
        self._count_location(entry, -1)
        return True

    def _remove_from_runs(self, entry: bytes) -> bool:
        if entry in self.dead:
            return False
        for run in self.runs:
            if len(run) and run.entry(run.head) == entry:
                run.head += 1
                self._pass_dead(run)
                return True
        if any(run.has(entry) for run in self.runs):
            self.dead.add(entry)
            return True
        return False

    def _pass_dead(self, run: Run) -> None:
        """Move the head of a run to its first live entry."""
        while len(run) and (entry := run.entry(run.head)) in self.dead:
            self.dead.remove(entry)
            run.head += 1
        if not len(run) and not any(run is merged for merged, _ in self._merging):
            self.runs.remove(run)

    def _count_location(self, entry: bytes, step: int) -> None:
        stretch = unpack_entry(entry).location >> _LOCATIONS_SHIFT
        count = self.locations.get(stretch, 0) + step
        if count:
            self.locations[stretch] = count
        else:
            del self.locations[stretch]

    def settle(self, floor: int) -> None:
        """Nothing below an offset of the log waits. An entry that seems to was removed by a batch that is gone."""
        self.floor = max(self.floor, floor)
        self.is_changed = True
        first = self.first_location
        if first is not None and first < floor:
            for entry in [entry for piece in self.in_pieces() for entry in piece]:
                if unpack_entry(entry).location < floor:
                    self.remove(entry)

    def spill(self) -> None:
        """Write the entries in memory to a run."""
        if not self.recent:
            return
        number = self._take_number()
        path = self._path_of(number)
        self.runs.append(Run(path, number, write_run(path, self.recent)))
        self.recent = []

    def _take_number(self) -> int:
        number = self.next_number
        self.next_number += 1
        return number

    def has(self, entry: bytes) -> bool:
        """Whether an entry waits."""
        found = bisect_left(self.recent, entry)
        if found < len(self.recent) and self.recent[found] == entry:
            return True
        return entry not in self.dead and any(run.has(entry) for run in self.runs)

    def run_numbers(self) -> set[int]:
        """The numbers of the runs in use, that of a merge under way included."""
        return {run.number for run in self.runs} | ({self._merged_number} if self._merging else set())

    # Merging

    @property
    def is_merge_due(self) -> bool:
        """Whether there are so many runs that some should become one."""
        return not self._merging and len(self.runs) > _SMALL_RUNS_MAX

    def begin_merge(self) -> tuple[str, list[tuple[str, int, int]]]:
        """Choose the smallest runs; returns the arguments of `merge_runs`."""
        chosen = sorted(self.runs, key=len)[:_MERGED_RUNS]
        self._merging = [(run, run.head) for run in chosen]
        self._merged_number = self._take_number()
        return self._path_of(self._merged_number), [(run.path, run.count, run.head) for run in chosen]

    def end_merge(self, path: str, count: int) -> None:
        """The merged run takes the place of its sources. What was taken from those meanwhile is dead in it."""
        for run, head in self._merging:
            self.dead.update(entry for _, entry in zip(range(run.head - head), run.entries(head), strict=False))
        merged = {id(run) for run, _ in self._merging}
        self._merging = []
        self.runs = [run for run in self.runs if id(run) not in merged]
        run = Run(path, self._merged_number, count)
        self.runs.append(run)
        self._pass_dead(run)
        self.is_changed = True

    def abandon_merge(self) -> None:
        """The merge failed; the sources stay."""
        self._merging = []

    # Reading

    def first(self) -> bytes | None:
        """The entry that is due next; None if none waits."""
        firsts = [run.entry(run.head) for run in self.runs if len(run)]
        if self.recent:
            firsts.append(self.recent[0])
        return min(firsts, default=None)

    def ordered(self) -> Iterator[bytes]:
        """All entries in order. A change ends the validity of the iterator."""
        for entry in merge(self.recent, *(run.entries() for run in self.runs)):
            if entry not in self.dead:
                yield entry

    def in_pieces(self) -> Iterator[list[bytes]]:
        """All entries, a few thousand at a time, in no order. Changes meanwhile may be missed or seen."""
        yield list(self.recent)
        for run in list(self.runs):
            for index in range(run.head, run.count, 2048):
                data = run.read(index, 2048)
                pieces = (data[at : at + ENTRY_BYTES] for at in range(0, len(data), ENTRY_BYTES))
                yield [entry for entry in pieces if entry not in self.dead]

    def with_hash(self, key_hash: int) -> Iterator[list[bytes]]:
        """The entries of keys with a hash, a piece at a time as `in_pieces`."""
        wanted = key_hash.to_bytes(4, "big")
        for piece in self.in_pieces():
            yield [entry for entry in piece if entry[_HASH] == wanted]

    @property
    def first_location(self) -> int | None:
        """An offset at or before the first control batch that a waiting record lies in; None if none waits."""
        return min(self.locations) << _LOCATIONS_SHIFT if self.locations else None
