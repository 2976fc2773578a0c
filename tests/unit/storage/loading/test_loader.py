"""Opening logs: after a clean shutdown as they are, after a crash only what is whole."""

import logging
import os
import shutil
from pathlib import Path

import pytest

from tests.unit.storage._logs import CONFIG, START_MS, a_batch, fill, new_log, reopen, unpack_kafka_directory, values_of
from tidelog.config import LogConfig
from tidelog.records.builder import build_end_transaction_marker
from tidelog.storage.errors import LogDirFailure
from tidelog.storage.loading.loader import Recovery, load_log
from tidelog.storage.log import Log
from tidelog.storage.types import AppendOrigin, StartOffsetReason
from tidelog.timing import ManualClock

SMALL_SEGMENTS = LogConfig(index_interval_bytes=100, segment_index_bytes=4096, segment_bytes=1000)


def crash(log: Log) -> None:
    """The process is gone: what was written is in the files, nothing was closed or trimmed."""
    log.release()


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "topic-0").iterdir())}


# After a clean shutdown


def test_a_closed_log_opens_as_it_was(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 20)
    log.flush()
    log.close()
    opened, recovery = reopen(tmp_path, is_clean=True)
    assert recovery == Recovery()
    assert (opened.log_start_offset, opened.log_end_offset, opened.recovery_point) == (0, 40, 40)
    assert len(values_of(opened)) == 40


def test_an_empty_closed_log_opens_without_reading_anything(tmp_path: Path) -> None:
    new_log(tmp_path).close()
    opened, recovery = reopen(tmp_path, is_clean=True)
    assert recovery == Recovery()
    assert opened.log_end_offset == 0
    fill(opened, 2)
    assert len(values_of(opened)) == 4


def test_a_log_goes_on_after_it_was_opened(tmp_path: Path) -> None:
    for _ in range(3):
        log = reopen(tmp_path, is_clean=True)[0] if (tmp_path / "topic-0").exists() else new_log(tmp_path)
        fill(log, 7)
        log.flush()
        log.close()
    opened, _ = reopen(tmp_path, is_clean=True)
    assert opened.log_end_offset == 42
    assert [value.split(b":")[0] for value in values_of(opened)][::2] == [b"%d" % offset for offset in range(0, 42, 2)]


def test_many_segments_are_opened_in_order(tmp_path: Path) -> None:
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 60)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 5
    log.flush()
    log.close()
    opened, recovery = reopen(tmp_path, is_clean=True, config=SMALL_SEGMENTS)
    assert [segment.base_offset for segment in opened.segments] == bases
    assert recovery == Recovery()
    assert len(values_of(opened)) == 120


def test_a_directory_without_files_becomes_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    opened, _ = reopen(tmp_path, is_clean=True, log_start_offset=7)
    assert (opened.log_start_offset, opened.log_end_offset) == (7, 7)
    assert (tmp_path / "topic-0" / "00000000000000000007.log").exists()


def test_a_clean_log_that_does_not_end_with_a_whole_batch_is_read_after_all(tmp_path: Path) -> None:
    """Trust ends where the next append would be written behind garbage."""
    log = new_log(tmp_path)
    fill(log, 5)
    log.flush()
    log.close()
    with (tmp_path / "topic-0" / "00000000000000000000.log").open("ab") as file:
        file.write(b"garbage")
    opened, recovery = reopen(tmp_path, is_clean=True)
    assert recovery.bytes_cut == 7
    assert opened.log_end_offset == 10


def test_a_log_that_ends_before_its_start_offset_starts_empty_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator deleted segment files: offsets must not be given out a second time."""
    log = new_log(tmp_path)
    fill(log, 5)
    log.close()
    opened, _ = reopen(tmp_path, is_clean=True, log_start_offset=100)
    assert (opened.log_start_offset, opened.log_end_offset) == (100, 100)
    assert "ends at 10, before its start offset 100" in caplog.text


def test_the_start_offset_survives(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 5)
    log.maybe_increment_log_start_offset(3, StartOffsetReason.CLIENT_DELETION)
    log.close()
    opened, _ = reopen(tmp_path, is_clean=True, log_start_offset=3)
    assert opened.log_start_offset == 3


# After a crash


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A log of six batches that was not closed, and where the last batch begins."""
    directory = tmp_path_factory.mktemp("crashed")
    log = new_log(directory)
    fill(log, 5)
    last_begins = log.active_segment.size_bytes
    fill(log, 1)
    crash(log)
    return directory, last_begins


def copy_of(crashed: Path, target: Path) -> Path:
    shutil.copytree(crashed, target, dirs_exist_ok=True)
    return target / "topic-0" / "00000000000000000000.log"


