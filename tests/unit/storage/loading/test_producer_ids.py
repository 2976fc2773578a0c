"""Ids are found wherever the files hold them: in memory, in any snapshot, or in batches that no snapshot covers."""

from pathlib import Path

from tests.unit.storage._logs import START_MS, a_batch, new_log
from tidelog.storage.loading.producer_ids import largest_active_producer_id, largest_producer_id
from tidelog.storage.log import Log


def write(log: Log, producer_id: int) -> None:
    batch = a_batch([b"value"], producer_id=producer_id, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, 0, START_MS)
    log.write_staged()


def test_a_log_without_producers_knows_no_id(tmp_path: Path) -> None:
    assert largest_producer_id(new_log(tmp_path)) == -1


def test_an_id_in_memory_counts(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 7)
    write(log, 3)
    assert largest_active_producer_id(log) == 7
    assert largest_producer_id(log) == 7


def test_a_producer_that_has_expired_is_found_in_an_older_snapshot(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 9)
    log.roll(START_MS)
    log.producer_state.producers.clear()
    write(log, 4)
    assert largest_active_producer_id(log) == 4
    assert largest_producer_id(log) == 9


def test_segments_without_a_snapshot_behind_them_are_walked(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 9)
    log.roll(START_MS)
    write(log, 11)
    log.roll(START_MS)
    log.producer_state.producers.clear()
    for offset in log.producer_state.snapshot_offsets():
        log.producer_state.remove_snapshot(offset)
    assert largest_producer_id(log) == 11


def test_a_damaged_snapshot_covers_nothing(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    write(log, 9)
    log.roll(START_MS)
    log.producer_state.producers.clear()
    (offset,) = log.producer_state.snapshot_offsets()
    Path(log.producer_state.snapshot_path(offset)).write_bytes(b"nonsense")
    assert largest_producer_id(log) == 9
