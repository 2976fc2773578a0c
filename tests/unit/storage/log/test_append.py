"""Appending to a log: offsets, refusals, duplicates, staging."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.logs import (
    EPOCH,
    NOW_MS,
    append,
    append_marker,
    batch,
    make_log,
    read_records,
    read_values,
)
from tidelog.config import LogConfig
from tidelog.records.batch import iterate_batches
from tidelog.records.builder import build_batch
from tidelog.records.checksum import crc32c
from tidelog.records.compression import Codec
from tidelog.records.errors import InvalidRecordError, InvalidTimestampError
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.storage.errors import AppendOffsetError, LogDirFailure
from tidelog.storage.leader_epochs import EpochEntry
from tidelog.storage.log import Log
from tidelog.storage.segment.transaction_index import AbortedTransaction
from tidelog.storage.types import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode

KEY = b"k"


def refused(log: Log, records: bytearray, **options: Any) -> ErrorCode:
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(ApiError) as raised:
        log.append_as_leader(records, EPOCH, NOW_MS, **options)
    assert (log.log_end_offset, log.size_bytes) == before
    return raised.value.code


def invalid(log: Log, records: bytearray, kind: type[InvalidRecordError] = InvalidRecordError) -> InvalidRecordError:
    with pytest.raises(kind) as raised:
        log.append_as_leader(records, EPOCH, NOW_MS)
    assert not log.has_staged
    return raised.value


def test_offsets_are_assigned_in_place_and_said(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a", b"b")
    records = batch(b"c", b"d", b"e", timestamps=[5, 9, 7])
    info = log.append_as_leader(records, EPOCH, NOW_MS)
    assert (info.first_offset, info.last_offset, info.record_count) == (2, 4, 3)
    assert (info.max_timestamp, info.log_append_time_ms, info.is_duplicate) == (9, -1, False)
    assert info.size_bytes == len(records)
    header = read_header(records)
    assert (header.base_offset, header.partition_leader_epoch) == (2, EPOCH)
    assert log.log_end_offset == 5


def test_staged_batches_are_written_together(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    path = Path(log.active_segment.log_file.path)
    for value in (b"a", b"b", b"c"):
        log.append_as_leader(batch(value), EPOCH, NOW_MS)
    assert path.read_bytes() == b""
    assert (log.log_end_offset, log.written_end_offset, log.has_staged) == (3, 0, True)
    assert log.read(0, 1000, 3, True).slice is None
    log.write_staged()
    assert (log.log_end_offset, log.written_end_offset, log.has_staged) == (3, 3, False)
    assert path.stat().st_size == log.size_bytes
    assert read_values(log, 0) == [b"a", b"b", b"c"]


def test_thousands_of_staged_batches_go_out(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(2500):
        log.append_as_leader(batch(b"%d" % number), EPOCH, NOW_MS)
    log.write_staged()
    assert read_values(log, 0) == [b"%d" % number for number in range(2500)]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_are_stored_as_they_came(tmp_path: Path, codec: Codec) -> None:
    log = make_log(tmp_path)
    records = batch(b"a" * 100, b"b" * 100, codec=codec)
    kept = bytes(records[17:])
    log.append_as_leader(records, EPOCH, NOW_MS)
    log.write_staged()
    assert Path(log.active_segment.log_file.path).read_bytes()[17:] == kept
    assert read_values(log, 0) == [b"a" * 100, b"b" * 100]


def test_a_damaged_batch_is_corrupt(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    records = batch(b"value")
    records[-1] ^= 1
    assert refused(log, records) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_larger_than_allowed_is_too_large(tmp_path: Path) -> None:
    log = make_log(tmp_path, max_message_bytes=200)
    assert refused(log, batch(b"x" * 200)) == ErrorCode.MESSAGE_TOO_LARGE
    append(log, b"x" * 100)


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=150)
    assert refused(log, batch(b"x" * 200)) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_an_unknown_codec_is_unsupported(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    records = batch(b"value")
    records[22] |= 6
    records[17:21] = checksum(records)
    assert refused(log, records) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def checksum(records: bytearray) -> bytes:
    return crc32c(bytes(records[21:])).to_bytes(4, "big")


@pytest.mark.parametrize(
    ("position", "value", "size"),
    [(0, 5, 8), (23, 7, 4), (57, 2, 4), (57, 0, 4), (53, 2**32 - 1, 4)],
    ids=["base offset", "last offset delta", "count", "no records", "sequence of a producer"],
)
def test_a_header_that_contradicts_itself_is_invalid(tmp_path: Path, position: int, value: int, size: int) -> None:
    log = make_log(tmp_path)
    records = batch(b"value", producer_id=4)
    records[position : position + size] = value.to_bytes(size, "big")
    records[17:21] = checksum(records)
    invalid(log, records)


def test_clients_may_not_write_control_batches(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    records = batch(b"value")
    records[22] |= 0x20
    records[17:21] = checksum(records)
    invalid(log, records)


def test_timestamps_out_of_range_are_refused(tmp_path: Path) -> None:
    log = make_log(tmp_path, message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=1000)
    append(log, b"a", timestamps=[NOW_MS + 1000])
    append(log, b"a", timestamps=[NOW_MS - 1000])
    invalid(log, batch(b"a", timestamps=[NOW_MS + 1001]), InvalidTimestampError)
    error = invalid(log, batch(b"a", b"b", timestamps=[NOW_MS, NOW_MS - 1001]), InvalidTimestampError)
    assert [index for index, _ in error.record_errors] == [1]


def test_log_append_time_is_the_brokers(tmp_path: Path) -> None:
    log = make_log(tmp_path, message_timestamp_type="LogAppendTime")
    info = append(log, b"a", b"b", timestamps=[1, 2], now_ms=NOW_MS + 7)
    assert (info.log_append_time_ms, info.max_timestamp) == (NOW_MS + 7, NOW_MS + 7)
    assert [record.timestamp for record in read_records(log, 0)] == [NOW_MS + 7] * 2


def test_compacted_topics_need_keys(tmp_path: Path) -> None:
    log = make_log(tmp_path, cleanup_policy=("compact",))
    invalid(log, batch(b"value"))
    log.append_as_leader(bytearray(build_batch([Record(0, NOW_MS, KEY, b"value")])), EPOCH, NOW_MS)
    log.write_staged()
    assert read_values(log, 0) == [b"value"]


def test_the_topics_codec_replaces_the_producers(tmp_path: Path) -> None:
    log = make_log(tmp_path, compression_type="zstd")
    append(log, b"a" * 500, b"b" * 500, codec=Codec.GZIP)
    data = Path(log.active_segment.log_file.path).read_bytes()
    [(_, header)] = list(iterate_batches(data))
    assert header.codec is Codec.ZSTD
    assert read_values(log, 0) == [b"a" * 500, b"b" * 500]


def test_too_short_to_be_a_batch(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    invalid(log, bytearray(10))


def test_a_retry_gets_the_offsets_of_the_first_time(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for number in range(6):
        append(log, b"a", b"b", producer_id=9, sequence=number * 2)
    size = log.size_bytes
    info = append(log, b"a", b"b", producer_id=9, sequence=4)
    assert (info.first_offset, info.last_offset, info.is_duplicate) == (4, 5, True)
    assert (log.log_end_offset, log.size_bytes) == (12, size)
    assert refused(log, batch(b"a", b"b", producer_id=9, sequence=0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_of_what_is_only_staged_is_a_duplicate_too(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    log.append_as_leader(batch(b"a", producer_id=9, sequence=0), EPOCH, NOW_MS)
    info = log.append_as_leader(batch(b"a", producer_id=9, sequence=0), EPOCH, NOW_MS)
    assert info.is_duplicate
    log.write_staged()
    assert read_values(log, 0) == [b"a"]


def test_gaps_and_old_epochs_of_a_producer_are_refused(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"a", producer_id=9, producer_epoch=2, sequence=0)
    gap = batch(b"c", producer_id=9, producer_epoch=2, sequence=2)
    assert refused(log, gap) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    old = batch(b"b", producer_id=9, producer_epoch=1, sequence=1)
    assert refused(log, old) == ErrorCode.INVALID_PRODUCER_EPOCH
    append(log, b"b", producer_id=9, producer_epoch=2, sequence=1)


def test_leader_epochs_are_noted_with_their_first_offset(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    log.append_as_leader(batch(b"a"), 1, NOW_MS)
    log.append_as_leader(batch(b"b", b"c"), 1, NOW_MS)
    log.append_as_leader(batch(b"d"), 4, NOW_MS)
    assert log.leader_epochs.entries() == (EpochEntry(1, 0), EpochEntry(4, 3))
    assert log.end_offset_for_epoch(2) == (1, 3)
    assert log.end_offset_for_epoch(4) == (4, 4)


def test_an_aborted_transaction_is_indexed_and_the_stable_offset_waits(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"plain")
    append(log, b"a", producer_id=7, sequence=0, is_transactional=True)
    append(log, b"b", producer_id=8, sequence=0, is_transactional=True)
    log.update_high_watermark(3)
    assert (log.last_stable_offset, log.positions.first_unstable_offset) == (1, 1)
    append_marker(log, 7, is_commit=False)
    append_marker(log, 8, is_commit=True)
    assert log.last_stable_offset == 1
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    assert log.aborted_transactions(0, 5) == [AbortedTransaction(7, 1, 3, 2)]
    assert log.aborted_transactions(4, 5) == []


def test_a_failed_write_is_final_and_nothing_staged_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the failure and the directory going offline no append may slip in behind the hole."""
    log = make_log(tmp_path)
    append(log, b"a")
    log.append_as_leader(batch(b"b"), EPOCH, NOW_MS)

    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_space)
        with pytest.raises(LogDirFailure, match="No space left") as raised:
            log.write_staged()
    assert raised.value.directory == str(tmp_path)
    assert (log.written_end_offset, log.has_staged) == (1, False)
    with pytest.raises(LogDirFailure):
        log.append_as_leader(batch(b"c"), EPOCH, NOW_MS)
    with pytest.raises(LogDirFailure):
        log.write_staged()
    log.update_config(LogConfig())
    with pytest.raises(LogDirFailure):
        log.append_as_leader(batch(b"c"), EPOCH, NOW_MS)


