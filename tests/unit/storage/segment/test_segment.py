"""One segment: its files, what is indexed, and finding batches again."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.logs import NOW_MS, batch
from tidelog.config import LogConfig
from tidelog.records.header import read_header
from tidelog.storage.segment import NEVER, Segment
from tidelog.storage.types import TimestampOffset
from tidelog.wire.errors import ApiError, ErrorCode


def make_segment(tmp_path: Path, base_offset: int = 100, **settings: Any) -> Segment:
    return Segment.create(str(tmp_path), base_offset, LogConfig(**{"index_interval_bytes": 0, **settings}), NOW_MS)


def put(segment: Segment, base_offset: int, *values: bytes, timestamps: list[int] | None = None) -> int:
    """Append a batch as a log would; returns its position."""
    records = batch(*values, timestamps=timestamps)
    records[0:8] = base_offset.to_bytes(8, "big")
    header = read_header(records)
    position = segment.size_bytes
    segment.append(header.last_offset, header.max_timestamp, len(records), NOW_MS)
    segment.log_file.write([records], position)
    return position


def test_a_new_segment_has_three_files_named_after_its_base_offset(tmp_path: Path) -> None:
    make_segment(tmp_path, segment_index_bytes=100)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {
        "00000000000000000100.log": 0,
        "00000000000000000100.index": 96,
        "00000000000000000100.timeindex": 96,
    }


def test_nothing_is_open_until_the_first_write(tmp_path: Path) -> None:
    """Ten thousand empty partitions must not take ten thousand descriptors."""
    assert make_segment(tmp_path).log_file.handle is None


def test_what_a_crash_left_of_the_same_name_is_removed(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000100.log").write_bytes(b"left over")
    (tmp_path / "00000000000000000100.txnindex").write_bytes(b"left over")
    segment = make_segment(tmp_path)
    assert (tmp_path / "00000000000000000100.log").read_bytes() == b""
    assert segment.transaction_index.entries() == []
    assert not (tmp_path / "00000000000000000100.txnindex").exists()


def test_every_batch_is_found_by_each_of_its_offsets(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, index_interval_bytes=300)
    positions: dict[int, int] = {}
    offset = 100
    for size in range(1, 40):
        values = [b"v" * size] * (size % 5 + 1)
        position = put(segment, offset, *values)
        positions |= dict.fromkeys(range(offset, offset + len(values)), position)
        offset += len(values)
    assert 3 < segment.offset_index.entries() < 39
    for offset, position in positions.items():
        found = segment.locate(offset, segment.size_bytes)
        assert found is not None
        assert found.position == position
        assert found.base_offset <= offset <= found.last_offset
    assert segment.locate(offset + 1, segment.size_bytes) is None


def test_an_offset_in_a_gap_leads_to_the_next_batch(tmp_path: Path) -> None:
    """Compaction leaves gaps."""
    segment = make_segment(tmp_path)
    put(segment, 100, b"a")
    position = put(segment, 120, b"b")
    found = segment.locate(105, segment.size_bytes)
    assert found is not None
    assert (found.position, found.base_offset) == (position, 120)


def test_large_batches_are_walked_header_by_header(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, index_interval_bytes=1 << 30)
    positions = [put(segment, 100 + number, b"x" * 50_000) for number in range(5)]
    found = segment.locate(104, segment.size_bytes)
    assert found is not None
    assert found.position == positions[4]


def test_an_entry_is_added_once_the_interval_has_passed(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, index_interval_bytes=200)
    positions = [put(segment, 100 + number, b"x" * 30) for number in range(7)]
    size = positions[1]
    every = 200 // size + 1
    expected = [(100 + number, positions[number]) for number in range(every, 7, every)]
    entries = [segment.offset_index.entry(slot) for slot in range(segment.offset_index.entries())]
    assert entries == expected


def test_the_time_index_gets_the_largest_timestamp_when_the_segment_becomes_inactive(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, index_interval_bytes=1 << 30)
    put(segment, 100, b"a", timestamps=[50])
    put(segment, 101, b"b", timestamps=[90])
    put(segment, 102, b"c", timestamps=[70])
    segment.become_inactive()
    assert segment.time_index.last_entry() == (90, 101)
    assert Path(segment.time_index.path).stat().st_size == 12
    assert Path(segment.offset_index.path).stat().st_size == 0
    again = Segment.open(str(tmp_path), 100, LogConfig(), NOW_MS)
    assert again.max_timestamp() == 90
    assert again.largest_timestamp() == 90


def test_without_timestamps_retention_goes_by_the_files_modification_time(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"a", timestamps=[-1])
    assert segment.max_timestamp() == -1
    assert segment.largest_timestamp() == segment.last_modified_ms() > NOW_MS


def test_the_next_offset_is_read_from_the_file(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, index_interval_bytes=100)
    assert segment.read_next_offset() == 100
    for number in range(20):
        put(segment, 100 + 3 * number, b"a", b"b", b"c")
    segment.close()
    again = Segment.open(str(tmp_path), 100, LogConfig(), NOW_MS)
    assert again.read_next_offset() == 160


def test_closing_trims_and_reopening_goes_on(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"a", timestamps=[10])
    put(segment, 101, b"b", timestamps=[20])
    segment.close()
    assert Path(segment.offset_index.path).stat().st_size == 8
    again = Segment.open(str(tmp_path), 100, LogConfig(index_interval_bytes=0), NOW_MS)
    put(again, 102, b"c", timestamps=[30])
    put(again, 103, b"d", timestamps=[40])
    found = again.locate(102, again.size_bytes)
    assert found is not None
    assert found.base_offset == 102
    assert again.max_timestamp() == 40
    assert Path(again.offset_index.path).stat().st_size == LogConfig().segment_index_bytes // 8 * 8


def test_a_record_is_found_by_time(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"a", b"b", timestamps=[10, 20])
    put(segment, 102, b"c", b"d", timestamps=[40, 30])
    put(segment, 104, b"e", timestamps=[50])
    end = segment.size_bytes
    found = [segment.find_by_timestamp(timestamp, 100, end) for timestamp in (0, 10, 11, 35, 45, 51)]
    assert found == [
        TimestampOffset(10, 100, -1),
        TimestampOffset(10, 100, -1),
        TimestampOffset(20, 101, -1),
        TimestampOffset(40, 102, -1),
        TimestampOffset(50, 104, -1),
        None,
    ]
    assert segment.find_by_timestamp(0, 103, end) == TimestampOffset(30, 103, -1)
    assert segment.find_max_timestamp(end) == TimestampOffset(50, 104, -1)


def test_truncation_removes_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"a", timestamps=[10])
    position = put(segment, 101, b"b", b"c", timestamps=[40, 30])
    put(segment, 103, b"d", timestamps=[20])
    assert segment.truncate_to(102, NOW_MS) > 0
    assert segment.size_bytes == position == Path(segment.log_file.path).stat().st_size
    assert segment.max_timestamp() == 10
    assert segment.read_next_offset() == 101
    put(segment, 101, b"new", timestamps=[5])
    assert segment.max_timestamp() == 10


def test_truncation_to_nothing_empties_the_segment(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"a", timestamps=[10])
    segment.truncate_to(100, NOW_MS + 5)
    assert (segment.size_bytes, segment.max_timestamp(), segment.roll_timestamp) == (0, -1, NEVER)
    put(segment, 100, b"b", timestamps=[70])
    assert segment.first_timestamp() == 70


def test_roll_by_time_counts_from_the_first_batch(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, segment_ms=1000)
    assert not segment.should_roll(NOW_MS + 9999, 100, 10, 1 << 20, NOW_MS + 9999)
    put(segment, 100, b"a", timestamps=[500])
    assert not segment.should_roll(1500, 101, 10, 1 << 20, NOW_MS)
    assert segment.should_roll(1501, 101, 10, 1 << 20, NOW_MS)


def test_roll_by_time_without_timestamps_goes_by_the_clock(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, segment_ms=1000)
    put(segment, 100, b"a", timestamps=[-1])
    assert not segment.should_roll(-1, 101, 10, 1 << 20, NOW_MS + 1000)
    assert segment.should_roll(-1, 101, 10, 1 << 20, NOW_MS + 1001)


def test_jitter_brings_the_roll_forward(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, segment_ms=1000, segment_jitter_ms=400)
    assert 0 <= segment.roll_jitter_ms < 400
    segment.roll_jitter_ms = 300
    put(segment, 100, b"a", timestamps=[0])
    assert segment.should_roll(701, 101, 10, 1 << 20, NOW_MS)
    assert not segment.should_roll(700, 101, 10, 1 << 20, NOW_MS)


def test_an_opened_segment_reads_its_first_timestamp_only_when_asked(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, segment_ms=1000)
    put(segment, 100, b"a", timestamps=[500])
    segment.close()
    again = Segment.open(str(tmp_path), 100, LogConfig(segment_ms=1000), NOW_MS)
    again.update_roll_limits()
    assert again.log_file.handle is None
    assert again.roll_timestamp < 0
    assert not again.should_roll(1500, 101, 10, 1 << 20, NOW_MS)
    assert again.should_roll(1501, 101, 10, 1 << 20, NOW_MS)


def test_roll_by_offset_distance_and_size(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    assert segment.should_roll(0, 100 + 2**31, 10, 1 << 20, NOW_MS)
    assert not segment.should_roll(0, 100 + 2**31 - 1, 10, 1 << 20, NOW_MS)
    put(segment, 100, b"a")
    size = segment.size_bytes
    assert not segment.should_roll(0, 101, 10, size + 10, NOW_MS)
    assert segment.should_roll(0, 101, 11, size + 10, NOW_MS)


def test_roll_when_an_index_is_full(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, segment_index_bytes=36)
    for number in range(3):
        put(segment, 100 + number, b"a", timestamps=[number])
    assert segment.is_index_full
    assert segment.should_roll(5, 104, 10, 1 << 20, NOW_MS)


def test_compacted_topics_roll_in_time_for_the_compaction_lag(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, cleanup_policy=("compact",), segment_ms=10_000, max_compaction_lag_ms=700)
    assert segment.segment_ms == 700


def test_preallocated_files_are_cut_to_size(tmp_path: Path) -> None:
    segment = make_segment(tmp_path, preallocate=True, segment_bytes=5000)
    assert Path(segment.log_file.path).stat().st_size == 5000
    put(segment, 100, b"a")
    segment.become_inactive()
    assert Path(segment.log_file.path).stat().st_size == segment.size_bytes


def test_files_are_renamed_and_deleted_together(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"abc")
    piece = segment.slice(0, segment.size_bytes)
    segment.change_suffix(".deleted")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000100.index.deleted",
        "00000000000000000100.log.deleted",
        "00000000000000000100.timeindex.deleted",
    ]
    segment.delete()
    assert list(tmp_path.iterdir()) == []
    assert b"abc" in piece.read()


def test_a_damaged_length_is_reported_not_followed(tmp_path: Path) -> None:
    segment = make_segment(tmp_path)
    put(segment, 100, b"a")
    segment.log_file.write([b"\0" * 100], segment.size_bytes)
    with pytest.raises(ApiError) as raised:
        segment.locate(101, segment.size_bytes + 100)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