def test_a_torn_tail_is_cut_wherever_it_was_torn(crashed: tuple[Path, int], tmp_path: Path) -> None:
    """At every byte of the last batch: what was acknowledged before it stays, the rest is gone, and appends go on."""
    source, last_begins = crashed
    path = copy_of(source, tmp_path)
    whole = path.read_bytes()
    for size in range(last_begins, len(whole) + 1):
        path.write_bytes(whole[:size])
        opened, recovery = reopen(tmp_path, is_clean=False)
        is_whole = size == len(whole)
        assert opened.log_end_offset == (12 if is_whole else 10), size
        assert recovery.bytes_cut == (0 if is_whole else size - last_begins)
        assert path.stat().st_size == (size if is_whole else last_begins)
    fill(opened, 1)
    assert len(values_of(opened)) == 14


def test_a_flipped_bit_anywhere_in_a_batch_ends_the_log_before_it(crashed: tuple[Path, int], tmp_path: Path) -> None:
    """Base offset and leader epoch are outside of the checksum; a changed offset still shows, as it must follow."""
    source, last_begins = crashed
    path = copy_of(source, tmp_path)
    whole = path.read_bytes()
    for position in range(last_begins, len(whole)):
        if 12 <= position - last_begins < 16:
            continue  # the partition leader epoch
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        opened, recovery = reopen(tmp_path, is_clean=False)
        if position - last_begins < 8:
            assert recovery.bytes_cut in (0, len(whole) - last_begins)  # an offset that was raised leaves a gap
            continue
        assert opened.log_end_offset == 10, position
        assert recovery.bytes_cut == len(whole) - last_begins


def test_what_follows_a_damaged_batch_is_cut_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And said, with counts."""
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    crash(log)
    path = tmp_path / "topic-0" / f"{bases[1]:020d}.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with caplog.at_level(logging.INFO):
        opened, recovery = reopen(tmp_path, is_clean=False, config=SMALL_SEGMENTS)
    assert opened.log_end_offset == bases[2] - 2
    assert recovery.segments == 2
    assert recovery.segments_dropped == len(bases) - 2
    assert sorted(int(path.stem) for path in (tmp_path / "topic-0").glob("*.log")) == bases[:2]
    assert not [path for path in (tmp_path / "topic-0").glob("*.snapshot") if int(path.stem) > bases[1]]
    (record,) = [record for record in caplog.records if "recovered topic-0" in record.message]
    assert record.levelno == logging.WARNING
    assert f"{recovery.bytes_cut} bytes cut off, {recovery.segments_dropped} segments dropped" in record.message
    assert "has checksum" in record.message
    fill(opened, 3)
    assert len(values_of(opened)) == bases[2] - 2 + 6


def test_what_follows_a_gap_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a power failure a file may end anywhere, even between two batches, while a later one is complete."""
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    crash(log)
    os.truncate(tmp_path / "topic-0" / f"{bases[2]:020d}.log", 0)
    opened, recovery = reopen(tmp_path, is_clean=False, config=SMALL_SEGMENTS)
    assert opened.log_end_offset == 60
    assert recovery.segments_dropped == 0
    assert len(values_of(opened)) == 60 - (bases[3] - bases[2])
    assert f"offsets {bases[2]} to {bases[3] - 1} are missing" in caplog.text


def test_gaps_of_a_compacted_topic_are_meant(tmp_path: Path) -> None:
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    crash(log)
    os.truncate(tmp_path / "topic-0" / f"{bases[2]:020d}.log", 0)
    config = LogConfig(segment_index_bytes=4096, segment_bytes=1000, cleanup_policy=("compact",))
    opened, recovery = reopen(tmp_path, is_clean=False, config=config)
    assert opened.log_end_offset == 60
    assert recovery.segments_dropped == 0


def test_flushed_records_that_are_gone_are_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(tmp_path)
    fill(log, 5)
    crash(log)
    opened, _ = reopen(tmp_path, is_clean=False, recovery_point=12)
    assert opened.recovery_point == 10
    assert "up to offset 10: " in caplog.text
    assert "it had been flushed up to offset 12" in caplog.text


def test_segments_below_the_recovery_point_are_not_read(tmp_path: Path) -> None:
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    crash(log)
    opened, recovery = reopen(tmp_path, is_clean=False, config=SMALL_SEGMENTS, recovery_point=bases[-2] + 1)
    assert recovery.segments == 2
    assert opened.log_end_offset == 60
    assert opened.recovery_point == bases[-2] + 1, "what was read may still be in the page cache alone"