def test_a_full_disk_while_indexing_is_a_failure_not_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(tmp_path, index_interval_bytes=0)
    append(log, b"a")

    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidelog.storage.segment._index.os.pwrite", no_space)
    with pytest.raises(LogDirFailure, match="No space left"):
        log.append_as_leader(batch(b"b"), EPOCH, NOW_MS)


def test_flush_messages_holds_back_what_is_not_synced(tmp_path: Path) -> None:
    log = make_log(tmp_path, flush_messages=3)
    append(log, b"a")
    append(log, b"b")
    assert (log.flush_state.is_due, log.flush_state.durable_end_offset) == (False, 2)
    append(log, b"c")
    assert (log.flush_state.is_due, log.flush_state.durable_end_offset) == (True, 2)
    log.flush()
    assert (log.flush_state.is_due, log.flush_state.durable_end_offset, log.recovery_point) == (False, 3, 3)


def fetched(*offsets: int, epoch: int = 5, timestamps: list[int] | None = None) -> bytes:
    """Batches of one record each, as a follower gets them."""
    parts = []
    for index, offset in enumerate(offsets):
        timestamp = timestamps[index] if timestamps else NOW_MS
        record = Record(offset, timestamp, None, b"%d" % offset)
        parts.append(build_batch([record], base_offset=offset, partition_leader_epoch=epoch))
    return b"".join(parts)


