"""Which log is cleaned next, and which part of it."""

from pathlib import Path

from tests.unit.storage.cleaner.support import NOW_MS, append, append_marker, compact, make_log, reopen
from tidelog.storage.cleaner.planning import examine, first_dirty
from tidelog.storage.log import Log
from tidelog.storage.names import DELAYED_CHECKPOINT
from tidelog.storage.types import StartOffsetReason

HOUR_MS = 3_600_000


def _segments(log: Log, count: int, *, timestamp: int = NOW_MS) -> None:
    """Segments of two records each; an empty active one behind them."""
    for number in range(count):
        append(log, (b"k", b"%d" % number), (b"l", b"%d" % number), timestamp=timestamp + number * HOUR_MS)
        log.roll(NOW_MS)


def test_an_uncleaned_log_is_dirty_from_its_start(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    _segments(log, 3)
    found = examine(log, NOW_MS)
    assert (found.first_dirty_offset, found.end_offset) == (0, 6)
    assert (found.clean_bytes, found.cleanable_bytes) == (0, log.size_bytes)
    assert found.dirty_ratio == 1.0
    assert found.is_due


def test_the_share_of_dirty_bytes_decides(tmp_path: Path) -> None:
    log = make_log(tmp_path, min_cleanable_dirty_ratio=0.5)
    for number in range(10):
        append(log, (b"%d" % number, b"v"))
    compact(log)
    append(log, (b"0", b"v"))
    log.roll(NOW_MS)
    found = examine(log, NOW_MS)
    assert found.dirty_ratio == found.cleanable_bytes / log.size_bytes
    assert 0 < found.dirty_ratio < 0.5
    assert not found.is_due
    for number in range(20):
        append(log, (b"%d" % number, b"v"))
    log.roll(NOW_MS)
    assert examine(log, NOW_MS).is_due


def test_a_share_that_equals_the_limit_is_not_enough(tmp_path: Path) -> None:
    log = make_log(tmp_path, min_cleanable_dirty_ratio=1.0)
    _segments(log, 1)
    assert examine(log, NOW_MS).dirty_ratio == 1.0
    assert not examine(log, NOW_MS).is_due


def test_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    _segments(log, 1)
    append(log, (b"k", b"active"))
    assert examine(log, NOW_MS).end_offset == 2
    assert examine(log, NOW_MS).cleanable_bytes == log.segments[0].size_bytes


def test_nothing_at_or_above_the_high_watermark_is_cleaned(tmp_path: Path) -> None:
    """Whole segments only: the one in which the high watermark lies waits as well."""
    log = make_log(tmp_path)
    _segments(log, 3)
    log.update_high_watermark(3)
    assert examine(log, NOW_MS).end_offset == 2
    log.update_high_watermark(4)
    assert examine(log, NOW_MS).end_offset == 4


def test_nothing_at_or_above_the_first_unstable_offset_is_cleaned(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    _segments(log, 1)
    append(log, (b"k", b"open"), producer_id=7, is_transactional=True)
    log.roll(NOW_MS)
    _segments(log, 1)
    assert examine(log, NOW_MS).end_offset == 2
    append_marker(log, 7, is_commit=True)
    log.roll(NOW_MS)
    assert examine(log, NOW_MS).end_offset == log.active_segment.base_offset


def test_records_younger_than_the_least_lag_wait(tmp_path: Path) -> None:
    log = make_log(tmp_path, min_compaction_lag_ms=HOUR_MS)
    _segments(log, 3, timestamp=NOW_MS)
    assert examine(log, NOW_MS + HOUR_MS).end_offset == 0
    assert examine(log, NOW_MS + HOUR_MS + 1).end_offset == 2
    assert examine(log, NOW_MS + 2 * HOUR_MS + 1).end_offset == 4
    assert examine(log, NOW_MS + 9 * HOUR_MS).end_offset == 6


def test_a_log_is_due_when_its_oldest_dirty_record_is_older_than_the_greatest_lag(tmp_path: Path) -> None:
    log = make_log(tmp_path, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    _segments(log, 1)
    assert not examine(log, NOW_MS + HOUR_MS).is_due
    found = examine(log, NOW_MS + HOUR_MS + 7)
    assert found.overdue_ms == 6, "the segment's first batch ends with a timestamp of one more"
    assert found.is_due


def test_an_overdue_log_with_nothing_to_clean_is_not_due(tmp_path: Path) -> None:
    log = make_log(tmp_path, max_compaction_lag_ms=1)
    _segments(log, 1)
    log.update_high_watermark(0)
    found = examine(log, NOW_MS + HOUR_MS)
    assert found.overdue_ms > 0
    assert not found.is_due


def test_a_clean_point_outside_of_the_log_says_nothing(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    _segments(log, 3)
    log.positions.mark_clean(4)
    assert first_dirty(log) == 4
    log.positions.mark_clean(99)
    assert first_dirty(log) == 0, "the log ends before it: a tail was lost"
    log.maybe_increment_log_start_offset(3, StartOffsetReason.CLIENT_DELETION)
    log.positions.mark_clean(2)
    assert first_dirty(log) == 3, "records before the start are gone"


def test_a_clean_point_within_a_segment_lets_it_count_on_both_sides(tmp_path: Path) -> None:
    """So a map that was full leaves it; Kafka counts the same way."""
    log = make_log(tmp_path)
    _segments(log, 2)
    log.positions.mark_clean(1)
    found = examine(log, NOW_MS)
    assert found.clean_bytes == log.segments[0].size_bytes
    assert found.cleanable_bytes == log.size_bytes


def test_truncation_takes_the_clean_point_back(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    _segments(log, 3)
    log.positions.mark_clean(6)
    log.truncate_to(3, NOW_MS)
    assert log.positions.clean_point == 3


def test_segments_that_delayed_records_wait_in_are_not_cleaned(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    _segments(log, 3)
    log.settled_before = 3
    assert examine(log, NOW_MS).end_offset == 2
    assert examine(log, NOW_MS, settled_before=log.log_end_offset).end_offset == log.active_segment.base_offset
    assert examine(log, NOW_MS, since=4, settled_before=log.log_end_offset).first_dirty_offset == 4


def test_a_loaded_log_that_may_have_delayed_records_is_neither_cleaned_nor_cut_before_its_partition_is_here(
    tmp_path: Path,
) -> None:
    """A broker may start, and wait for its controller, for longer than the cleaner and retention wait."""
    log = make_log(tmp_path, cleanup_policy="compact,delete", retention_ms=1)
    _segments(log, 3, timestamp=NOW_MS - 100 * HOUR_MS)
    Path(log.directory, DELAYED_CHECKPOINT).touch()
    loaded = reopen(log, is_clean=True)
    assert examine(loaded, NOW_MS).end_offset == 0
    assert loaded.delete_old_segments(NOW_MS) == []
    Path(log.directory, DELAYED_CHECKPOINT).unlink()
    other = reopen(loaded, is_clean=True)
    assert examine(other, NOW_MS).end_offset == 6
    assert len(other.delete_old_segments(NOW_MS)) == 3
