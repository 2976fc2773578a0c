"""A log beside a plain list: whatever is done to both, they hold the same records.

The machine appends (with and without a producer id, singly and staged), rolls, reads at any offset up to any limit,
moves the start, deletes old segments, truncates, flushes, loses its mappings and descriptors, and opens the log again.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.property.effort import examples
from tests.unit.storage.logs import EPOCH, NOW_MS, batch, read_records, reopen
from tidelog.config import LogConfig
from tidelog.storage.log import Log
from tidelog.storage.types import StartOffsetReason

values = st.binary(max_size=60)
PRODUCER = 5


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-machine-"))
        self.records: dict[int, bytes] = {}
        self.staged: list[int] = []
        self.start = 0
        self.end = 0
        self.batch_ends: list[int] = [0]
        self.next_sequence: int | None = 0
        self.last_batch: tuple[int, list[bytes], int] | None = None

    @initialize(
        segment_bytes=st.integers(min_value=300, max_value=1500),
        interval=st.sampled_from([0, 100, 1000]),
        index_bytes=st.sampled_from([48, 4096]),
    )
    def create(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            retention_bytes=segment_bytes * 2,
            retention_ms=-1,
        )
        self.log = Log.create(str(self.directory / "t-0"), "t", 0, config, NOW_MS)

    def _note(self, contents: list[bytes]) -> None:
        for content in contents:
            self.records[self.end] = content
            self.end += 1
        self.batch_ends.append(self.end)

    @rule(contents=st.lists(values, min_size=1, max_size=4), write=st.booleans())
    def append(self, contents: list[bytes], write: bool) -> None:
        info = self.log.append_as_leader(batch(*contents), EPOCH, NOW_MS)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(contents) - 1)
        self._note(contents)
        if write:
            self.log.write_staged()

    @rule(contents=st.lists(values, min_size=1, max_size=3))
    def append_idempotently(self, contents: list[bytes]) -> None:
        sequence = self.next_sequence or 0
        records = batch(*contents, producer_id=PRODUCER, sequence=sequence)
        info = self.log.append_as_leader(records, EPOCH, NOW_MS)
        assert not info.is_duplicate
        self.last_batch = (sequence, contents, self.end)
        self._note(contents)
        self.next_sequence = sequence + len(contents)

    @precondition(lambda self: self.last_batch is not None)
    @rule()
    def retry_the_last_batch(self) -> None:
        assert self.last_batch is not None
        sequence, contents, offset = self.last_batch
        records = batch(*contents, producer_id=PRODUCER, sequence=sequence)
        info = self.log.append_as_leader(records, EPOCH, NOW_MS)
        assert (info.is_duplicate, info.first_offset) == (True, offset)

    @rule()
    def write(self) -> None:
        self.log.write_staged()

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule(in_between=st.booleans())
    def flush(self, in_between: bool) -> None:
        job = self.log.prepare_flush()
        if in_between:
            self.append([b"meanwhile"], write=True)
        job.run()
        self.log.complete_flush(job)
        assert self.log.recovery_point == job.up_to

    @rule()
    def lose_open_files(self) -> None:
        """What the pools may do at any moment."""
        self.log.write_staged()
        self.log.release()

    @rule(data=st.data())
    def move_the_start(self, data: st.DataObject) -> None:
        self.log.write_staged()
        self.log.update_high_watermark(self.log.log_end_offset)
        offset = data.draw(st.integers(min_value=self.start, max_value=self.end))
        self.log.maybe_increment_log_start_offset(offset, StartOffsetReason.CLIENT_DELETION)
        self.start = offset

    @rule()
    def delete_old_segments(self) -> None:
        self.log.write_staged()
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.delete_old_segments(NOW_MS)
        assert self.start <= self.log.log_start_offset <= self.end
        self.start = self.log.log_start_offset
        assert self.log.size_bytes <= 3 * self.log.config.segment_bytes

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.write_staged()
        target = data.draw(st.sampled_from([end for end in self.batch_ends if end >= self.start] or [self.end]))
        self.log.truncate_to(target, NOW_MS)
        if target >= self.end:
            return
        self.end = target
        self.batch_ends = [end for end in self.batch_ends if end <= target]
        self.records = {offset: value for offset, value in self.records.items() if offset < target}
        self._follow_producer()

    @rule()
    def reopen(self) -> None:
        self.log.flush()
        self.log.close()
        high_watermark = self.log.high_watermark
        self.log = reopen(self.log)
        self.log.update_high_watermark(high_watermark)
        self._follow_producer()

    def _follow_producer(self) -> None:
        """What is known of the producer afterwards depends on snapshots; what it says must be true."""
        entry = self.log.producer_state.producers.get(PRODUCER)
        self.last_batch = None
        self.next_sequence = None
        if entry is not None and entry.batches:
            last = entry.batches[-1]
            self.next_sequence = last.last_sequence + 1
            assert last.last_offset < self.end
            contents = [self.records[offset] for offset in range(last.first_offset, last.last_offset + 1)]
            self.last_batch = (last.first_sequence, contents, last.first_offset)

    @rule(data=st.data(), max_bytes=st.integers(min_value=1, max_value=2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        start = data.draw(st.integers(min_value=self.log.log_start_offset, max_value=self.end))
        limit = data.draw(st.sampled_from([end for end in self.batch_ends if end >= start] or [self.end]))
        limit = min(limit, self.log.written_end_offset)
        found = {record.offset: record.value for record in read_records(self.log, start, limit, max_bytes)}
        assert found == {offset: self.records[offset] for offset in range(start, limit)}

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = getattr(self, "log", None)
        if log is None:
            return
        assert log.log_end_offset == self.end
        assert log.log_start_offset == self.start
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.written_end_offset <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))
        assert log.active_segment is log.segments.active

    def teardown(self) -> None:
        shutil.rmtree(self.directory)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=examples(40), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