def test_a_follower_keeps_offsets_and_epochs(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    info = log.append_as_follower(fetched(0, 1, 5) + fetched(9, epoch=6), NOW_MS)
    log.write_staged()
    assert (info.first_offset, info.last_offset, info.record_count) == (0, 9, 4)
    assert log.log_end_offset == 10
    assert [record.offset for record in read_records(log, 0)] == [0, 1, 5, 9]
    assert log.leader_epochs.entries() == (EpochEntry(5, 0), EpochEntry(6, 9))


def test_a_follower_leaves_an_incomplete_batch_out(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for cut in (1, 20, 60):
        log.append_as_follower(fetched(log.log_end_offset) + fetched(99)[:-cut], NOW_MS)
    assert log.log_end_offset == 3


@pytest.mark.parametrize("offsets", [(0,), (4, 3), (3, 3)])
def test_a_follower_refuses_offsets_that_do_not_continue(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    log = make_log(tmp_path)
    log.append_as_follower(fetched(0, 1, 2), NOW_MS)
    with pytest.raises(AppendOffsetError):
        log.append_as_follower(fetched(*offsets), NOW_MS)
    assert log.log_end_offset == 3


def test_a_follower_refuses_damaged_bytes_whole(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    data = bytearray(fetched(0, 1))
    data[-1] ^= 1
    with pytest.raises(ApiError) as raised:
        log.append_as_follower(data, NOW_MS)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


def test_a_follower_rolls_within_what_it_fetched(tmp_path: Path) -> None:
    log = make_log(tmp_path, segment_bytes=200)
    log.append_as_follower(fetched(*range(10)), NOW_MS)
    log.write_staged()
    assert len(log.segments) > 3
    assert [record.offset for record in read_records(log, 0)] == list(range(10))


def test_a_follower_with_distant_offsets_starts_the_segment_where_they_are(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    far = 3_000_000_000
    log.append_as_follower(fetched(0, far, far + 1), NOW_MS)
    log.write_staged()
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert [record.offset for record in read_records(log, 0)] == [0, far, far + 1]


def test_a_follower_learns_of_transactions_from_their_markers(tmp_path: Path) -> None:
    for name in ("leader", "follower"):
        (tmp_path / name).mkdir()
    leader = make_log(tmp_path / "leader")
    append(leader, b"a", producer_id=7, sequence=0, is_transactional=True)
    append_marker(leader, 7, is_commit=False)
    follower = make_log(tmp_path / "follower")
    data = leader.read(0, 10_000, 2, True).slice
    assert data is not None
    follower.append_as_follower(data.read(), NOW_MS)
    assert follower.aborted_transactions(0, 2) == [AbortedTransaction(7, 0, 1, 2)]


def test_appends_of_coordinators_are_checked_less(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    records = batch(b"offsets", producer_id=3, sequence=-1, is_transactional=True)
    log.append_as_leader(records, EPOCH, NOW_MS, AppendOrigin.COORDINATOR)
    log.append_as_leader(batch(b"plain"), EPOCH, NOW_MS, AppendOrigin.COORDINATOR)
    log.write_staged()
    assert read_values(log, 0) == [b"offsets", b"plain"]