def test_indexes_rebuilt_after_a_crash_are_those_of_a_clean_shutdown(tmp_path: Path) -> None:
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    shutil.copytree(tmp_path, tmp_path / "crashed")
    log.flush()
    log.close()
    opened, _ = reopen(tmp_path / "crashed", is_clean=False, config=SMALL_SEGMENTS)
    opened.close()
    expected, found = files_of(tmp_path), files_of(tmp_path / "crashed")
    for name, data in expected.items():
        assert found[name] == data, name


@pytest.mark.parametrize("content", [None, b"", b"x" * 20, b"\0" * 80, b"\xff" * 80], ids=repr)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_or_garbage_index_is_rebuilt(tmp_path: Path, suffix: str, content: bytes | None) -> None:
    """Also after a clean shutdown, and in a segment that is long closed. An empty index is one that may be empty."""
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    log.flush()
    log.close()
    good = files_of(tmp_path)
    path = tmp_path / "topic-0" / f"00000000000000000000{suffix}"
    path.unlink() if content is None else path.write_bytes(content)
    opened, recovery = reopen(tmp_path, is_clean=True, config=SMALL_SEGMENTS)
    assert recovery.indexes_rebuilt == (2 if content != b"" else 0)
    assert opened.log_end_offset == 60
    assert len(values_of(opened)) == 60
    if content != b"":
        assert path.read_bytes() == good[path.name]
    assert recovery.bytes_cut == 0


def test_indexes_without_a_log_file_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(tmp_path)
    fill(log, 3)
    log.close()
    orphans = [
        tmp_path / "topic-0" / f"00000000000000000099{suffix}" for suffix in (".index", ".timeindex", ".txnindex")
    ]
    for orphan in orphans:
        orphan.write_bytes(b"\0" * 8)
    opened, _ = reopen(tmp_path, is_clean=True)
    assert not any(orphan.exists() for orphan in orphans)
    assert caplog.text.count("there is no log file for this index") == 3
    assert opened.log_end_offset == 6


def test_empty_files_after_a_crash_are_an_empty_log(tmp_path: Path) -> None:
    directory = tmp_path / "topic-0"
    directory.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"00000000000000000000{suffix}").touch()
    (directory / "partition.metadata").touch()
    (directory / "leader-epoch-checkpoint").touch()
    opened, _ = reopen(tmp_path, is_clean=False)
    assert opened.log_end_offset == 0
    assert opened.topic_id is None
    fill(opened, 2)
    assert len(values_of(opened)) == 4


def test_a_log_file_of_zeros_is_cut_to_nothing(tmp_path: Path) -> None:
    """A file system may lose the bytes of a file and keep its size."""
    log = new_log(tmp_path)
    fill(log, 3)
    crash(log)
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    path.write_bytes(b"\0" * path.stat().st_size)
    opened, recovery = reopen(tmp_path, is_clean=False)
    assert opened.log_end_offset == 0
    assert recovery.bytes_cut == recovery.bytes_scanned > 0


def test_a_batch_larger_than_the_window_is_checked_too(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=4096, max_message_bytes=8 << 20)
    log = new_log(tmp_path, config)
    values = [os.urandom(1 << 20) for _ in range(3)]
    log.append_as_leader(a_batch(values), 0, START_MS)
    log.write_staged()
    crash(log)
    opened, recovery = reopen(tmp_path, is_clean=False, config=config)
    assert opened.log_end_offset == 3
    assert recovery.bytes_cut == 0
    crash(opened)
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    with path.open("r+b") as file:
        file.seek(2_500_000)
        file.write(b"?")
    opened, recovery = reopen(tmp_path, is_clean=False, config=config)
    assert opened.log_end_offset == 0
    assert recovery.bytes_cut > 3 << 20


# Leftovers


def test_deleted_and_cleaned_leftovers_go(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3)
    log.close()
    leftovers = [
        "00000000000000000000.log.cleaned",
        "00000000000000000000.index.cleaned",
        "00000000000000000007.log.deleted",
        "00000000000000000007.snapshot.deleted",
    ]
    for name in leftovers:
        (tmp_path / "topic-0" / name).write_bytes(b"?")
    opened, _ = reopen(tmp_path, is_clean=True)
    assert not set(leftovers) & set(os.listdir(tmp_path / "topic-0"))
    assert opened.log_end_offset == 6


