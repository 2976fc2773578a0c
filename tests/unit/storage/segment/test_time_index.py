"""The time index against its file format and its promises."""

import struct
from pathlib import Path

import pytest

from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.segment.time_index import TimeIndex


@pytest.fixture
def index(tmp_path: Path) -> TimeIndex:
    made = TimeIndex(str(tmp_path / "00000000000000000100.timeindex"), 100, 1000, is_new=True)
    made.create()
    return made


def test_entries_are_timestamp_and_relative_offset_big_endian(index: TimeIndex) -> None:
    index.maybe_append(1_000_000, 105)
    index.maybe_append(1_000_500, 109)
    assert Path(index.path).stat().st_size == 1000 // 12 * 12
    index.trim()
    assert Path(index.path).read_bytes() == struct.pack(">qiqi", 1_000_000, 5, 1_000_500, 9)


def test_only_a_larger_timestamp_is_added(index: TimeIndex) -> None:
    index.maybe_append(50, 105)
    index.maybe_append(50, 110)
    index.maybe_append(49, 115)
    assert index.entries() == 1
    assert index.last_entry() == (50, 105)


def test_lookup_finds_the_last_entry_at_or_before_the_timestamp(index: TimeIndex) -> None:
    for timestamp, offset in ((50, 105), (70, 110), (90, 110)):
        index.maybe_append(timestamp, offset)
    found = [index.lookup(timestamp) for timestamp in (-1, 0, 49, 50, 69, 70, 90, 1000)]
    assert found == [
        (-1, 100),
        (-1, 100),
        (-1, 100),
        (50, 105),
        (50, 105),
        (70, 110),
        (90, 110),
        (90, 110),
    ]


def test_one_place_is_kept_for_the_roll(tmp_path: Path) -> None:
    """The largest timestamp of a segment is stored when it is rolled, and must find room."""
    index = TimeIndex(str(tmp_path / "0.timeindex"), 0, 36, is_new=True)
    index.create()
    index.maybe_append(1, 1)
    assert not index.is_full()
    index.maybe_append(2, 2)
    assert index.is_full()
    index.maybe_append(3, 3)
    assert index.last_entry() == (3, 3)
    index.maybe_append(4, 4)
    assert index.last_entry() == (3, 3)


def test_truncation_goes_by_offset(index: TimeIndex) -> None:
    for timestamp, offset in ((50, 105), (70, 110), (90, 120)):
        index.maybe_append(timestamp, offset)
    index.truncate_to(120)
    assert index.last_entry() == (70, 110)
    index.truncate_to(100)
    assert index.last_entry() == (-1, 100)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\0" * 13, "not a multiple of 12"),
        (struct.pack(">qiqi", 9, 1, 8, 2), "last timestamp 8 is below the first, 9"),
        (struct.pack(">qi", 9, -1), "below the base offset"),
    ],
)
def test_a_file_that_cannot_be_an_index_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "00000000000000000100.timeindex"
    path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=problem):
        TimeIndex(str(path), 100, 1000, is_new=False).sanity_check()
