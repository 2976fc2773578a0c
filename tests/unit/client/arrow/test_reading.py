"""Fetched batches to tables: what is refused, and what is cut into several chunks."""

from typing import Any, cast

import pyarrow as pa
import pytest

from tidelog.client.aio.consumer.errors import CorruptRecords
from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.arrow import reading, schema
from tidelog.client.arrow.reading import decode_columns, put_back, to_table
from tidelog.client.arrow.schema import SCHEMA
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.kernels.arrow_decode import PlainDecoder
from tidelog.records.kernels.arrow_decode_compiled import CompiledDecoder
from tidelog.records.record import Record


def _fetched(data, first_offset=0, aborted=(), partition=0):
    return FetchedBatches("orders", partition, memoryview(data), first_offset, 0, aborted)


def _batch(base_offset, count, **options):
    records = [Record(base_offset + index, 1000, b"k", b"value-%d" % index) for index in range(count)]
    return build_batch(records, base_offset=base_offset, **options)


@pytest.fixture(params=[PlainDecoder, CompiledDecoder])
def decoder(request, monkeypatch):
    """Both ways; without Numba the plain one is used."""
    monkeypatch.setattr(reading, "make_decoder", request.param)
    return request.param


def test_nothing_fetched_is_a_table_without_rows():
    assert to_table([]).schema == SCHEMA
    assert to_table([_fetched(b"")], ["offset", "key"]).schema.names == ["offset", "key"]


def test_partitions_come_as_chunks_of_one_table(decoder):
    table = to_table([_fetched(_batch(0, 3), partition=4), _fetched(_batch(7, 2), partition=1)])
    assert table["partition"].to_pylist() == [4, 4, 4, 1, 1]
    assert table["offset"].to_pylist() == [0, 1, 2, 7, 8]
    assert table["value"].num_chunks == 2


def test_records_before_the_position_are_left_out(decoder):
    data = _batch(0, 5) + _batch(5, 5, codec=Codec.ZSTD) + _batch(10, 5)
    assert to_table([_fetched(data, first_offset=7)])["offset"].to_pylist() == list(range(7, 15))


@pytest.mark.parametrize("codec", Codec)
def test_aborted_transactions_and_markers_are_left_out(decoder, codec):
    options = {"codec": codec, "is_transactional": True, "producer_epoch": 0}
    marker = {"producer_epoch": 0, "timestamp": 1, "coordinator_epoch": 0}
    data = (
        _batch(0, 2, producer_id=1, **options)
        + _batch(2, 2, producer_id=2, **options)
        + build_end_transaction_marker(is_commit=False, producer_id=1, base_offset=4, **marker)
        + _batch(5, 2, producer_id=1, **options)
        + build_end_transaction_marker(is_commit=True, producer_id=2, base_offset=7, **marker)
        + build_end_transaction_marker(is_commit=True, producer_id=1, base_offset=8, **marker)
    )
    assert to_table([_fetched(data, aborted=((1, 0),))])["offset"].to_pylist() == [2, 3, 5, 6]
    assert to_table([_fetched(data)])["offset"].to_pylist() == [0, 1, 2, 3, 5, 6]


def test_columns_are_cut_before_they_hold_more_than_they_can(decoder):
    data = b"".join(_batch(index * 10, 10, codec=Codec(index % 5)) for index in range(10))
    cut = list(decode_columns(_fetched(data), decoder(), bytes_max=300))
    assert len(cut) > 4
    assert [offset for columns in cut for offset in list(columns.offsets)] == list(range(100))


def test_arrow_batches_are_cut_where_the_topics_name_would_be_too_much(monkeypatch):
    monkeypatch.setattr(schema, "ROWS_MAX", 7)
    table = to_table([_fetched(_batch(0, 20))])
    assert [len(chunk) for chunk in table["topic"].chunks] == [7, 7, 6]
    assert table["value"].to_pylist() == [b"value-%d" % index for index in range(20)]


@pytest.mark.parametrize(
    "data",
    [
        _batch(0, 3)[:-1],
        _batch(0, 3)[:50],
        _batch(0, 3)[:8] + b"\0\0\0\x05" + _batch(0, 3)[12:],
        _batch(0, 3)[:16] + b"\1" + _batch(0, 3)[17:],
        _batch(0, 3)[:57] + b"\x7f\xff\xff\xff" + _batch(0, 3)[61:],
        _batch(0, 3, codec=Codec.LZ4)[:61] + b"no lz4 at all",
    ],
    ids=["cut off", "header cut off", "length", "magic", "count", "compressed"],
)
def test_what_is_no_batch_is_refused(decoder, data):
    with pytest.raises(CorruptRecords):
        to_table([_fetched(data)])


def test_headers_that_are_no_text_are_still_shown(decoder):
    record = Record(0, 1, None, b"v", (("caf\udce9", b"1"),))
    table = to_table([_fetched(build_batch([record]))])
    assert table["headers"].to_pylist() == [[{"key": "caf\N{REPLACEMENT CHARACTER}", "value": b"1"}]]
    table.validate(full=True)


def test_what_could_not_be_decoded_is_fetched_again_from_its_first_offset():
    seeks: list[Any] = []

    class Engine:
        def seek(self, partition, place):
            seeks.append((tuple(partition), place.offset))

    put_back(cast(Any, Engine()), [_fetched(b"", 5), _fetched(b"", 9), _fetched(b"", 2, partition=1)])
    assert dict(seeks) == {("orders", 0): 5, ("orders", 1): 2}


def test_columns_stay_valid_when_what_they_were_read_from_is_gone():
    data = bytearray(_batch(0, 3))
    table = to_table([_fetched(data)])
    data[:] = bytes(len(data))
    assert table["value"].to_pylist() == [b"value-0", b"value-1", b"value-2"]
    assert isinstance(table, pa.Table)
