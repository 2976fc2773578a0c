"""Producers: order, duplicates, fencing, transactions, snapshots."""

import struct
from pathlib import Path

import pytest

from tests.unit.storage.logs import NOW_MS, batch, marker
from tidelog.records.checksum import crc32c
from tidelog.records.header import BatchHeader, read_header
from tidelog.storage.errors import CorruptSnapshotError
from tidelog.storage.producers.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot, read_snapshot
from tidelog.storage.producers.state import CompletedTransaction, ProducerStateManager
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode

PRODUCER = 41
MAX_SEQUENCE = 2**31 - 1


@pytest.fixture
def state(tmp_path: Path) -> ProducerStateManager:
    return ProducerStateManager("topic-0", str(tmp_path), expiration_ms=1000)


def header_of(sequence: int, count: int = 1, epoch: int = 0, *, is_transactional: bool = False) -> BatchHeader:
    values = [b"v"] * count
    records = batch(
        *values, producer_id=PRODUCER, producer_epoch=epoch, sequence=sequence, is_transactional=is_transactional
    )
    return read_header(records)


def write(
    state: ProducerStateManager, offset: int, header: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT
) -> None:
    assert state.check(header, origin) is None
    state.update(header, offset)
    state.map_end_offset = offset + header.record_count


def refused(state: ProducerStateManager, header: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        state.check(header, origin)
    return raised.value.code


def test_batches_in_sequence_are_accepted(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0, 3))
    write(state, 3, header_of(3, 2))
    entry = state.producers[PRODUCER]
    assert (entry.last_sequence, entry.last_offset, entry.producer_epoch) == (4, 4, 0)


