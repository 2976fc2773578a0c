"""The first batch of a transaction: appended with a guard that still holds, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.config import LogConfig
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.record import Record
from tidelog.storage.log import Log
from tidelog.storage.producers.verification import OPEN, VerificationGuard, Verifications
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode

NOW = 1_700_000_000_000
PRODUCER = 7
DAY_MS = 86_400_000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    directory = tmp_path / "t-0"
    return Log.create(str(directory), "t", 0, LogConfig(), now_ms=NOW)


def append(log: Log, guard: VerificationGuard | None, *, sequence: int = 0, epoch: int = 0) -> ErrorCode:
    """Append one transactional record."""
    batch = build_batch(
        [Record(0, NOW, None, b"x", ())],
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    try:
        log.append_as_leader(bytearray(batch), 0, NOW, AppendOrigin.CLIENT, guard)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def end(log: Log, *, is_commit: bool = True, epoch: int = 0) -> None:
    marker = build_end_transaction_marker(
        is_commit=is_commit, producer_id=PRODUCER, producer_epoch=epoch, coordinator_epoch=0, timestamp=NOW
    )
    log.append_as_leader(bytearray(marker), 0, NOW, AppendOrigin.COORDINATOR)


def guard_of(log: Log, *, sequence: int = 0, epoch: int = 0) -> VerificationGuard:
    return log.producer_state.begin_verification(PRODUCER, epoch, sequence, NOW)


def test_a_guard_opens_the_transaction_and_later_batches_need_none(log: Log) -> None:
    guard = guard_of(log)
    assert guard is not OPEN
    assert append(log, guard) is ErrorCode.NONE
    assert guard_of(log, sequence=1) is OPEN
    assert append(log, OPEN, sequence=1) is ErrorCode.NONE


def test_without_a_guard_nothing_is_opened(log: Log) -> None:
    assert append(log, OPEN) is ErrorCode.INVALID_TXN_STATE
    assert log.log_end_offset == 0


def test_a_marker_in_between_takes_the_guard_away(log: Log) -> None:
    """The coordinator's answer was true when it was given; by now the transaction has been aborted."""
    guard = guard_of(log)
    end(log, is_commit=False)
    assert append(log, guard) is ErrorCode.INVALID_TXN_STATE


def test_a_guard_from_before_a_marker_is_not_good_for_the_next_transaction(log: Log) -> None:
    """Verified, aborted, begun again: the late answer must not pass for the new transaction's."""
    stale = guard_of(log)
    end(log, is_commit=False)
    fresh = guard_of(log)
    assert append(log, stale) is ErrorCode.INVALID_TXN_STATE
    assert append(log, fresh) is ErrorCode.NONE


def test_a_batch_of_an_open_transaction_is_refused_once_it_has_ended(log: Log) -> None:
    append(log, guard_of(log))
    assert guard_of(log, sequence=1) is OPEN
    end(log)
    assert append(log, OPEN, sequence=1) is ErrorCode.INVALID_TXN_STATE


def test_requests_that_ask_at_the_same_time_share_a_guard(log: Log) -> None:
    first, second = guard_of(log), guard_of(log, sequence=1)
    assert first is second
    assert append(log, first) is ErrorCode.NONE
    assert append(log, second, sequence=1) is ErrorCode.NONE


def test_the_second_of_them_may_not_come_first(log: Log) -> None:
    """A log that does not know the producer takes any sequence, so the guard must remember which comes first."""
    guard = guard_of(log)
    guard_of(log, sequence=1)
    assert append(log, guard, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, guard) is ErrorCode.NONE
    assert append(log, guard, sequence=1) is ErrorCode.NONE


def test_an_open_transaction_of_an_earlier_epoch_is_not_this_ones(log: Log) -> None:
    append(log, guard_of(log))
    assert guard_of(log, epoch=1) is not OPEN


def test_a_batch_that_is_sent_again_needs_no_guard(log: Log) -> None:
    append(log, guard_of(log))
    end(log)
    assert append(log, OPEN) is ErrorCode.NONE, "it is known and there is nothing to append"
    assert log.log_end_offset == 2


def test_without_verification_everything_goes(log: Log) -> None:
    assert append(log, None) is ErrorCode.NONE


def test_guards_that_were_never_used_are_forgotten(log: Log) -> None:
    guard = guard_of(log)
    log.producer_state.remove_expired(NOW + DAY_MS)
    assert len(log.producer_state.verifications) == 0
    assert append(log, guard) is ErrorCode.INVALID_TXN_STATE


def test_a_truncated_log_gives_no_credit(log: Log) -> None:
    guard = guard_of(log)
    log.truncate_fully_and_start_at(10, NOW)
    assert append(log, guard) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(("lowest", "sequence", "is_overtaken"), [
    (0, 0, False),
    (0, 1, True),
    (5, 4, False),
    (2**31 - 1, 0, True),
    (0, 2**31 - 1, False),
    (-1, -1, False),
])  # fmt: skip
def test_sequences_wrap_around(lowest: int, sequence: int, is_overtaken: bool) -> None:
    assert VerificationGuard(0, lowest, NOW).is_overtaken(sequence) is is_overtaken


def test_the_lowest_sequence_is_that_of_the_latest_epoch() -> None:
    guards = Verifications()
    guard = guards.begin(PRODUCER, 0, 9, NOW)
    guards.begin(PRODUCER, 1, 4, NOW)
    assert guard.lowest_sequence == 4
    guards.begin(PRODUCER, 0, 1, NOW)
    assert guard.lowest_sequence == 4, "an earlier epoch has no say"
    guards.begin(PRODUCER, 1, 3, NOW)
    assert guard.lowest_sequence == 3
