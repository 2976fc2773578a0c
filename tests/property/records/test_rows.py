"""Rows are what `iterate_records` says the records are, for every batch, and damaged bytes raise and nothing else."""

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.records.strategies import codecs, record_lists
from tests.unit.records.test_rows import Row, as_records
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.errors import CorruptRecordError
from tidelog.records.header import read_header
from tidelog.records.rows import RowReader

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
