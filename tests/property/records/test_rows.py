"""Rows are what `iterate_records` says the records are, for every batch, and damaged bytes raise and nothing else."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.records.strategies import codecs, record_lists
from tests.unit.records.test_rows import Row, as_records
from tidelog.records import rows as rows_module
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.records.rows import RowReader, read_rows_in_python

modest = settings(max_examples=examples(100), deadline=None)


@modest
@given(record_lists(), codecs, st.integers(1, 20))
def test_rows_are_the_records(records: list[Any], codec: Any, chunk: int) -> None:
    batch = build_batch(records, base_offset=records[0].offset, codec=codec)
    rows: list[Row] = []
    reader = RowReader(batch, 0, read_header(batch), Row, "t", 0)
    while not reader.is_done:
        reader.read(rows, chunk)
    assert as_records(rows) == list(iterate_records(batch))


@modest
@given(record_lists(), st.data())
def test_damaged_records_raise_corrupt_record_and_nothing_else(records: list[Any], data: st.DataObject) -> None:
    batch = bytearray(build_batch(records, base_offset=records[0].offset))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    rows: list[Row] = []
    with suppress(CorruptRecordError):
        reader = RowReader(bytes(batch), 0, read_header(batch), Row, "t", 0)
        while not reader.is_done:
            reader.read(rows, 5)


def read_all(batch: bytes, function: Any, chunk: int) -> list[Row] | None:
    """The rows of a batch, read with this function; None if it is corrupt."""
    before, rows_module.read_rows = rows_module.read_rows, function
    rows: list[Row] = []
    try:
        reader = RowReader(batch, 0, read_header(batch), Row, "t", 0)
        while not reader.is_done:
            reader.read(rows, chunk)
    except CorruptRecordError:
        return None
    finally:
        rows_module.read_rows = before
    return rows


@pytest.mark.skipif(rows_module.read_rows is read_rows_in_python, reason="the C module was not built")
@settings(max_examples=examples(400), deadline=None)
@given(record_lists(), st.integers(1, 20), st.data())
def test_c_and_python_read_the_same_rows_and_refuse_the_same_bytes(
    records: list[Any], chunk: int, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records, base_offset=records[0].offset))
    for _ in range(data.draw(st.integers(0, 4))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    in_c = read_all(bytes(batch), rows_module.read_rows, chunk)
    assert in_c == read_all(bytes(batch), read_rows_in_python, chunk)


@pytest.mark.skipif(rows_module.read_rows is read_rows_in_python, reason="the C module was not built")
def test_many_records_are_read_the_same_in_c() -> None:
    """Offsets of two and three bytes, keys and values of every size of their lengths."""
    records = [
        Record(index, 1_000 + index * 7 % 300_000, None if index % 3 else b"k" * (index % 200), b"v" * (index % 9000))
        for index in range(9000)
    ]
    batch = build_batch(records)
    rows = read_all(batch, rows_module.read_rows, 1000)
    assert rows == read_all(batch, read_rows_in_python, 1000)
    assert rows is not None
    assert as_records(rows) == records
