"""Cleaning beside a naive model: the last value of every key, in order, tombstones until their horizon."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.storage_cleaner.strategies import Append, Clean, EndTransaction, Roll, Step, histories
from tests.unit.storage.cleaner.support import (
    NOW_MS,
    Kept,
    append,
    append_marker,
    batches_of,
    clean_log,
    fetched,
    make_log,
    records_of,
    reopen,
)
from tidelog.records.kernels.compaction import PlainCompactor
from tidelog.storage.cleaner.planning import examine
from tidelog.storage.log import Log

RETENTION_MS = 100


class Model:
    """All that was ever appended, and for every record whether it should still be there."""

    def __init__(self) -> None:
        self.records: dict[int, Kept] = {}
        self.batch_of: dict[int, int] = {}
        self.horizons: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.now_ms = NOW_MS

    def appended(self, step: Append, first_offset: int) -> None:
        for index, (key, value) in enumerate(step.pairs):
            self.records[first_offset + index] = Kept(first_offset + index, key, value)
            self.batch_of[first_offset + index] = first_offset
            if step.producer >= 2:
                self.open.setdefault(step.producer, []).append(first_offset + index)

    def ended(self, producer: int, *, is_commit: bool, aborted: set[int]) -> None:
        offsets = self.open.pop(producer, [])
        if not is_commit:
            aborted.update(offsets)

    def cleaned(self, end_offset: int, aborted: set[int]) -> None:
        """Everything below `end_offset` has been cleaned now."""
        for offset in [offset for offset in self.records if offset < end_offset and offset in aborted]:
            del self.records[offset]
        last = {record.key: offset for offset, record in sorted(self.records.items()) if offset < end_offset}
        dropped = [
            offset
            for offset, record in self.records.items()
            if offset < end_offset and (last[record.key] > offset or self._is_over(offset))
        ]
        for offset in dropped:
            del self.records[offset]
        for offset, record in self.records.items():
            if offset < end_offset and record.value is None:
                self.horizons.setdefault(self.batch_of[offset], self.now_ms + RETENTION_MS)

    def _is_over(self, offset: int) -> bool:
        horizon_ms = self.horizons.get(self.batch_of[offset])
        return self.records[offset].value is None and horizon_ms is not None and self.now_ms >= horizon_ms


class History:
    """A log and its model, fed with the same steps."""

    def __init__(self, directory: str) -> None:
        self.log = make_log(Path(directory), delete_retention_ms=RETENTION_MS, segment_bytes=1200)
        self.model = Model()
        self.aborted: set[int] = set()
        self.sequences = dict.fromkeys(range(4), 0)

    def do(self, step: Step) -> None:
        if isinstance(step, Append):
            self._append(step)
        elif isinstance(step, EndTransaction):
            if step.producer in self.model.open:
                append_marker(self.log, step.producer, is_commit=step.is_commit)
                self.model.ended(step.producer, is_commit=step.is_commit, aborted=self.aborted)
        elif isinstance(step, Roll):
            self.log.roll(self.model.now_ms)
        elif isinstance(step, Clean):
            self._clean(step.after_ms)

    def _append(self, step: Append) -> None:
        info = append(
            self.log,
            *step.pairs,
            timestamp=self.model.now_ms - step.age_ms,
            codec=step.codec,
            producer_id=step.producer,
            sequence=self.sequences.get(step.producer, 0),
            is_transactional=step.producer >= 2,
        )
        if step.producer >= 0:
            self.sequences[step.producer] += len(step.pairs)
        self.model.appended(step, info.first_offset)

    def _clean(self, after_ms: int) -> None:
        self.model.now_ms += after_ms
        candidate = examine(self.log, self.model.now_ms)
        if candidate.cleanable_bytes:
            done = clean_log(self.log, self.model.now_ms)
            assert done.end_offset == candidate.end_offset
            self.model.cleaned(done.end_offset, self.aborted)


def _invariants(log: Log, history: History) -> None:
    offsets = [header.base_offset for header, _ in batches_of(log)]
    assert offsets == sorted(offsets)
    for producer_id, entry in log.producer_state.producers.items():
        if entry.last_offset >= 0:
            held = [header for header, _ in batches_of(log) if header.last_offset == entry.last_offset]
            assert [header.producer_id for header in held] == [producer_id], "the last batch is always there"
    assert {producer: entry.last_sequence for producer, entry in log.producer_state.producers.items()} == {
        producer: sequence - 1 for producer, sequence in history.sequences.items() if sequence
    }


@settings(deadline=None, max_examples=examples(60))
@given(histories)
def test_what_is_left_is_what_the_model_says(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(directory)
        for step in steps:
            history.do(step)
            assert records_of(history.log) == [record for _, record in sorted(history.model.records.items())]
        assert fetched(history.log) == records_of(history.log)
        _invariants(history.log, history)
        end_offset = history.log.log_end_offset
        reopened = reopen(history.log, is_clean=False)
        assert records_of(reopened) == [record for _, record in sorted(history.model.records.items())]
        assert reopened.log_end_offset == end_offset
        _invariants(reopened, history)


@settings(deadline=None, max_examples=examples(40))
@given(histories, st.integers(1, 4))
def test_a_map_that_is_too_small_comes_to_the_same_in_more_rounds(steps: list[Step], keys_max: int) -> None:
    """Tombstones apart: when one gets its horizon depends on the rounds."""
    with tempfile.TemporaryDirectory() as directory:
        history = History(directory)
        for step in steps:
            if not isinstance(step, Clean):
                history.do(step)
        log = history.log
        log.roll(NOW_MS)
        end_offset = examine(log, NOW_MS).end_offset
        rounds = 0
        while log.positions.clean_point < end_offset and examine(log, NOW_MS).cleanable_bytes:
            before = log.positions.clean_point
            clean_log(log, NOW_MS, lambda: PlainCompactor(1 << 20, 0.9, keys_max=keys_max))
            assert log.positions.clean_point > before, "every round gets on"
            rounds += 1
        history.model.cleaned(end_offset, history.aborted)
        assert records_of(log) == [record for _, record in sorted(history.model.records.items())]
        assert rounds <= max(end_offset, 1)