def segments_merged_into_swap(tmp_path: Path, *, with_index: bool) -> tuple[Path, list[int]]:
    """A log whose first three segments have been compacted into one that was about to take their place."""
    log = new_log(tmp_path, SMALL_SEGMENTS)
    fill(log, 30)
    bases = [segment.base_offset for segment in log.segments]
    log.flush()
    log.close()
    directory = tmp_path / "topic-0"
    kept = b"".join((directory / f"{base:020d}.log").read_bytes() for base in (bases[0], bases[2]))
    (directory / f"{0:020d}.log.swap").write_bytes(kept)
    if with_index:
        for suffix in (".index", ".timeindex"):
            (directory / f"{0:020d}{suffix}.swap").touch()
    return directory, bases


@pytest.mark.parametrize("with_index", [True, False])
def test_a_finished_compaction_takes_the_place_of_its_sources(tmp_path: Path, with_index: bool) -> None:
    directory, bases = segments_merged_into_swap(tmp_path, with_index=with_index)
    opened, _ = reopen(tmp_path, is_clean=True, config=SMALL_SEGMENTS)
    assert [segment.base_offset for segment in opened.segments] == [0, *bases[3:]]
    assert not list(directory.glob("*.swap"))
    assert opened.log_end_offset == 60
    assert len(values_of(opened)) == 60 - (bases[2] - bases[1])


def test_an_unfinished_split_is_undone(tmp_path: Path) -> None:
    """Parts that were ready and parts that were not: nothing may be replaced by half."""
    directory, bases = segments_merged_into_swap(tmp_path, with_index=False)
    (directory / f"{0:020d}.log.cleaned").touch()
    opened, _ = reopen(tmp_path, is_clean=True, config=SMALL_SEGMENTS)
    assert [segment.base_offset for segment in opened.segments] == bases
    assert len(values_of(opened)) == 60


# Producers and epochs


