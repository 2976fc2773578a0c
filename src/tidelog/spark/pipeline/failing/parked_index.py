"""Index of the offsets of parked rows by key, so that only due rows are read. Pure.

Rows of one key that were parked in one batch lie one after another and have numbers one after another: they are one
run. The index is derived from the parked topic itself, by one pass over its records; which of them still wait is in the
state of the keys (`ordering`). What no run needs any more, in front of a partition, can be deleted.

Pipelines that read the same source may share a parked topic. Each deletes only up to the first record of another one:
the front record always belongs to one of them, so the topic shrinks all the same.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.spark.pipeline.failing.ordering import Waiting

QUOTA_FIRST: Final = 64
QUOTA_FACTOR: Final = 4


class Run(NamedTuple):
    """Rows of one key at `row_count` offsets from `offset` on, numbered from `sequence` on."""

    partition: int
    offset: int
    sequence: int
    row_count: int

    def part(self, first: int, last: int) -> "Run":
        """The rows numbered from `first` to before `last`."""
        return Run(self.partition, self.offset + first - self.sequence, first, last - first)


class ParkedIndex:
    """The runs of one pipeline, by key, and the records of others."""

    def __init__(self) -> None:
        self._runs: dict[bytes, list[Run]] = {}
        self._foreign: dict[int, list[tuple[int, int]]] = {}
        self._quotas: dict[bytes, int] = {}

    def add(self, key: bytes, run: Run) -> None:
        """Add a run; to be called in the order of offsets. A number that is there already lies here from now on.

        Numbers of a key begin at 0 again when it was free in between, and records that are done may still be there.
        """
        runs = self._runs.setdefault(key, [])
        end = run.sequence + run.row_count
        if runs and runs[-1].sequence + runs[-1].row_count > run.sequence:
            outside: list[Run] = []
            for each in runs:
                outside += _outside(each, run.sequence, end)
            runs[:] = outside
        runs.insert(bisect_left(runs, run.sequence, key=lambda each: each.sequence), run)

    def add_foreign(self, partition: int, offset: int, count: int) -> None:
        """Records of another pipeline; in the order of offsets."""
        self._foreign.setdefault(partition, []).append((offset, offset + count))

    def keep_waiting(self, keys: Mapping[bytes, Waiting], among: Iterable[bytes] | None = None) -> None:
        """Forget what does not wait any more by the state of `keys`; of all keys, or of those `among`."""
        for key in list(self._runs if among is None else among):
            waiting = keys.get(key)
            runs = self._runs.get(key)
            if runs is None:
                continue
            if waiting is not None:
                runs[:] = [part for run in runs for part in _inside(run, waiting.first_parked, waiting.tail)]
            if waiting is None or not runs:
                del self._runs[key]
                self._quotas.pop(key, None)

    def due(self, keys: Mapping[bytes, Waiting], limit: int) -> dict[bytes, list[Run]]:
        """The rows to read next, by key, at most about `limit`: from each key's head on, oldest rows first.

        A key whose head is due and is not in the index has no runs.
        """
        found = {key: self._run_at(key, waiting.head) for key, waiting in keys.items() if waiting.is_head_parked}
        oldest = sorted(found, key=lambda key: (-1, -1) if (run := found[key]) is None else (run.offset, run.partition))
        wanted: dict[bytes, list[Run]] = {}
        left = limit
        for number, key in enumerate(oldest):
            if left <= 0:
                break
            share = max(1, left // (len(oldest) - number))
            wanted[key] = self._from(key, keys[key].head, min(share, self._quotas.get(key, QUOTA_FIRST)))
            left -= sum(run.row_count for run in wanted[key])
        return wanted

    def learn(self, wanted: Mapping[bytes, list[Run]], keys: Mapping[bytes, Waiting]) -> None:
        """Adapt how much is read of a key: more where everything that was read went out, few where a row failed.

        Rows behind one that fails are read in vain; this keeps them to a multiple of those that go out.
        """
        for key, runs in wanted.items():
            if not runs:
                continue
            first, last = runs[0].sequence, runs[-1].sequence + runs[-1].row_count
            waiting = keys.get(key)
            done = (last if waiting is None else min(waiting.head, last)) - first
            if done >= last - first:
                self._quotas[key] = QUOTA_FACTOR * max(self._quotas.get(key, QUOTA_FIRST), 1)
            else:
                self._quotas[key] = max(1, 2 * done)

    def first_needed(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        """For each partition, up to where records can be deleted: `starts` and `ends` are what was indexed of it."""
        needed = dict(ends)
        for runs in self._runs.values():
            for run in runs:
                needed[run.partition] = min(needed.get(run.partition, run.offset), run.offset)
        for partition, spans in self._foreign.items():
            spans[:] = [span for span in spans if span[1] > starts.get(partition, 0)]
            if spans:
                needed[partition] = min(needed[partition], max(spans[0][0], starts.get(partition, 0)))
        return needed

    def _run_at(self, key: bytes, sequence: int) -> Run | None:
        runs = self._runs.get(key, [])
        at = bisect_left(runs, sequence + 1, key=lambda each: each.sequence) - 1
        if at < 0 or runs[at].sequence + runs[at].row_count <= sequence:
            return None
        return runs[at]

    def _from(self, key: bytes, sequence: int, count: int) -> list[Run]:
        """Up to `count` rows whose numbers follow each other, from `sequence` on."""
        found: list[Run] = []
        while count > 0 and (run := self._run_at(key, sequence)) is not None:
            part = run.part(sequence, min(run.sequence + run.row_count, sequence + count))
            found.append(part)
            sequence += part.row_count
            count -= part.row_count
        return found


def _inside(run: Run, first: int, last: int) -> list[Run]:
    low, high = max(run.sequence, first), min(run.sequence + run.row_count, last)
    return [run.part(low, high)] if low < high else []


def _outside(run: Run, first: int, last: int) -> list[Run]:
    return _inside(run, run.sequence, first) + _inside(run, last, run.sequence + run.row_count)
