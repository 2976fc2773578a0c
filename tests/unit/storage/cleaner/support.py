"""What the tests of compaction share: small compacted logs, cleanings without a process, and what is left of a log."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.config import LogConfig
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.header import BatchHeader
from tidelog.records.kernels.compaction import Compactor, PlainCompactor
from tidelog.records.record import Record
from tidelog.storage.cleaner.cleaning import clean
from tidelog.storage.cleaner.jobs import CleanJob, Event, GroupCleaned, JobDone, JobFailed
from tidelog.storage.cleaner.planning import Candidate, CleanerConfig, examine, job_for
from tidelog.storage.cleaner.swap import open_cleaned, replace_segments, sources_of
from tidelog.storage.cleaner.worker import do
from tidelog.storage.loading.loader import load_log
from tidelog.storage.log import Log
from tidelog.storage.types import AppendOrigin, LogAppendInfo
from tidelog.timing import ManualClock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
EPOCH = 4

Pair = tuple[bytes | None, bytes | None]
NewCompactor = Callable[[], Compactor]


class Kept(NamedTuple):
    """A record that is in a log."""

    offset: int
    key: bytes | None
    value: bytes | None


def plain() -> Compactor:
    return PlainCompactor(1 << 20, 0.9)


def make_log(tmp_path: Path, **settings: Any) -> Log:
    """An empty compacted log; indexes are dense, so that small logs have entries."""
    defaults: dict[str, object] = {
        "cleanup_policy": ("compact",),
        "index_interval_bytes": 60,
        "segment_index_bytes": 4096,
    }
    config = LogConfig(**{**defaults, **settings})
    return Log.create(str(tmp_path / "topic-0"), "topic", 0, config, NOW_MS)


def append(
    log: Log,
    *pairs: Pair,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    is_transactional: bool = False,
) -> LogAppendInfo:
    """One batch of keys and values, written and below the high watermark. A coordinator may write without keys."""
    has_producer = producer_id >= 0
    batch = build_batch(
        [Record(index, timestamp + index, key, value) for index, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch if has_producer else -1,
        base_sequence=sequence if has_producer else -1,
        is_transactional=is_transactional,
    )
    info = log.append_as_leader(bytearray(batch), EPOCH, NOW_MS)
    return _written(log, info)


def append_marker(log: Log, producer_id: int, *, is_commit: bool, producer_epoch: int = 0) -> LogAppendInfo:
    marker = build_end_transaction_marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=0,
        timestamp=NOW_MS,
    )
    return _written(log, log.append_as_leader(bytearray(marker), EPOCH, NOW_MS, AppendOrigin.COORDINATOR))


def _written(log: Log, info: LogAppendInfo) -> LogAppendInfo:
    log.write_staged()
    log.update_high_watermark(log.log_end_offset)
    return info


def plan(log: Log, now_ms: int = NOW_MS, config: CleanerConfig | None = None) -> CleanJob:
    return job_for(examine(log, now_ms), config or CleanerConfig(), now_ms)


def run(job: CleanJob, compactor: Compactor) -> list[GroupCleaned | JobDone]:
    return list(clean(job, compactor, lambda _read, _written: None, lambda: 0, "test"))


def compact(log: Log, now_ms: int = NOW_MS, new_compactor: NewCompactor = plain) -> JobDone:
    """Roll, clean everything that may be cleaned and swap it in, as the manager does."""
    log.roll(now_ms)
    return clean_log(log, now_ms, new_compactor)


def clean_log(log: Log, now_ms: int = NOW_MS, new_compactor: NewCompactor = plain) -> JobDone:
    """Clean what may be cleaned, with the active segment as it is."""
    known = list(log.segments)
    *groups, done = run(plan(log, now_ms), new_compactor())
    for group in groups:
        assert isinstance(group, GroupCleaned)
        log.segments.discard_files(
            replace_segments(log, open_cleaned(log, group, now_ms), sources_of(log, group, known))
        )
    assert isinstance(done, JobDone)
    log.positions.mark_clean(done.end_offset)
    return done


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch in the files of a log, control batches too."""
    found = []
    for segment in log.segments:
        data = segment.log_file.read(0, segment.size_bytes)
        found += [(header, list(iterate_records(data, position))) for position, header in iterate_batches(data)]
    return found


