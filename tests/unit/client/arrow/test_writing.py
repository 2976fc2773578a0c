"""Tables to batches: which columns are taken, where rows go, and what is refused."""

import datetime as dt
import time

import pyarrow as pa
import pytest

from tidelog.client.aio.producer.settings import load_producer_settings
from tidelog.client.arrow import encoding, writing
from tidelog.client.arrow.writing import Meaning, TableWriter
from tidelog.client.errors import SerializationFailed
from tidelog.client.partitioner import partition_for_key
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.compression import Codec
from tidelog.records.header import check_crc

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(params=["compiled", "plain"])
def writer(request, monkeypatch):
    """Makes writers of both kinds: without Numba the plain code does everything."""
    if request.param == "plain":
        monkeypatch.setattr(writing, "compiled_encoding", lambda settings: None)

    def make(**settings):
        made = TableWriter(load_producer_settings({"bootstrap.servers": "localhost:1"}, settings))
        assert type(made._encoding) is (encoding._Plain if request.param == "plain" else encoding._Compiled)
        return made

    return make


def _records(writer, table, partition_count=1, **meaning):
    """Records as (partition, record), batch by batch, each batch checked."""
    found = []
    for batches in writer.encode(table, "topic", partition_count, Meaning(**meaning)):
        for batch in batches:
            data = bytes(batch.data)
            ((position, header),) = iterate_batches(data)
            assert check_crc(data, position, header)
            assert header.record_count == batch.record_count
            found += [(batch.partition, record) for record in iterate_records(data)]
    return found


TEXTS = ["", "ä", None, "long enough to be no inline view"]
BYTES = [None if text is None else text.encode() for text in TEXTS]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(BYTES, pa.binary()),
        pa.array(BYTES, pa.large_binary()),
        pa.array(BYTES, pa.binary_view()),
        pa.array(TEXTS, pa.string()),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS, pa.string()).dictionary_encode(),
        pa.array(["before", *TEXTS, "after"]).slice(1, 4),
        pa.chunked_array([TEXTS[:1], TEXTS[1:]], pa.string()),
    ],
    ids=lambda column: str(column.type),
)
def test_bytes_and_text_of_every_kind_are_keys_and_values(writer, column):
    records = _records(writer(), pa.table({"key": column, "value": column}), partition=0)
    assert [(record.key, record.value) for _, record in records] == list(zip(BYTES, BYTES, strict=True))


def test_bytes_of_fixed_size_are_values(writer):
    column = pa.array([b"abcd", None], pa.binary(4))
    assert [record.value for _, record in _records(writer(), pa.table({"value": column}))] == [b"abcd", None]


@pytest.mark.parametrize("column", [pa.array([None, None]), pa.array([None, None], pa.binary())])
def test_a_column_of_nulls_makes_tombstones(writer, column):
    table = pa.table({"key": ["a", "b"], "value": column})
    assert [(record.key, record.value) for _, record in _records(writer(), table)] == [(b"a", None), (b"b", None)]


@pytest.mark.parametrize(
    ("table", "meaning", "said"),
    [
        ({"value": [1]}, {}, "column 'value' is int64"),
        ({"value": ["v"]}, {"key": "id"}, "key='id': the table has only the columns value"),
        ({"body": ["v"]}, {}, "value='value'"),
        ({"value": ["v"], "p": ["1"]}, {"partition": "p"}, "partitions are integers"),
        ({"value": ["v"], "t": ["now"]}, {"timestamp": "t"}, "times are timestamps"),
        ({"value": ["v"], "h": ["x=y"]}, {"headers": "h"}, "headers are list<struct"),
    ],
)
def test_what_is_no_record_is_refused_by_name(writer, table, meaning, said):
    with pytest.raises(SerializationFailed, match=said):
        _records(writer(), pa.table(table), **meaning)


def test_what_is_no_table_is_refused(writer):
    with pytest.raises(SerializationFailed, match="not list"):
        _records(writer(), [{"value": b"v"}])


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        ({"partition": 3}, "partition 3 does not exist: the topic has 3"),
        ({"partition": -1}, "partition -1 does not exist"),
        ({"partition": "p"}, "partition 9 does not exist"),
        ({"timestamp": -5}, "timestamp -5"),
        ({"timestamp": "t"}, "before 1970"),
    ],
)
def test_values_that_no_topic_has_are_refused(writer, meaning, said):
    table = pa.table({"value": ["v"], "p": [9], "t": [-2]})
    with pytest.raises(ValueError, match=said):
        _records(writer(), table, partition_count=3, **meaning)


