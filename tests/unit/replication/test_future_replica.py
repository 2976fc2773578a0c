"""A replica that moves to another log directory: its copy follows the log through growth, truncation and deletion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.storage.logs import batch, marker, read_values
from tidelog.config import LogConfig
from tidelog.replication.future_replica import FutureReplica, common_end
from tidelog.replication.partition import Partition
from tidelog.storage.log import Log
from tidelog.storage.types import AppendOrigin, StartOffsetReason

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig()


class Mover:
    """A partition on one broker and the copy of its log."""

    def __init__(self, directory: Path) -> None:
        (directory / "one").mkdir()
        (directory / "two").mkdir()
        self.directory = directory
        self.log = Log.create(str(directory / "one" / "topic-0"), "topic", 0, CONFIG, NOW_MS)
        self.partition = Partition("topic", 0, bytes(16), self.log, 1)
        self.epoch = 0
        self.partition.make_leader(0, (1,), (1,))
        self.copy = self.new_copy()
        self.replica = FutureReplica(self.partition, self.copy, is_resumed=False)

    def new_copy(self) -> Log:
        path = self.directory / "two" / "topic-0.0123456789abcdef-future"
        return Log.create(str(path), "topic", 0, CONFIG, NOW_MS, start_offset=self.log.log_start_offset)

    def produce(self, *values: bytes) -> None:
        self.log.append_as_leader(batch(*values), self.epoch, NOW_MS)
        self.log.write_staged()
        self.log.update_high_watermark(self.log.log_end_offset)

    def copy_piece(self, bytes_max: int = 1) -> bool:
        """One round, of one batch unless more is asked for; False if there is nothing to copy."""
        self.replica.align(NOW_MS)
        piece = self.replica.next_piece(bytes_max)
        return piece is not None and self.replica.append(piece, piece.slice.read(), NOW_MS)

    def copy_all(self) -> None:
        while self.copy_piece():
            pass

    def close(self) -> None:
        self.log.close()
        self.copy.close()


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    world = Mover(tmp_path)
    yield world
    world.close()


def test_a_copy_grows_until_it_is_as_long_as_the_log(mover: Mover) -> None:
    for value in (b"a", b"b", b"c"):
        mover.produce(value)
    assert mover.copy_piece()
    assert not mover.replica.is_caught_up
    mover.produce(b"d")
    mover.copy_all()
    assert mover.replica.is_caught_up
    assert read_values(mover.copy, 0) == [b"a", b"b", b"c", b"d"]
    assert mover.copy.high_watermark == 4


def test_what_is_staged_is_not_copied_before_it_is_written(mover: Mover) -> None:
    mover.produce(b"a")
    mover.log.append_as_leader(batch(b"b"), 0, NOW_MS)
    mover.copy_all()
    assert mover.copy.log_end_offset == 1
    assert not mover.replica.is_caught_up
    mover.log.write_staged()
    mover.copy_all()
    assert mover.replica.is_caught_up


def test_a_piece_that_was_read_before_a_truncation_is_dropped(mover: Mover) -> None:
    mover.produce(b"a")
    mover.produce(b"b")
    mover.copy_piece()
    piece = mover.replica.next_piece(1)
    assert piece is not None
    mover.log.truncate_to(1, NOW_MS)
    mover.epoch = 1
    mover.produce(b"other")
    assert not mover.replica.append(piece, piece.slice.read(), NOW_MS)
    mover.copy_all()
    assert read_values(mover.copy, 0) == [b"a", b"other"]


def test_a_truncated_log_takes_the_copy_back_although_it_is_longer_again(mover: Mover) -> None:
    for value in (b"a", b"b", b"c"):
        mover.produce(value)
    mover.copy_all()
    mover.log.truncate_to(1, NOW_MS)
    mover.epoch = 2
    for value in (b"x", b"y", b"z"):
        mover.produce(value)
    mover.copy_all()
    assert mover.replica.is_caught_up
    assert read_values(mover.copy, 0) == read_values(mover.log, 0) == [b"a", b"x", b"y", b"z"]
    assert mover.copy.leader_epochs.entries() == mover.log.leader_epochs.entries()


def test_a_resumed_copy_is_compared_first(mover: Mover) -> None:
    """The log may have been truncated by a start that came before: then the copy has what the log has lost."""
    for value in (b"a", b"b"):
        mover.produce(value)
    mover.copy_all()
    mover.log.truncate_to(1, NOW_MS)
    mover.epoch = 5
    mover.produce(b"c")
    mover.replica = FutureReplica(mover.partition, mover.copy, is_resumed=True)
    mover.copy_all()
    assert read_values(mover.copy, 0) == [b"a", b"c"]


@pytest.mark.parametrize(
    ("log_epochs", "copy_epochs", "copy_end", "common"),
    [
        ([(0, 0)], [(0, 0)], 4, 4),
        ([(0, 0), (1, 2)], [(0, 0)], 4, 2),
        ([(0, 0)], [(0, 0), (1, 2)], 4, 2),
        ([(0, 0), (2, 3)], [(0, 0), (1, 2)], 4, 2),
        ([(1, 0)], [(0, 0)], 4, 0),
        ([(0, 0)], [], 4, 0),
        ([(0, 0)], [], 0, 0),
    ],
)
def test_a_copy_leaves_its_log_where_their_epochs_part(
    mover: Mover,
    log_epochs: list[tuple[int, int]],
    copy_epochs: list[tuple[int, int]],
    copy_end: int,
    common: int,
) -> None:
    for log, epochs, end in ((mover.log, log_epochs, 10), (mover.copy, copy_epochs, copy_end)):
        for number in range(end):
            log.append_as_leader(batch(b"%d" % number), 0, NOW_MS)
        log.write_staged()
        log.leader_epochs.clear()
        for entry in epochs:
            log.leader_epochs.assign(*entry)
    assert common_end(mover.log, mover.copy) == common


def test_records_that_are_deleted_before_they_were_copied_are_left_out(mover: Mover) -> None:
    for value in (b"a", b"b", b"c", b"d"):
        mover.produce(value)
    mover.copy_piece()
    mover.log.maybe_increment_log_start_offset(3, StartOffsetReason.CLIENT_DELETION)
    mover.copy_all()
    assert mover.copy.log_start_offset == 3
    assert read_values(mover.copy, 3) == [b"d"]
    assert mover.replica.is_caught_up


def test_a_log_that_begins_within_a_batch_is_copied_with_the_whole_batch(tmp_path: Path) -> None:
    mover = Mover(tmp_path)
    mover.produce(b"a", b"b", b"c")
    mover.log.maybe_increment_log_start_offset(2, StartOffsetReason.CLIENT_DELETION)
    mover.copy_all()
    assert (mover.copy.log_start_offset, mover.copy.log_end_offset) == (2, 3)
    assert read_values(mover.copy, 2)[-1] == b"c"
    mover.close()


def test_the_copy_takes_over_what_batches_do_not_tell(mover: Mover) -> None:
    """An epoch without a batch, producers whose batches were deleted, a transaction that is being verified."""
    log = mover.log
    log.append_as_leader(batch(b"old", producer_id=7), 0, NOW_MS)
    mover.produce(b"a")
    log.maybe_increment_log_start_offset(1, StartOffsetReason.CLIENT_DELETION)
    guard = log.producer_state.begin_verification(9, 0, 0, NOW_MS)
    log.leader_epochs.assign(4, log.log_end_offset)
    mover.copy.truncate_fully_and_start_at(1, NOW_MS)
    mover.copy_all()
    mover.replica.hand_over()
    copy = mover.copy
    assert 7 in copy.producer_state.producers
    assert copy.producer_state.is_verified(9, 0, guard)
    assert copy.leader_epochs.latest_epoch == 4
    assert (copy.log_start_offset, copy.high_watermark) == (log.log_start_offset, log.high_watermark)


def test_open_and_aborted_transactions_are_in_the_copy(mover: Mover) -> None:
    log = mover.log
    log.append_as_leader(batch(b"aborted", producer_id=1, is_transactional=True), 0, NOW_MS)
    log.append_as_leader(marker(1, is_commit=False), 0, NOW_MS, AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(b"open", producer_id=2, is_transactional=True), 0, NOW_MS)
    log.write_staged()
    log.update_high_watermark(log.log_end_offset)
    mover.copy_all()
    mover.replica.hand_over()
    assert mover.copy.last_stable_offset == log.last_stable_offset == 2
    assert mover.copy.aborted_transactions(0, 3) == log.aborted_transactions(0, 3) != []


def test_a_log_that_is_copied_is_not_cleaned_and_clean_parts_stay_so(mover: Mover) -> None:
    mover.log.positions.mark_clean(1)
    replica = FutureReplica(mover.partition, mover.copy, is_resumed=False)
    assert mover.log.is_being_copied
    mover.produce(b"a")
    mover.copy_all()
    replica.hand_over()
    assert mover.copy.positions.clean_point == 1
    replica.end()
    assert not mover.log.is_being_copied
    resumed = FutureReplica(mover.partition, mover.copy, is_resumed=True)
    resumed.hand_over()
    assert mover.copy.positions.clean_point == -1, "what was cleaned after it was copied is not known"
