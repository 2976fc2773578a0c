"""The small parts of the cleaner: groups, windows, transactions, the throttle, jobs, requests, metrics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.storage.cleaner._reading import BatchWindow
from tidelog.storage.cleaner.cleaning import IndexSizes, group_segments
from tidelog.storage.cleaner.jobs import (
    CleanJob,
    GroupCleaned,
    JobDone,
    JobFailed,
    ProducerTail,
    Progress,
    SourceSegment,
    decode_event,
    decode_job,
    encode_event,
    encode_job,
)
from tidelog.storage.cleaner.metrics import CleanerMetrics
from tidelog.storage.cleaner.requests import CompactionRequests, RequestState
from tidelog.storage.cleaner.transactions import AbortedTransactions, TransactionTracker
from tidelog.storage.cleaner.worker import Throttle
from tidelog.storage.segment.transaction_index import AbortedTransaction

MIB = 1024 * 1024


# --- groups ---


def _groups(
    segments: list[tuple[int, int]],
    *,
    end_offset: int = 10_000,
    segment_bytes: int = 100,
    index_bytes: int = 100,
    sizes: IndexSizes = IndexSizes(0, 0),  # noqa: B008 - a plain value
) -> list[list[int]]:
    sources = [SourceSegment(*segment) for segment in segments]
    groups = group_segments(sources, end_offset, segment_bytes, index_bytes, lambda _: sizes)
    return [[segment.base_offset for segment in group] for group in groups]


def test_groups_are_filled_up_to_the_size_of_a_segment() -> None:
    assert _groups([(0, 40), (1, 60), (2, 1), (3, 99), (4, 100), (5, 101), (6, 1)]) == [[0, 1], [2, 3], [4], [5], [6]]


def test_groups_are_filled_up_to_the_size_of_an_index() -> None:
    assert _groups([(0, 1), (1, 1), (2, 1)], sizes=IndexSizes(50, 1)) == [[0, 1], [2]]
    assert _groups([(0, 1), (1, 1), (2, 1)], sizes=IndexSizes(1, 40)) == [[0, 1], [2]]


def test_offsets_of_a_group_fit_the_four_bytes_of_an_index_entry() -> None:
    """Base offsets 100 and 2^31+100 are 2^31 apart, one too many; the end of a segment is where the next begins."""
    far = 2**31
    assert _groups([(100, 1), (200, 1), (far + 99, 1)], end_offset=far + 100) == [[100, 200, far + 99]]
    assert _groups([(100, 1), (200, 1), (far + 99, 1)], end_offset=far + 101) == [[100, 200], [far + 99]]
    assert _groups([(0, 1), (5, 1), (far + 6, 1)], end_offset=far + 7) == [[0], [5], [far + 6]]


def test_an_empty_segment_goes_along_however_far_its_end_is() -> None:
    far = 2**31
    assert _groups([(0, 1), (5, 0), (far + 6, 1)], end_offset=far + 7) == [[0, 5], [far + 6]]


# --- windows ---


def _batch(offset: int, size: int) -> bytes:
    return build_batch([Record(offset, 0, b"k", bytes(size))], base_offset=offset)


def _read(path: Path, window: BatchWindow, size_bytes: int | None = None) -> Iterator[int]:
    with window.over(str(path), path.stat().st_size if size_bytes is None else size_bytes):
        while window.fill():
            position = 0
            while size := window.batch_bytes(position):
                yield read_header(window.buffer, position).base_offset
                position += size
            window.drop(position)


@pytest.mark.parametrize("window_bytes", [12, 61, 100, 1000, 100_000])
def test_a_window_shows_every_batch_once_whatever_its_size(tmp_path: Path, window_bytes: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(_batch(offset, 37 * offset % 500) for offset in range(50)))
    assert list(_read(path, BatchWindow(window_bytes))) == list(range(50))


def test_a_window_says_when_a_file_ends_early_or_a_length_is_nonsense(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(_batch(0, 10)[:-1])
    with pytest.raises(CorruptRecordError, match="claims a length"):
        list(_read(path, BatchWindow(100)))
    path.write_bytes(_batch(0, 10) + b"12345")
    with pytest.raises(CorruptRecordError, match="ends within a batch"):
        list(_read(path, BatchWindow(100)))
    with pytest.raises(CorruptRecordError, match="ends after"):
        list(_read(path, BatchWindow(1000), 500))
    path.write_bytes(bytes(8) + (2**30).to_bytes(4, "big") + bytes(100))
    with pytest.raises(CorruptRecordError, match="claims a length"):
        list(_read(path, BatchWindow(12)))
    path.write_bytes(bytes(100))
    with pytest.raises(CorruptRecordError, match="claims a length of 0"):
        list(_read(path, BatchWindow(12)))


# --- transactions ---


def _data(producer_id: int, offset: int, *, is_transactional: bool = True) -> bytes:
    return build_batch(
        [Record(offset, 0, b"k", b"v")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )


def _on_data(tracker: TransactionTracker, producer_id: int, offset: int, **options: bool) -> bool:
    return tracker.on_data(read_header(_data(producer_id, offset, **options)))


def _on_marker(tracker: TransactionTracker, producer_id: int, offset: int, *, is_commit: bool) -> bool:
    marker = build_end_transaction_marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        base_offset=offset,
    )
    return tracker.on_control(read_header(marker), marker, 0)


def test_batches_between_the_first_offset_and_the_marker_of_an_aborted_transaction_are_aborted() -> None:
    tracker = TransactionTracker()
    tracker.expect([AbortedTransaction(1, 10, 20, 21), AbortedTransaction(1, 30, 40, 41)])
    assert not _on_data(tracker, 1, 5)
    assert not _on_marker(tracker, 1, 6, is_commit=True), "its record at 5 was seen"
    assert _on_data(tracker, 1, 10)
    assert not _on_data(tracker, 2, 11)
    assert not _on_data(tracker, 1, 12, is_transactional=False)
    assert not _on_marker(tracker, 1, 20, is_commit=False)
    assert not _on_data(tracker, 1, 25)
    assert _on_data(tracker, 1, 35)
    assert [entry.first_offset for entry in tracker.take_still_indexed()] == [10]
    assert tracker.take_still_indexed() == []


def test_a_marker_without_batches_is_needed_no_more() -> None:
    tracker = TransactionTracker()
    tracker.expect([AbortedTransaction(1, 10, 20, 21)])
    assert _on_marker(tracker, 1, 20, is_commit=False)
    assert _on_marker(tracker, 2, 21, is_commit=True)
    assert tracker.take_still_indexed() == []


def test_a_transaction_that_is_announced_again_in_the_next_segment_is_the_same() -> None:
    tracker = TransactionTracker()
    entry = AbortedTransaction(1, 10, 20, 21)
    tracker.expect([entry])
    assert _on_data(tracker, 1, 10)
    tracker.expect([entry])
    assert _on_data(tracker, 1, 15)
    assert not _on_marker(tracker, 1, 20, is_commit=False)
    assert not _on_data(tracker, 1, 22)
    assert len(tracker.take_still_indexed()) == 1


def test_aborted_transactions_are_found_by_the_offsets_they_span() -> None:
    aborted = AbortedTransactions([AbortedTransaction(2, 30, 40, 0), AbortedTransaction(1, 5, 20, 0)])
    assert [entry.producer_id for entry in aborted.overlapping(0, 5)] == []
    assert [entry.producer_id for entry in aborted.overlapping(20, 31)] == [1, 2]
    assert [entry.producer_id for entry in aborted.overlapping(21, 30)] == []


# --- throttle ---


class _Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds


def test_the_rate_holds_over_time_and_idle_time_is_not_saved_up() -> None:
    time = _Time()
    throttle = Throttle(10 * MIB, time.clock, time.sleep)
    for _ in range(100):
        throttle.spend(MIB)
    assert 9.0 < time.now - 100 < 10.5
    time.now += 60
    throttle.spend(1)
    before = time.slept
    for _ in range(20):
        throttle.spend(MIB)
    assert 1.5 < time.slept - before < 2.1


def test_without_a_limit_nothing_sleeps() -> None:
    time = _Time()
    throttle = Throttle(1.7976931348623157e308, time.clock, time.sleep)
    for _ in range(10):
        throttle.spend(2**40)
    assert time.slept == 0


# --- jobs ---


def _job() -> CleanJob:
    return CleanJob(
        name="t-0",
        directory="/data/t-0",
        segments=(SourceSegment(0, 10), SourceSegment(5, 20)),
        later_bases=(9,),
        first_dirty_offset=3,
        end_offset=9,
        now_ms=1,
        delete_retention_ms=2,
        segment_bytes=3,
        segment_index_bytes=4,
        index_interval_bytes=5,
        map_bytes=6,
        map_load_factor=0.9,
        buffer_bytes=7,
        bytes_per_second_max=1.7976931348623157e308,
        producers=(ProducerTail(1, 2, 3),),
    )


def test_jobs_and_events_survive_the_pipe() -> None:
    assert decode_job(encode_job(_job())) == _job()
    for event in (
        Progress(1, 2),
        GroupCleaned((0, 5), 30, 77),
        JobDone(9, 1, 2, 3, 4, 5, 0.5, 6, 7, "plain"),
        JobFailed("io", "no room", 28),
    ):
        line = encode_event(event)
        assert line.endswith(b"\n")
        assert decode_event(line) == event


@pytest.mark.parametrize("line", [b"", b"hello\n", b"[]\n", b'["Nothing", 1]\n', b'["Progress"]\n', b"{}\n", b"3\n"])
def test_what_is_no_event_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="not an event"):
        decode_event(line)


# --- requests and metrics ---


def test_a_request_is_waiting_then_under_way_then_done() -> None:
    requests, key = CompactionRequests(), ("t", 0)
    requests.finish(key, 1)
    assert requests.get(key) is None
    requests.add(key, 100)
    assert requests.waiting() == [key]
    requests.finish(key, 90)
    assert requests.waiting() == [key], "what ended had begun before"
    requests.begin(key)
    assert requests.waiting() == []
    requests.wait_again(key)
    assert requests.waiting() == [key]
    requests.begin(key)
    requests.finish(key, 50)
    found = requests.get(key)
    assert found is not None
    assert (found.state, found.bytes_before, found.bytes_after) == (RequestState.DONE, 100, 50)
    requests.fail(key, "too late")
    assert requests.get(key) == found


def test_metrics_have_kafkas_names() -> None:
    metrics = CleanerMetrics()
    assert set(metrics.values(0)) == {
        "max-dirty-percent",
        "time-since-last-run-ms",
        "uncleanable-partitions-count",
        "uncleanable-bytes",
        "max-buffer-utilization-percent",
        "cleaner-recopy-percent",
        "max-clean-time-secs",
        "max-compaction-delay-secs",
        "DeadThreadCount",
    }
    metrics.on_done(0, JobDone(9, 200, 50, 3, 4, 5, 0.256, 6, 7900, "plain"))
    metrics.on_done(1, JobDone(9, 200, 150, 3, 4, 5, 0.1, 6, 100, "plain"))
    metrics.max_dirty_ratio = 0.755
    metrics.last_run_ms = 1000
    values = metrics.values(1500)
    assert values["cleaner-recopy-percent"] == 50
    assert values["max-buffer-utilization-percent"] == 25
    assert values["max-clean-time-secs"] == 7
    assert values["max-dirty-percent"] == 75
    assert values["time-since-last-run-ms"] == 500
