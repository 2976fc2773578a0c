"""Delayed records beside a plain model: whatever happens, each is delivered once, never early, in order.

The machine produces with and without delays, singly, in transactions and again with the same sequences; lets time pass,
delivers, cancels, moves, writes checkpoints, carries records out of the log's front and deletes or compacts it. A crash
cuts the log anywhere within the batches that were appended last, and the state is made from the checkpoint or from the
log.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.property.effort import examples
from tests.unit.storage.cleaner.support import batches_of, clean_log
from tests.unit.storage.logs import EPOCH, NOW_MS, read_records, reopen
from tidelog.config import LogConfig
from tidelog.records.batch import iterate_batches
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.record import Record
from tidelog.replication.delayed import DelayedPartition
from tidelog.replication.partition import Partition
from tidelog.storage.cleaner.planning import examine
from tidelog.storage.log import Log
from tidelog.storage.types import AppendOrigin

KEYS = [b"a", b"b", None]
delays = st.one_of(st.none(), st.integers(min_value=0, max_value=50))
PRODUCER = 7
TRANSACTIONAL = 8
CUT = st.integers(min_value=0, max_value=100)


class DelayedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-delayed-"))
        self.now_ms = NOW_MS
        self.epoch = EPOCH
        self.sequences = {PRODUCER: 0, TRANSACTIONAL: 0}
        self.waiting: dict[bytes, tuple[int, int, bytes | None]] = {}
        """Due time, arrival and key by value."""
        self.expected: set[bytes] = set()
        """Values that are visible, or were delivered."""
        self.open: dict[bytes, tuple[int, int, bytes | None]] = {}
        self.open_visible: set[bytes] = set()
        self.seen: list[bytes] = []
        self.read_offset = 0
        self.count = 0
        self.acknowledged = 0

    @initialize(recent_max=st.sampled_from([2, 5, 1000]), segment_bytes=st.sampled_from([2000, 100_000]))
    def create(self, recent_max: int, segment_bytes: int) -> None:
        config = LogConfig(
            tidelog_delay_enable=True, segment_bytes=segment_bytes, retention_ms=-1, retention_bytes=segment_bytes
        )
        self.recent_max = recent_max
        self.log = Log.create(str(self.directory / "t-0"), "t", 0, config, NOW_MS)
        self._lead()

    def _lead(self) -> None:
        self.partition = Partition("t", 0, bytes(16), self.log, 1)
        self.partition.make_leader(self.epoch, [1], [1])
        self.delayed = DelayedPartition(self.partition, self.recent_max)
        self._apply()

    def _apply(self) -> None:
        while self.delayed.apply():
            pass

    def _commit(self) -> None:
        self.log.write_staged()
        self.partition.advance_high_watermark()
        self.acknowledged = self.log.log_end_offset
        self._apply()
        self._look()

    def _look(self) -> None:
        """Read what became visible. Consumers skip control batches."""
        offset, end = max(self.read_offset, self.log.log_start_offset), self.log.high_watermark
        while offset < end:
            piece = self.log.read(offset, 1 << 20, end, True).slice
            if piece is None:
                break
            data = piece.read()
            for position, header in iterate_batches(data):
                if not header.is_control and header.base_offset >= offset:
                    found = read_records(self.log, header.base_offset, header.next_offset)
                    self.seen += [record.value or b"" for record in found]
                offset = header.next_offset
                del position
        self.read_offset = end

    def _batch(self, contents: list[tuple[int | None, bytes | None]], producer: int | None) -> tuple[bytearray, list]:
        records, noted = [], []
        for slot, (delay, key) in enumerate(contents):
            self.count += 1
            value = b"%d" % self.count
            headers = () if delay is None else (("tidelog-delay", b"%d" % delay),)
            records.append(Record(slot, self.now_ms, key, value, headers))
            noted.append((value, delay, key))
        identity: dict[str, Any] = {} if producer is None else {
            "producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer],
        }  # fmt: skip
        data = build_batch(records, is_transactional=producer == TRANSACTIONAL, **identity)
        if producer is not None:
            self.sequences[producer] += len(contents)
        return bytearray(data), noted

    def _append(self, data: bytearray) -> int:
        info = self.log.append_as_leader(bytearray(data), self.epoch, self.now_ms)
        return info.first_offset

    @rule(
        contents=st.lists(st.tuples(delays, st.sampled_from(KEYS)), min_size=1, max_size=4),
        producer=st.sampled_from([None, PRODUCER]),
        again=st.booleans(),
    )
    def produce(self, contents: list, producer: int | None, again: bool) -> None:
        data, noted = self._batch(contents, producer)
        first = self._append(data)
        self._commit()
        if again and producer is not None:
            assert self._append(data) == first
            self._commit()
        self._note(noted, first)

    def _note(self, noted: list, first: int) -> None:
        for slot, (value, delay, key) in enumerate(noted):
            if delay:
                self.waiting[value] = (self.now_ms + delay, first + slot, key)
            else:
                self.expected.add(value)

    @rule(contents=st.lists(st.tuples(delays, st.sampled_from(KEYS)), min_size=1, max_size=3), cut=CUT)
    def produce_and_crash(self, contents: list, cut: int) -> None:
        """The batch is cut off somewhere; its producer sends it again."""
        data, noted = self._batch(contents, PRODUCER)
        self._append(data)
        self._crash(cut)
        first = self._append(data)
        self._commit()
        self._note(noted, first)

    @rule(contents=st.lists(st.tuples(delays, st.sampled_from(KEYS)), min_size=1, max_size=3))
    def produce_in_transaction(self, contents: list) -> None:
        data, noted = self._batch(contents, TRANSACTIONAL)
        first = self._append(data)
        self._commit()
        for slot, (value, delay, key) in enumerate(noted):
            if delay:
                self.open[value] = (delay, first + slot, key)
            else:
                self.open_visible.add(value)

    @rule(is_commit=st.booleans())
    def end_transaction(self, is_commit: bool) -> None:
        if not self.open and not self.open_visible:
            return
        marker = build_end_transaction_marker(
            is_commit=is_commit, producer_id=TRANSACTIONAL, producer_epoch=0, coordinator_epoch=0, timestamp=self.now_ms
        )
        self.log.append_as_leader(bytearray(marker), self.epoch, self.now_ms, AppendOrigin.COORDINATOR)
        self._commit()
        # This reader is not read-committed: it sees what is visible at once in either case.
        self.expected |= self.open_visible
        if is_commit:
            for value, (delay, arrival, key) in self.open.items():
                self.waiting[value] = (self.now_ms + delay, arrival, key)
        self.open, self.open_visible = {}, set()

    @rule(ms=st.integers(min_value=1, max_value=40))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def deliver(self) -> None:
        while self.delayed.may_change and self.delayed.deliver(self.now_ms):
            before = len(self.seen)
            self._commit()
            self._check_delivered(self.seen[before:])
        assert not [value for value, (due, _, _) in self.waiting.items() if due <= self.now_ms]

    @rule(cut=CUT)
    def deliver_and_crash(self, cut: int) -> None:
        if self.delayed.may_change and self.delayed.deliver(self.now_ms):
            before = len(self.seen)
            self._crash(cut)
            self._look()
            self._check_delivered(self.seen[before:])

    def _check_delivered(self, values: list[bytes]) -> None:
        order = [self.waiting.pop(value) for value in values]
        assert all(due <= self.now_ms for due, _, _ in order)
        assert [entry[:2] for entry in order] == sorted(entry[:2] for entry in order)
        if order:
            assert not [other for other in self.waiting.values() if other[:2] < order[-1][:2]]
        self.expected.update(values)

    @rule(key=st.sampled_from(KEYS), cut=st.one_of(st.none(), CUT))
    def cancel(self, key: bytes | None, cut: int | None) -> None:
        self._change(key, cut, lambda entries: self.delayed.cancel(entries, self.now_ms))
        for value in [value for value, (_, _, found) in self.waiting.items() if found == key]:
            del self.waiting[value]

    @rule(key=st.sampled_from(KEYS), delay=st.integers(min_value=0, max_value=60), cut=st.one_of(st.none(), CUT))
    def reschedule(self, key: bytes | None, delay: int, cut: int | None) -> None:
        at = self.now_ms + delay
        self._change(key, cut, lambda entries: self.delayed.reschedule(entries, at, self.now_ms))
        for value, (_, arrival, found) in list(self.waiting.items()):
            if found == key:
                self.waiting[value] = (at, arrival, found)

    def _change(self, key: bytes | None, cut: int | None, append: Callable[[list[bytes]], None]) -> None:
        """A change that a crash may have cut off is made again."""
        entries = [entry for piece in self.delayed.find(key) for entry in piece]
        assert len(entries) == sum(found == key for _, _, found in self.waiting.values())
        if entries:
            append(entries)
            if cut is not None:
                self._crash(cut)
                entries = [entry for piece in self.delayed.find(key) for entry in piece]
                if entries:
                    append(entries)
            self._commit()

    @rule()
    def checkpoint(self) -> None:
        checkpoint = self.delayed.checkpoint()
        checkpoint.write()
        self.delayed.checkpoint_written(checkpoint)

    def _carry(self) -> None:
        self.log.roll(self.now_ms)
        for piece in list(self.delayed.before(self.log.log_end_offset)):
            for group in list(self.delayed.groups(self.delayed.still_waiting(piece))):
                self.delayed.carry(group, self.now_ms)
                self._commit()
        self.checkpoint()

    @rule()
    def carry_and_delete(self) -> None:
        self._carry()
        self.log.delete_old_segments(self.now_ms)

    @rule(carried=st.booleans())
    def settle_and_compact(self, carried: bool) -> None:
        if carried:
            self._carry()
        self.delayed.settle(self.now_ms)
        self._commit()
        self.log.roll(self.now_ms)
        if examine(self.log, self.now_ms).cleanable_bytes:
            end_offset = clean_log(self.log, self.now_ms).end_offset
            control = [header for header, _ in batches_of(self.log) if header.is_control and header.producer_id < 0]
            assert all(header.base_offset >= end_offset for header in control), "settled control batches are removed"

    @rule(merged=st.booleans())
    def merge(self, merged: bool) -> None:
        from tidelog.storage.waiting.runs import merge_runs

        index = self.delayed.index
        if len(index.runs) > 1:
            path, sources = index.begin_merge()
            count = merge_runs(path, sources)
            if merged:
                self.deliver()
                index.end_merge(path, count)
            else:
                index.abandon_merge()

    @rule(with_files=st.booleans())
    def restart(self, with_files: bool) -> None:
        self._crash(100)
        if not with_files:
            for path in (self.directory / "t-0").glob("delayed-records*"):
                path.unlink()
            self._lead()

    def _crash(self, cut: int) -> None:
        """Cut the log within what is not acknowledged, and open it again."""
        self.log.write_staged()
        end = self.log.log_end_offset
        self.log.truncate_to(self.acknowledged + (end - self.acknowledged) * cut // 100, self.now_ms)
        self.log.close()
        self.log = reopen(self.log, now_ms=self.now_ms)
        self.epoch += 1
        self._lead()
        self.acknowledged = self.log.log_end_offset

    def teardown(self) -> None:
        if hasattr(self, "delayed"):
            self.end_transaction(True)
            assert len(self.delayed.index) == len(self.waiting)
            self.now_ms += 1000
            self.deliver()
            assert not self.waiting
            assert sorted(self.seen) == sorted(self.expected)
        shutil.rmtree(self.directory)


TestDelayed = DelayedMachine.TestCase
TestDelayed.settings = settings(
    max_examples=examples(24),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
