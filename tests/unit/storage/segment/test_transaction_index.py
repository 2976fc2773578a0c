"""The index of aborted transactions."""

import struct
from pathlib import Path

import pytest

from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.segment.transaction_index import AbortedTransaction, TransactionIndex


@pytest.fixture
def index(tmp_path: Path) -> TransactionIndex:
    return TransactionIndex(str(tmp_path / "00000000000000000000.txnindex"), 0, is_new=True)


def test_there_is_no_file_until_a_transaction_is_aborted(index: TransactionIndex) -> None:
    assert not Path(index.path).exists()
    index.append(AbortedTransaction(7, 10, 20, 15))
    assert Path(index.path).read_bytes() == struct.pack(">hqqqq", 0, 7, 10, 20, 15)


def test_transactions_that_overlap_the_range_are_collected(index: TransactionIndex) -> None:
    first, second, third = (
        AbortedTransaction(1, 0, 10, 5),
        AbortedTransaction(2, 5, 20, 21),
        AbortedTransaction(3, 30, 40, 41),
    )
    for entry in (first, second, third):
        index.append(entry)
    assert index.collect(0, 6) == ([first, second], True)
    assert index.collect(0, 5) == ([first], True)
    assert index.collect(11, 31) == ([second, third], True)
    assert index.collect(41, 100) == ([], False)


def test_the_search_ends_once_the_stable_offset_passes_the_range(index: TransactionIndex) -> None:
    """What ends later cannot have begun before that offset, so no later segment need be looked at."""
    index.append(AbortedTransaction(1, 0, 10, 5))
    assert index.collect(0, 8) == ([AbortedTransaction(1, 0, 10, 5)], False)
    assert index.collect(0, 5) == ([AbortedTransaction(1, 0, 10, 5)], True)


def test_truncation_keeps_what_ended_before(index: TransactionIndex) -> None:
    for number in range(3):
        index.append(AbortedTransaction(number, number * 10, number * 10 + 5, number * 10 + 6))
    index.truncate_to(15)
    assert [entry.producer_id for entry in index.entries()] == [0]
    again = TransactionIndex(index.path, 0, is_new=False)
    assert again.entries() == index.entries()
    again.append(AbortedTransaction(9, 20, 30, 31))
    assert [entry.producer_id for entry in TransactionIndex(index.path, 0, is_new=False).entries()] == [0, 9]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\0" * 33, "not whole entries"),
        (struct.pack(">hqqqq", 1, 7, 10, 20, 15), "unknown version 1"),
        (struct.pack(">hqqqq", 0, 7, 10, 20, 15), "below the base offset 100"),
    ],
)
def test_a_file_that_cannot_be_an_index_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "00000000000000000100.txnindex"
    path.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=problem):
        TransactionIndex(str(path), 100, is_new=False).sanity_check()


def test_reset_empties_even_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(b"damaged")
    index = TransactionIndex(str(path), 0, is_new=False)
    index.reset()
    assert index.entries() == []
    assert path.read_bytes() == b""
