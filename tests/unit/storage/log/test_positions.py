"""The order between the offsets of a log, and what is durable."""

from pathlib import Path

import pytest

from tidelog.storage.log import Positions
from tidelog.storage.log._flushing import FlushState
from tidelog.storage.producers.state import ProducerStateManager


def positions(tmp_path: Path, start: int = 5, end: int = 20) -> Positions:
    return Positions(start, end, ProducerStateManager("topic-0", str(tmp_path)))


@pytest.mark.parametrize(("wanted", "expected"), [(3, 5), (5, 5), (12, 12), (20, 20), (25, 20)])
def test_the_high_watermark_stays_within_the_log(tmp_path: Path, wanted: int, expected: int) -> None:
    log = positions(tmp_path)
    assert log.update_high_watermark(wanted) == log.high_watermark == expected


def test_the_start_moves_forward_only_and_never_above_the_high_watermark(tmp_path: Path) -> None:
    log = positions(tmp_path)
    log.update_high_watermark(10)
    assert (log.move_start(8), log.move_start(8), log.move_start(7), log.log_start_offset) == (True, False, False, 8)
    with pytest.raises(AssertionError, match="above high watermark 10"):
        log.move_start(11)


def test_a_truncation_lowers_everything_above_it_and_counts_as_a_generation(tmp_path: Path) -> None:
    log = positions(tmp_path)
    log.update_high_watermark(15)
    log.mark_clean(12)
    log.truncate(9, 5)
    assert (log.log_end_offset, log.written_end_offset, log.high_watermark, log.clean_point) == (9, 9, 9, 9)
    assert (log.log_start_offset, log.generation) == (5, 1)


def test_an_open_transaction_holds_the_last_stable_offset(tmp_path: Path) -> None:
    log = positions(tmp_path)
    log.update_high_watermark(20)
    assert (log.last_stable_offset, log.first_unstable_offset) == (20, None)
    log._producer_state.ongoing[7] = 1
    assert (log.last_stable_offset, log.first_unstable_offset) == (7, 7)
    log.move_start(9)
    assert log.first_unstable_offset == 9, "records before the start are gone"


def test_flush_messages_decides_which_write_makes_a_flush_due() -> None:
    state = FlushState(recovery_point=10, written_end_offset=10, messages_max=3, now_ms=0, unsynced_paths=[])
    assert state.due_offset == 13
    state.on_flushed(12, 14, now_ms=5)
    assert (state.recovery_point, state.due_offset, state.is_due, state.durable_end_offset) == (12, 15, False, 14)
    state.on_flushed(12, 15, now_ms=None)
    assert (state.is_due, state.durable_end_offset, state.last_flush_ms) == (True, 12, 5)
    state.update_messages_max(10)
    assert state.due_offset == 22


def test_a_truncation_takes_the_recovery_point_along() -> None:
    state = FlushState(recovery_point=10, written_end_offset=12, messages_max=100, now_ms=0, unsynced_paths=[])
    state.on_truncated(4, "/data/topic-0")
    assert (state.recovery_point, state.durable_end_offset, state.due_offset) == (4, 4, 104)
    assert (state.take_unsynced(), state.take_unsynced()) == (["/data/topic-0"], [])
