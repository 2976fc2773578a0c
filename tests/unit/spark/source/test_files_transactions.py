"""Segment files under read_committed: aborted and open transactions are left out, whatever lies beside the log."""

from struct import pack

import pytest

from tests.unit.spark.source.segment_files import batch, marker, read_offsets, splits_of, transactional, write_segment
from tidelog.storage.producers.snapshot import SnapshotEntry, encode_snapshot

UNCOMMITTED = {"kafka__isolation__level": "read_uncommitted"}


def snapshot(*open_transactions):
    return encode_snapshot(
        SnapshotEntry(producer, 0, 1, first, 0, 0, 0, first) for producer, first in open_transactions
    )


@pytest.fixture
def orders(tmp_path):
    """Producer 1 aborts over two segments, producer 2 commits, producer 3 is still at it."""
    directory = tmp_path / "orders-0"
    write_segment(directory, 0, [batch(0, 2), transactional(2, 2, producer_id=1), transactional(4, 2, producer_id=2)])
    write_segment(
        directory,
        6,
        [
            transactional(6, 1, producer_id=1),
            marker(7, producer_id=1, is_commit=False),
            marker(8, producer_id=2, is_commit=True),
            transactional(9, 1, producer_id=1),
            marker(10, producer_id=1, is_commit=True),
            batch(11, 1),
            transactional(12, 2, producer_id=3),
            batch(14, 1),
        ],
    )
    return directory


COMMITTED = [0, 1, 4, 5, 9, 11]


def test_headers_alone_tell(orders):
    assert read_offsets(orders) == COMMITTED
    assert read_offsets(orders, **UNCOMMITTED) == [0, 1, 2, 3, 4, 5, 6, 9, 11, 12, 13, 14]


def test_each_task_is_sent_only_what_concerns_it(orders):
    first, second = splits_of(orders)
    assert [each.producer_id for each in first.aborted] == [1]
    assert [(each.first_offset, each.last_offset) for each in second.aborted] == [(2, 7)]
    assert second.end_offset == 12


def test_a_snapshot_saves_reading_what_is_before_it(orders):
    (orders / f"{6:020d}.snapshot").write_bytes(snapshot((1, 2), (2, 4)))
    assert read_offsets(orders) == COMMITTED


def test_a_snapshot_at_the_end_needs_the_transaction_index(orders):
    (orders / f"{15:020d}.snapshot").write_bytes(snapshot((3, 12)))
    (orders / f"{6:020d}.txnindex").write_bytes(pack(">hqqqq", 0, 1, 2, 7, 4))
    assert read_offsets(orders) == COMMITTED


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (f"{6:020d}.snapshot", b"\x00\x01torn"),
        (f"{6:020d}.txnindex", b"half an entry"),
        (f"{6:020d}.snapshot.deleted", b""),
    ],
)
def test_damaged_files_beside_the_log_are_done_without(orders, name, content):
    if name.endswith(".txnindex"):
        (orders / f"{6:020d}.snapshot").write_bytes(snapshot((1, 2), (2, 4)))
    (orders / name).write_bytes(content)
    assert read_offsets(orders) == COMMITTED


def test_a_transaction_that_spans_windows_and_pieces_is_left_out_whole(tmp_path):
    batches = [transactional(offset, 1, producer_id=1) for offset in range(20)]
    write_segment(
        tmp_path / "orders-0", 0, [*batches, marker(20, producer_id=1, is_commit=False), batch(21, 1)], index=True
    )
    assert read_offsets(tmp_path, maxPartitionBytes=2 * len(batches[0])) == [21]