def append_transaction(log: Log, producer_id: int, count: int, *, sequence: int, commit: bool | None) -> None:
    values = [b"%d" % number for number in range(count)]
    batch = a_batch(values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    log.append_as_leader(batch, 0, START_MS)
    if commit is not None:
        marker = build_end_transaction_marker(
            is_commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=1, timestamp=START_MS
        )
        log.append_as_leader(bytearray(marker), 0, START_MS, AppendOrigin.COORDINATOR)
    log.write_staged()


def test_producers_and_transactions_are_rebuilt_after_a_crash(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_transaction(log, 1, 3, sequence=0, commit=True)
    append_transaction(log, 2, 2, sequence=0, commit=False)
    append_transaction(log, 1, 2, sequence=3, commit=None)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    before = {entry.producer_id: entry.snapshot() for entry in log.producer_state.active_producers()}
    assert log.positions.first_unstable_offset == 0, "all is unstable below the high watermark 0"
    crash(log)
    opened, _ = reopen(tmp_path, is_clean=False)
    assert {entry.producer_id: entry.snapshot() for entry in opened.producer_state.active_producers()} == before
    assert opened.aborted_transactions(0, opened.log_end_offset) == aborted
    opened.update_high_watermark(opened.log_end_offset)
    assert opened.positions.first_unstable_offset == 7


def test_producers_come_from_the_snapshot_and_what_follows_it(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_transaction(log, 1, 3, sequence=0, commit=True)
    log.roll(START_MS)
    append_transaction(log, 2, 3, sequence=0, commit=True)
    before = {entry.producer_id: entry.snapshot() for entry in log.producer_state.active_producers()}
    crash(log)
    opened, recovery = reopen(tmp_path, is_clean=False, recovery_point=4)
    assert recovery.segments == 1
    assert {entry.producer_id: entry.snapshot() for entry in opened.producer_state.active_producers()} == before


def test_a_corrupt_snapshot_is_removed_and_the_batches_are_read_instead(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_transaction(log, 1, 3, sequence=0, commit=True)
    log.roll(START_MS)
    append_transaction(log, 2, 3, sequence=0, commit=True)
    log.flush()
    log.close()
    before = {entry.producer_id: entry.snapshot() for entry in log.producer_state.active_producers()}
    snapshots = list((tmp_path / "topic-0").glob("*.snapshot"))
    assert len(snapshots) == 2
    for snapshot in snapshots:
        snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"?")
    opened, _ = reopen(tmp_path, is_clean=True)
    assert {entry.producer_id: entry.snapshot() for entry in opened.producer_state.active_producers()} == before


def test_snapshots_beyond_the_end_of_the_log_are_removed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_transaction(log, 1, 3, sequence=0, commit=True)
    log.flush()
    log.close()
    (tmp_path / "topic-0" / "00000000000000000099.snapshot").write_bytes(b"?")
    opened, _ = reopen(tmp_path, is_clean=False)
    assert opened.log_end_offset == 4
    assert not (tmp_path / "topic-0" / "00000000000000000099.snapshot").exists()


def test_leader_epochs_end_with_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3, leader_epoch=1)
    fill(log, 2, leader_epoch=4)
    log.flush()
    cut_at = log.active_segment.size_bytes // 5 * 3
    crash(log)
    os.truncate(tmp_path / "topic-0" / "00000000000000000000.log", cut_at)
    opened, _ = reopen(tmp_path, is_clean=False)
    assert [tuple(entry) for entry in opened.leader_epochs.entries()] == [(1, 0)]


def test_what_a_crash_left_unsynced_is_synced_before_it_counts_as_durable(tmp_path: Path) -> None:
    """With `flush.messages` it is acknowledged from then on, and a power failure must not take it."""
    log = new_log(tmp_path)
    fill(log, 3)
    crash(log)
    every_message = LogConfig(flush_messages=1)
    opened, _ = reopen(tmp_path, is_clean=False, config=every_message)
    assert opened.flush_state.durable_end_offset == opened.log_end_offset == opened.recovery_point == 6
    crash(opened)
    some = LogConfig(flush_messages=100)
    assert reopen(tmp_path, is_clean=False, config=some)[0].recovery_point == 0


def test_leader_epochs_that_never_reached_the_disk_are_read_from_the_batches(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3, leader_epoch=1)
    fill(log, 2, leader_epoch=4)
    crash(log)
    assert not (tmp_path / "topic-0" / "leader-epoch-checkpoint").exists()
    opened, _ = reopen(tmp_path, is_clean=False)
    assert [tuple(entry) for entry in opened.leader_epochs.entries()] == [(1, 0), (4, 6)]


def test_a_malformed_epoch_checkpoint_is_rebuilt_from_the_batches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(tmp_path)
    fill(log, 3, leader_epoch=1)
    log.flush()
    log.close()
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_bytes(b"0\n2\n1 0\n")
    opened, _ = reopen(tmp_path, is_clean=True)
    assert [tuple(entry) for entry in opened.leader_epochs.entries()] == [(1, 0)]
    assert "claims 2 entries" in caplog.text


# Directories of Apache Kafka, and failing ones


def test_a_log_directory_of_kafka_opens_and_its_records_are_there(tmp_path: Path) -> None:
    directory = unpack_kafka_directory(tmp_path)
    clock = ManualClock(1_794_738_200_000)  # soon after it was written: its producers have not expired

    def load(name: str, *, is_clean: bool) -> tuple[Log, Recovery]:
        topic, _, partition = name.rpartition("-")
        return load_log(str(directory / name), topic, int(partition), CONFIG, clock, is_clean=is_clean)

    plain, recovery = load("plain-0", is_clean=True)
    assert recovery == Recovery()
    assert plain.log_end_offset == 150
    assert len(plain.producer_state.active_producers()) == 5
    assert {value.split()[0] for value in values_of(plain)} == {b"none", b"gzip", b"snappy", b"lz4", b"zstd"}
    small, _ = load("small-seg-0", is_clean=True)
    assert len(small.segments) == 4
    assert len(values_of(small)) == 450
    transactions, _ = load("txn-topic-0", is_clean=True)
    assert len(transactions.aborted_transactions(0, 37)) == 3
    transactions.update_high_watermark(37)
    assert transactions.last_stable_offset == 36, "one transaction was left open"


def test_what_recovery_rebuilds_are_kafkas_own_bytes(tmp_path: Path) -> None:
    """Indexes, transaction indexes and snapshots, rebuilt here from the batches alone."""
    directory = unpack_kafka_directory(tmp_path)
    clock = ManualClock(1_794_738_200_000)
    for name, interval_bytes in (("small-seg-0", 500), ("txn-topic-0", 4096), ("txn-topic-1", 4096)):
        config = LogConfig(index_interval_bytes=interval_bytes)
        kafkas = {path.name: path.read_bytes() for path in (directory / name).iterdir()}
        for path in (directory / name).iterdir():
            if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
                path.unlink()
        topic, _, partition = name.rpartition("-")
        log, _ = load_log(str(directory / name), topic, int(partition), config, clock, is_clean=False)
        log.flush()
        log.close()
        for file_name, data in kafkas.items():
            assert (directory / name / file_name).read_bytes() == data, f"{name}/{file_name}"


def test_a_directory_that_cannot_be_read_fails_as_a_directory(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3)
    crash(log)
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    path.unlink()
    path.mkdir()
    with pytest.raises(LogDirFailure, match=str(tmp_path)):
        reopen(tmp_path, is_clean=False)
    with pytest.raises(LogDirFailure, match=r"Not a directory|No such file"):
        reopen(tmp_path / "nowhere", is_clean=True)
