"""The compiled encoder makes the same batches, byte for byte, as the plain one."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.arrow.strategies import content, headers
from tests.property.effort import examples
from tidelog.client.partitioner import murmur2, partition_for_key
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.bulk import RECORD_OVERHEAD_BYTES
from tidelog.records.header import check_crc
from tidelog.records.kernels import _arrow_encode as kernels
from tidelog.records.kernels.arrow_decode_compiled import readable
from tidelog.records.kernels.arrow_encode import encode_rows, header_blocks, spread
from tidelog.records.kernels.arrow_encode_compiled import (
    ColumnBuffers,
    choose_partitions,
    column_of,
    encode_columns,
)

_MODEST = settings(deadline=None, max_examples=examples(80))

rows = st.lists(st.tuples(st.integers(0, 2**62), content, content, st.just(()) | headers), max_size=30)


def _column(items, skipped=0):
    """`items` as a column that begins `skipped` rows inside its buffers, as a slice of a table does."""
    array = pa.array([*[b"skipped"] * skipped, *items], pa.binary()).slice(skipped)
    validity, positions, data = array.buffers()
    return column_of(ColumnBuffers(positions, data or b"", validity, array.offset), len(items))


def _columns(records: Any, skipped: int = 0) -> tuple[Any, Any, Any]:
    keys = _column([key for _, key, _, _ in records], skipped)
    values = _column([value for _, _, value, _ in records], skipped)
    return keys, values, _column(header_blocks([each for *_, each in records]), skipped)


@_MODEST
@given(rows, st.integers(1, 4), st.sampled_from([0, 100, 400, 10**6]), st.integers(0, 11), st.randoms())
def test_both_encoders_make_the_same_batches(records, partition_count, limit_bytes, skipped, random):
    partitions = [random.randrange(partition_count) for _ in records]
    timestamps = [timestamp for timestamp, *_ in records]
    made = encode_columns(*_columns(records, skipped), timestamps, partitions, partition_count, limit_bytes)
    expected = encode_rows(records, partitions, partition_count, limit_bytes)
    assert [(batch.partition, batch.record_count, bytes(batch.data)) for batch in made] == expected


@_MODEST
@given(rows, st.sampled_from([100, 400]))
def test_batches_are_sound_within_the_limit_and_hold_every_row_in_order(records, limit_bytes):
    timestamps = [timestamp for timestamp, *_ in records]
    found = []
    for batch in encode_columns(*_columns(records), timestamps, [0] * len(records), 1, limit_bytes):
        data = bytes(batch.data)
        ((position, header),) = iterate_batches(data)
        assert check_crc(data, position, header)
        assert len(data) <= limit_bytes or header.record_count == 1
        found += [(each.timestamp, each.key, each.value, each.headers) for each in iterate_records(data)]
    assert found == records


def test_positions_that_no_column_has_are_refused():
    positions = np.array([0, 3, 2, 4], dtype=np.int32)
    for data, count in ((b"abcd", 3), (b"abc", 1), (b"", 1)):
        with pytest.raises(ValueError, match="not in order, or beyond its data"):
            column_of(ColumnBuffers(positions[-1 - count :].data, data[:3], None, 0), count)


def test_columns_of_other_lengths_than_the_partitions_are_refused():
    with pytest.raises(ValueError, match="another length"):
        encode_columns(_column([b"k"]), _column([b"v"]), column_of(None, 0), [0], [0], 1, 100)


@_MODEST
@given(st.binary(max_size=70), st.integers(0, 5))
def test_the_compiled_murmur2_is_kafkas(key, skipped):
    assert kernels.murmur2(readable(b"x" * skipped + key), skipped, len(key)) == murmur2(key)


@_MODEST
@given(rows, st.integers(1, 7), st.integers(0, 6), st.sampled_from([1, 200, 10**6]))
def test_keys_go_where_the_producer_puts_them_and_other_records_stick(records, partition_count, first, sticky_bytes):
    keys, values, _ = _columns(records)
    partitions, following = choose_partitions(
        keys, values, len(records), partition_count, first=first, sticky_bytes=sticky_bytes
    )
    sizes = [len(value or b"") + RECORD_OVERHEAD_BYTES for _, key, value, _ in records if key is None]
    without_key = iter(spread(sizes, partition_count, first, sticky_bytes))
    expected = [
        next(without_key) if key is None else partition_for_key(key, partition_count) for _, key, _, _ in records
    ]
    assert partitions.tolist() == expected
    assert 0 <= following < partition_count