def test_keys_go_where_other_producers_put_them_and_the_rest_is_spread(writer):
    keys = [None if index % 2 else b"key-%d" % index for index in range(200)]
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": [b"x" * 20_000] * 200})
    records = _records(writer(), table, partition_count=5)
    assert len(records) == 200
    for partition, record in records:
        if record.key is not None:
            assert partition == partition_for_key(record.key, 5)
    assert len({partition for partition, record in records if record.key is None}) > 1


def test_ignored_keys_do_not_decide(writer):
    table = pa.table({"key": [b"%d" % index for index in range(50)], "value": ["v"] * 50})
    records = _records(writer(partitioner_ignore_keys=True), table, partition_count=5)
    assert len({partition for partition, _ in records}) == 1, "50 small rows stay in one batch"


def test_an_own_partitioner_is_asked_for_every_row(writer):
    asked = []

    def choose(topic, key, value, partition_count):
        asked.append((topic, key, value, partition_count))
        return len(asked) % 2

    table = pa.table({"value": ["a", "b", "c"]})
    records = _records(writer(partitioner_class=choose), table, partition_count=2)
    assert sorted((record.value, partition) for partition, record in records) == [(b"a", 1), (b"b", 0), (b"c", 1)]
    assert asked[0] == ("topic", None, b"a", 2)


def test_a_partition_of_null_is_left_to_the_key(writer):
    table = pa.table({"key": [b"k", b"k"], "value": ["a", "b"], "p": [3, None]})
    records = _records(writer(), table, partition_count=4, partition="p")
    assert {record.value: partition for partition, record in records} == {b"a": 3, b"b": partition_for_key(b"k", 4)}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_become_milliseconds(writer, unit):
    when = dt.datetime(2024, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    table = pa.table({"value": ["v"], "t": pa.array([when], pa.timestamp(unit, tz="UTC"))})
    assert _records(writer(), table, timestamp="t")[0][1].timestamp == int(when.timestamp()) * 1000


def test_rows_without_a_time_are_of_now(writer):
    before = time.time_ns() // 1_000_000
    table = pa.table({"value": ["a", "b", "c"], "t": [None, -1, 5]})
    times = [record.timestamp for _, record in _records(writer(), table, timestamp="t")]
    assert all(before <= each <= before + 60_000 for each in times[:2])
    assert times[2] == 5
    assert _records(writer(), table, timestamp=7)[0][1].timestamp == 7


@pytest.mark.parametrize("kind", [HEADERS, pa.map_(pa.string(), pa.binary())])
def test_headers_come_from_pairs_and_from_maps(writer, kind):
    pairs = [("a", b"1"), ("b", None)]
    rows = [pairs if pa.types.is_map(kind) else [{"key": name, "value": value} for name, value in pairs], None]
    table = pa.table({"value": ["x", "y"], "h": pa.array(rows, kind)})
    assert [record.headers for _, record in _records(writer(), table, headers="h")] == [tuple(pairs), ()]


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_batches_are_compressed_as_the_producer_is_configured(writer, codec):
    table = pa.table({"value": ["same"] * 500})
    (batches,) = writer(compression_type=codec).encode(table, "topic", 1, Meaning())
    ((_, header),) = iterate_batches(bytes(batches[0].data))
    assert header.codec is Codec[codec.upper()]
    assert [record.value for _, record in _records(writer(compression_type=codec), table)] == [b"same"] * 500


def test_a_table_comes_in_pieces_and_batches_within_bounds(writer, monkeypatch):
    monkeypatch.setattr(writing, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(writing, "BATCH_BYTES", 2_000)
    table = pa.table({"value": [b"%04d" % index * 25 for index in range(1_000)]})
    pieces = list(writer(batch_size=1_000).encode(table, "topic", 1, Meaning()))
    assert len(pieces) > 8
    assert all(len(batch.data) <= 2_000 for piece in pieces for batch in piece)
    values = [record.value for _, record in _records(writer(batch_size=1_000), table)]
    assert values == table["value"].to_pylist()


def test_an_empty_table_makes_nothing(writer):
    assert _records(writer(), pa.table({"value": pa.array([], pa.binary())})) == []