def records_of(log: Log) -> list[Kept]:
    """Every record that a consumer gets to see without looking at transactions."""
    return [
        Kept(record.offset, record.key, record.value)
        for header, records in batches_of(log)
        if not header.is_control
        for record in records
    ]


def fetched(log: Log, offset: int = 0) -> list[Kept]:
    """What a consumer reads from `offset` on, fetch by fetch."""
    found: list[Kept] = []
    while offset < log.high_watermark:
        read = log.read(offset, 300, log.high_watermark, True)
        if read.slice is None:
            break
        data = read.slice.read()
        for position, header in iterate_batches(data):
            if not header.is_control:
                found += [
                    Kept(record.offset, record.key, record.value)
                    for record in iterate_records(data, position)
                    if record.offset >= offset
                ]
            offset = header.next_offset
    return found


def latest(log: Log) -> dict[bytes | None, bytes | None]:
    """The state that a reader of the whole log ends with; deleted keys are not in it."""
    state: dict[bytes | None, bytes | None] = {}
    for record in records_of(log):
        state[record.key] = record.value
    return {key: value for key, value in state.items() if value is not None}


def reopen(log: Log, *, is_clean: bool) -> Log:
    """The log as the next start finds it; nothing is closed first when it was a crash."""
    if is_clean:
        log.close()
    else:
        log.release()
    reopened, _ = load_log(
        log.directory,
        log.topic,
        log.partition,
        log.config,
        ManualClock(NOW_MS),
        is_clean=is_clean,
        recovery_point=log.recovery_point,
        clean_point=log.positions.clean_point,
    )
    reopened.update_high_watermark(reopened.log_end_offset)
    return reopened


def files_in(log: Log, suffix: str = "") -> list[str]:
    return sorted(name for name in os.listdir(log.directory) if name.endswith(suffix))


class InlineWorker:
    """A `Worker` that does its job when the test says so, an event at a time."""

    def __init__(self) -> None:
        self.jobs: list[CleanJob] = []
        self.is_closed = False
        self.abandoned = 0
        self._events: list[Event] = []
        self._on_event: Callable[[Event], None] | None = None
        self._on_lost: Callable[[str], None] | None = None

    def begin(self, job: CleanJob, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        assert self._on_event is None, "it is at work"
        self.jobs.append(job)
        self._on_event, self._on_lost = on_event, on_lost
        self._events = list(do(job, lambda: True, lambda _event: None))

    def abandon(self, on_gone: Callable[[], None]) -> None:
        self.abandoned += self._on_event is not None
        self._on_event = self._on_lost = None
        self._events = []
        on_gone()

    def close(self) -> None:
        self.is_closed = True

    @property
    def is_busy(self) -> bool:
        return self._on_event is not None

    def step(self) -> Event:
        """Report the next event."""
        on_event, event = self._on_event, self._events.pop(0)
        assert on_event is not None
        if isinstance(event, JobDone | JobFailed):
            self._on_event = self._on_lost = None
        on_event(event)
        return event

    def finish(self) -> None:
        """Report the rest of the job; what the cleaner begins thereupon is left for the next call."""
        while self._events and not isinstance(self.step(), JobDone | JobFailed):
            pass

    def say(self, event: Event) -> None:
        """Report something that did not happen."""
        self._events = [event]
        self.step()

    def die(self, why: str = "killed") -> None:
        on_lost, self._on_event, self._on_lost = self._on_lost, None, None
        self._events = []
        assert on_lost is not None
        on_lost(why)


def candidate_of(logs: Sequence[Log], now_ms: int = NOW_MS) -> list[Candidate]:
    return [examine(log, now_ms) for log in logs]