def test_a_gap_and_an_old_batch_are_out_of_order(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0))
    assert refused(state, header_of(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for number in range(1, 7):
        write(state, number, header_of(number))
    assert refused(state, header_of(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_start_anywhere(state: ProducerStateManager) -> None:
    """Its state may have expired, or gone with deleted records (KIP-360)."""
    write(state, 0, header_of(17))
    assert state.producers[PRODUCER].last_sequence == 17


def test_the_last_five_batches_are_known_duplicates(state: ProducerStateManager) -> None:
    for number in range(6):
        write(state, number * 2, header_of(number * 2, 2))
    for number in range(1, 6):
        duplicate = state.check(header_of(number * 2, 2), AppendOrigin.CLIENT)
        assert duplicate is not None
        assert (duplicate.first_offset, duplicate.last_offset) == (number * 2, number * 2 + 1)
    assert refused(state, header_of(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_part_of_a_batch_is_no_duplicate(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0, 3))
    assert refused(state, header_of(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero(state: ProducerStateManager) -> None:
    write(state, 0, header_of(MAX_SEQUENCE - 1, 2))
    write(state, 2, header_of(0))
    write(state, 3, header_of(1))
    other = ProducerStateManager("topic-0", state.directory)
    write(other, 0, header_of(MAX_SEQUENCE, 3))
    assert other.producers[PRODUCER].last_sequence == 1
    write(other, 3, header_of(2))


def test_a_new_epoch_starts_at_sequence_zero(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0))
    write(state, 1, header_of(1))
    assert refused(state, header_of(2, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    write(state, 2, header_of(0, epoch=1))
    assert state.check(header_of(0, epoch=1), AppendOrigin.CLIENT) is not None
    assert refused(state, header_of(2, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_coordinators_write_without_sequences_but_are_fenced(state: ProducerStateManager) -> None:
    """Offset commits in a transaction carry an epoch and no sequence."""
    commit = header_of(0, epoch=5)._replace(base_sequence=-1)
    write(state, 0, commit, AppendOrigin.COORDINATOR)
    write(state, 1, commit, AppendOrigin.COORDINATOR)
    old = commit._replace(producer_epoch=4)
    assert refused(state, old, AppendOrigin.COORDINATOR) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(old, AppendOrigin.REPLICATION) is None


def end(state: ProducerStateManager, offset: int, *, is_commit: bool) -> CompletedTransaction | None:
    header = read_header(marker(PRODUCER, is_commit=is_commit))
    return state.end_transaction(header, offset, NOW_MS, 3, is_commit=is_commit)


def test_a_transaction_is_unstable_until_its_marker_is_committed(state: ProducerStateManager) -> None:
    write(state, 10, header_of(0, is_transactional=True))
    write(state, 11, header_of(1, is_transactional=True))
    assert state.first_unstable_offset() == 10
    completed = end(state, 12, is_commit=False)
    assert completed == CompletedTransaction(PRODUCER, 10, 12, True)
    assert state.last_stable_offset(completed) == 13
    state.complete(completed)
    assert not state.ongoing
    assert state.first_unstable_offset() == 10
    state.on_high_watermark(12)
    assert state.first_unstable_offset() == 10
    state.on_high_watermark(13)
    assert state.first_unstable_offset() is None


def test_a_marker_without_data_ends_nothing(state: ProducerStateManager) -> None:
    assert end(state, 0, is_commit=True) is None
    assert state.producers[PRODUCER].coordinator_epoch == 3


def test_writes_outside_an_open_transaction_are_refused(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0, is_transactional=True))
    assert refused(state, header_of(1)) == ErrorCode.INVALID_TXN_STATE


def test_markers_of_a_replaced_coordinator_are_fenced(state: ProducerStateManager) -> None:
    end(state, 0, is_commit=True)
    header = read_header(marker(PRODUCER, is_commit=True))
    state.check_marker(header, 3, AppendOrigin.COORDINATOR)
    state.check_marker(header, 2, AppendOrigin.REPLICATION)
    with pytest.raises(ApiError) as raised:
        state.check_marker(header, 2, AppendOrigin.COORDINATOR)
    assert raised.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_idle_producers_expire_unless_their_transaction_is_open(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0))
    assert state.remove_expired(NOW_MS + 999) == 0
    assert state.remove_expired(NOW_MS + 1000) == 1
    write(state, 1, header_of(5, is_transactional=True))
    assert state.remove_expired(NOW_MS + 10_000) == 0


def test_the_snapshot_is_kafkas_bytes(state: ProducerStateManager) -> None:
    write(state, 7, header_of(4, 3, epoch=2))
    path = state.take_snapshot()
    assert path is not None
    assert path.endswith("/00000000000000000010.snapshot")
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", PRODUCER, 2, 6, 9, 2, NOW_MS, -1, -1)
    assert Path(path).read_bytes() == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_is_taken_once_for_an_offset(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0))
    assert state.take_snapshot() is not None
    assert state.take_snapshot() is None
    assert state.snapshot_offsets() == [1]


def test_a_restart_remembers_the_last_batch(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0, 2))
    write(state, 2, header_of(2, 2, is_transactional=True))
    state.take_snapshot()
    again = ProducerStateManager("topic-0", state.directory)
    again.truncate_and_reload(0, 4, NOW_MS)
    assert again.map_end_offset == 4
    assert again.first_unstable_offset() == 2
    duplicate = again.check(header_of(2, 2, is_transactional=True), AppendOrigin.CLIENT)
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (2, 3)
    write(again, 4, header_of(4, is_transactional=True))


def test_producers_that_expired_meanwhile_are_not_loaded(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0))
    state.take_snapshot()
    again = ProducerStateManager("topic-0", state.directory, expiration_ms=1000)
    again.truncate_and_reload(0, 1, NOW_MS + 1000)
    assert again.producers == {}


def test_a_snapshot_that_cannot_be_read_gives_way_to_an_older_one(state: ProducerStateManager) -> None:
    write(state, 0, header_of(0))
    state.take_snapshot()
    write(state, 1, header_of(1))
    path = state.take_snapshot()
    assert path is not None
    Path(path).write_bytes(Path(path).read_bytes()[:-1] + b"\x07")
    again = ProducerStateManager("topic-0", state.directory)
    again.truncate_and_reload(0, 5, NOW_MS)
    assert again.map_end_offset == 1
    assert again.producers[PRODUCER].last_sequence == 0
    assert not Path(path).exists()


def test_truncation_drops_snapshots_outside_the_log(state: ProducerStateManager) -> None:
    for offset in range(5):
        write(state, offset, header_of(offset))
        state.take_snapshot()
    state.truncate_and_reload(1, 3, NOW_MS)
    assert state.snapshot_offsets() == [2, 3]
    assert state.producers[PRODUCER].last_sequence == 2
    state.truncate_fully_and_start_at(100)
    assert (state.snapshot_offsets(), state.map_end_offset, state.producers) == ([], 100, {})
    assert list(Path(state.directory).iterdir()) == []


def test_stray_snapshots_go_but_not_that_of_a_clean_shutdown(state: ProducerStateManager) -> None:
    for offset in range(6):
        write(state, offset, header_of(offset))
        state.take_snapshot()
    state.remove_stray_snapshots({2, 4})
    assert state.snapshot_offsets() == [2, 4, 6]
    state.remove_stray_snapshots({2, 8})
    assert state.snapshot_offsets() == [2]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: data[:5], "only 5 bytes"),
        (lambda data: b"\x00\x02" + data[2:], "unknown version 2"),
        (lambda data: data[:-1] + b"\x01", "checksum"),
        (lambda data: data[:6], "only 6 bytes"),
    ],
)
def test_a_damaged_snapshot_is_refused(damage: object, problem: str) -> None:
    data = encode_snapshot([SnapshotEntry(1, 0, 5, 9, 0, NOW_MS, -1, -1)])
    with pytest.raises(CorruptSnapshotError, match=problem):
        decode_snapshot(damage(data), "x.snapshot")  # type: ignore[operator]


def test_a_snapshot_with_a_false_count_is_refused() -> None:
    body = struct.pack(">i", 5)
    with pytest.raises(CorruptSnapshotError, match="claims 5 producers"):
        decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body, "x.snapshot")


def test_a_snapshot_without_producers_is_written_too(state: ProducerStateManager) -> None:
    state.map_end_offset = 12
    path = state.take_snapshot()
    assert path is not None
    assert len(Path(path).read_bytes()) == 10
    assert read_snapshot(path) == []
