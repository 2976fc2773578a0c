"""The offset index against its file format and its promises."""

import struct
from pathlib import Path

import pytest

from tidelog.storage import _pools
from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.segment.offset_index import OffsetIndex


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    made = OffsetIndex(str(tmp_path / "00000000000000000100.index"), 100, 1000, is_new=True)
    made.create()
    return made


def test_a_new_file_is_preallocated_to_whole_entries(index: OffsetIndex) -> None:
    assert Path(index.path).stat().st_size == 1000 // 8 * 8
    assert index.max_entries == 125


def test_entries_are_relative_offset_and_position_big_endian(index: OffsetIndex) -> None:
    index.append(105, 40)
    index.append(109, 90)
    index.trim()
    assert Path(index.path).read_bytes() == struct.pack(">iiii", 5, 40, 9, 90)


def test_lookup_finds_the_last_entry_at_or_before_the_offset(index: OffsetIndex) -> None:
    for offset, position in ((105, 40), (109, 90), (120, 200)):
        index.append(offset, position)
    found = [index.lookup(offset) for offset in (99, 100, 104, 105, 108, 109, 119, 120, 5000)]
    assert found == [
        (100, 0),
        (100, 0),
        (100, 0),
        (105, 40),
        (105, 40),
        (109, 90),
        (109, 90),
        (120, 200),
        (120, 200),
    ]


def test_lookup_in_many_entries_agrees_with_a_plain_search(tmp_path: Path) -> None:
    index = OffsetIndex(str(tmp_path / "0.index"), 0, 1 << 16, is_new=True)
    index.create()
    entries = [(slot * 7 + 3, slot * 11) for slot in range(3000)]
    for entry in entries:
        index.append(*entry)
    for offset in range(0, 21_100, 13):
        expected = max((entry for entry in entries if entry[0] <= offset), default=(0, 0))
        assert index.lookup(offset) == expected


def test_a_reopened_index_knows_its_entries(index: OffsetIndex) -> None:
    index.append(105, 40)
    index.append(109, 90)
    index.trim()
    again = OffsetIndex(index.path, 100, 1000, is_new=False)
    assert again.entries() == 2
    assert (again.last_offset, again.last_position) == (109, 90)
    again.append(130, 300)
    assert again.entry(2) == (130, 300)
    assert again.lookup(110) == (109, 90)


def test_a_mapping_that_was_dropped_is_made_again(index: OffsetIndex) -> None:
    """The pool may take the mapping away between any two calls."""
    index.append(105, 40)
    index.release()
    assert index.lookup(104) == (100, 0)
    index.release()
    index.append(109, 90)
    index.release()
    assert index.entry(0) == (105, 40)
    assert index.entry(1) == (109, 90)


def test_only_so_many_indexes_stay_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _pools.Pool(share=0.0, fewest=4)
    monkeypatch.setattr("tidelog.storage.segment._index.MAPPINGS", pool)
    indexes = []
    for number in range(10):
        made = OffsetIndex(str(tmp_path / f"{number}.index"), 0, 1000, is_new=True)
        made.create()
        made.append(number + 1, 10)
        indexes.append(made)
        assert len(pool) <= 4
    assert [made.lookup(100) for made in indexes] == [(number + 1, 10) for number in range(10)]
    for made in indexes:
        made.append(50, 60)
        assert made.lookup(2 + 8) == (indexes.index(made) + 1, 10)


def test_truncation_forgets_entries_at_or_above_the_offset(index: OffsetIndex) -> None:
    for offset in (105, 109, 120):
        index.append(offset, offset * 2)
    index.truncate_to(121)
    assert index.entries() == 3
    index.truncate_to(120)
    assert (index.entries(), index.last_offset) == (2, 109)
    index.truncate_to(106)
    assert (index.entries(), index.last_offset) == (1, 105)
    index.truncate_to(100)
    assert (index.entries(), index.last_offset, index.last_position) == (0, 100, 0)
    index.append(101, 5)
    assert index.lookup(101) == (101, 5)


def test_it_is_full_when_the_last_place_is_taken(tmp_path: Path) -> None:
    index = OffsetIndex(str(tmp_path / "0.index"), 0, 17, is_new=True)
    index.create()
    index.append(1, 1)
    assert not index.is_full()
    index.append(2, 2)
    assert index.is_full()


def test_offsets_must_ascend(index: OffsetIndex) -> None:
    index.append(105, 40)
    with pytest.raises(AssertionError, match="offset 105 after 105"):
        index.append(105, 50)


def test_pages_beyond_the_first_are_reserved_before_use(tmp_path: Path) -> None:
    """A store into a page without blocks would kill the process on a full disk; blocks must be there before."""
    index = OffsetIndex(str(tmp_path / "0.index"), 0, 1 << 20, is_new=True)
    index.create()
    assert Path(index.path).stat().st_blocks == 0
    index.append(1, 1)
    one_page = Path(index.path).stat().st_blocks
    assert 0 < one_page * 512 <= 64 * 1024
    for offset in range(2, 1500):
        index.append(offset, offset)
    assert index.entry(1200) == (1201, 1201)


def test_first_entry_at_a_position(index: OffsetIndex) -> None:
    for offset, position in ((105, 40), (109, 90)):
        index.append(offset, position)
    found = [index.first_at_position(position) for position in (0, 40, 41, 90, 91)]
    assert found == [105, 105, 109, 109, None]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"\0" * 9, "not a multiple of 8"), (struct.pack(">ii", -5, 0), "below the base offset")],
)
def test_a_file_that_cannot_be_an_index_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "00000000000000000100.index"
    path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=problem):
        OffsetIndex(str(path), 100, 1000, is_new=False).sanity_check()


def test_a_missing_file_has_no_entries_and_is_made_by_the_first(tmp_path: Path) -> None:
    index = OffsetIndex(str(tmp_path / "0.index"), 0, 1000, is_new=False)
    assert index.entries() == 0
    assert index.lookup(7) == (0, 0)
    index.append(3, 4)
    index.trim()
    assert Path(index.path).read_bytes() == struct.pack(">ii", 3, 4)
