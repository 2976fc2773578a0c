"""Rows become records by the names and types of their columns, and go where Kafka's producers would send them."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from tidelog.client.aio.producer.settings import load_producer_settings
from tidelog.client.partitioner import partition_for_key
from tidelog.spark.options import OptionError
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.rows import Partitioner, by_topic, check_columns, checked_headers

STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()


def headers(key: str = "key", value: DataType = BINARY) -> ArrayType:
    return ArrayType(StructType([StructField(key, STRING), StructField("value", value)]))


def columns(kinds: dict[str, DataType], topic: str | None = "orders") -> tuple[str, ...]:
    return check_columns(StructType([StructField(name, kind) for name, kind in kinds.items()]), topic)


def batch(**arrays: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def partitioner(**kafka: str) -> Partitioner:
    return Partitioner(load_producer_settings({"bootstrap.servers": "localhost:9092", **kafka}, None))


def test_columns_are_found_by_name_and_others_are_left_out() -> None:
    given = {"note": STRING, "partition": INT, "value": STRING, "key": BINARY, "headers": headers()}

    assert columns(given) == ("key", "value", "headers", "partition")


def test_the_option_topic_beats_the_column() -> None:
    assert columns({"topic": STRING, "value": STRING}) == ("value",)
    assert columns({"topic": STRING, "value": STRING}, None) == ("value", "topic")


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ({"key": STRING}, "the column 'value' is missing: the columns are key"),
        ({"Value": STRING}, "the column 'value' is missing: the columns are Value"),
        ({"value": INT}, "the column 'value' is int: it must be string or binary"),
        ({"value": STRING, "key": LONG}, "the column 'key' is bigint: it must be string or binary"),
        ({"value": STRING, "topic": INT}, "the column 'topic' is int: it must be string"),
        ({"value": STRING, "partition": LONG}, "the column 'partition' is bigint: it must be int"),
        ({"value": STRING, "headers": STRING}, "the column 'headers' is string: it must be array<struct"),
        ({"value": STRING, "headers": headers(key="name")}, "the column 'headers' is array<struct<name"),
        ({"value": STRING, "headers": headers(value=STRING)}, "the column 'headers' is array<struct<key"),
    ],
)
def test_columns_of_other_types_are_refused(kinds: dict[str, DataType], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        columns(kinds, topic=None if "topic" in kinds else "t")


def test_without_topic_nothing_can_be_written() -> None:
    with pytest.raises(OptionError, match="the topic is missing: set the option 'topic'"):
        columns({"value": STRING}, None)


def test_rows_are_sorted_by_topic_and_keep_their_order() -> None:
    rows = batch(value=pa.array(["1", "2", "3"]), topic=pa.array(["a", "b", "a"]))

    found = {topic: part.column("value").to_pylist() for topic, part in by_topic(rows, None)}
    assert found == {"a": ["1", "3"], "b": ["2"]}


def test_a_row_without_topic_is_refused() -> None:
    rows = batch(value=pa.array(["1", "2"]), topic=pa.array(["a", None]))

    with pytest.raises(SinkError, match="1 of 2 rows have no topic"):
        list(by_topic(rows, None))


@settings(deadline=None, max_examples=50)
@given(keys=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=30), count=st.integers(1, 12))
def test_keys_decide_as_in_kafka_and_rows_without_stay_in_one_partition(keys: list[bytes | None], count: int) -> None:
    rows = batch(key=pa.array(keys, pa.binary()), value=pa.array([b"v"] * len(keys)))

    chosen = partitioner().choose(rows, "orders", count, spread=7).to_pylist()
    assert chosen == [7 % count if key is None else partition_for_key(key, count) for key in keys]


def test_text_and_bytes_of_a_key_mean_the_same() -> None:
    text = batch(key=pa.array(["ä", "b"]), value=pa.array(["", ""]))
    raw = batch(key=pa.array(["ä".encode(), b"b"]), value=pa.array(["", ""]))

    choose = partitioner().choose
    assert choose(text, "t", 5, spread=0).to_pylist() == choose(raw, "t", 5, spread=0).to_pylist()


def test_a_given_partition_is_kept_and_a_missing_one_is_chosen() -> None:
    rows = batch(
        key=pa.array([b"a", b"a", None]), value=pa.array([b""] * 3), partition=pa.array([2, None, None], pa.int32())
    )

    assert partitioner().choose(rows, "t", 4, spread=3).to_pylist() == [2, partition_for_key(b"a", 4), 3]


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_is_not_there_is_refused(partition: int) -> None:
    rows = batch(value=pa.array([b"v"]), partition=pa.array([partition], pa.int32()))

    with pytest.raises(SinkError, match=f"topic 't' has no partition {partition}: it has 4"):
        partitioner().choose(rows, "t", 4, spread=0)


def test_an_own_partitioner_is_asked() -> None:
    own = partitioner(**{"partitioner.class": f"{__name__}:last_partition"})
    rows = batch(key=pa.array([b"a", None]), value=pa.array([b"1", b"2"]))

    assert own.choose(rows, "t", 4, spread=0).to_pylist() == [3, 3]


def last_partition(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
    del topic, key, value
    return partition_count - 1


def test_the_type_of_a_column_that_the_option_topic_overrules_does_not_matter() -> None:
    schema = StructType([StructField("value", STRING), StructField("topic", LONG)])
    assert check_columns(schema, "orders") == ("value",)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("pair", [None, {"key": None, "value": b"x"}])
def test_headers_without_name_are_refused_with_a_sentence(pair: dict[str, bytes | None] | None) -> None:
    column = pa.array([None, [], [{"key": "a", "value": None}], [pair]], HEADERS)
    with pytest.raises(SinkError, match="1 headers are null or have no key"):
        checked_headers(column)
    assert checked_headers(column.slice(0, 3)) == column.slice(0, 3)
