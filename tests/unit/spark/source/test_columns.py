"""The columns of a record in Spark."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.client.arrow.schema import SCHEMA
from tidelog.spark.options import OptionError
from tidelog.spark.source.columns import full_schema, make_projection

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def _schema(**columns):
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_the_columns_are_those_of_the_official_connector():
    schema = full_schema({})
    assert schema == _schema(
        key=BinaryType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        offset=LongType(),
        timestamp=TimestampType(),
        timestampType=IntegerType(),
    )


def test_headers_come_when_asked_for():
    assert full_schema({"includeheaders": "TRUE"})["headers"] == StructField("headers", HEADERS)


def test_arrow_batches_will_have_the_schema_that_spark_derives():
    projection = make_projection(full_schema({"includeHeaders": "true"}))
    assert projection.schema.equals(SCHEMA)


def test_a_schema_is_a_choice_in_any_order():
    projection = make_projection(_schema(offset=LongType(), value=BinaryType()))
    assert projection.names == ("offset", "value")
    assert projection.schema == pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    assert tuple(projection.wanted) == (False, True, False)


def test_headers_can_be_chosen_without_the_option():
    assert make_projection(_schema(headers=HEADERS)).wanted.headers


def test_a_column_that_may_not_be_null_keeps_that_in_arrow():
    """Spark compares schemas down to this."""
    schema = StructType([StructField("offset", LongType(), nullable=False)])
    assert not make_projection(schema).schema.field("offset").nullable


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (_schema(valu=BinaryType()), "'valu', which records do not have: there are key binary, value binary"),
        (_schema(timestamptype=IntegerType()), "did you mean 'timestampType'"),
        (_schema(value=StringType()), "'value' as string: it is binary; cast it after reading"),
        (_schema(offset=IntegerType()), "'offset' as int: it is bigint"),
        (StructType([]), "no columns"),
        (StructType([StructField("key", BinaryType()), StructField("key", BinaryType())]), "'key' twice"),
    ],
)
def test_other_schemas_are_refused_with_what_there_is(schema, said):
    with pytest.raises(OptionError, match=said):
        make_projection(schema)


def test_a_projection_travels_to_tasks():
    projection = make_projection(full_schema({}))
    assert pickle.loads(pickle.dumps(projection)) == projection


@pytest.mark.parametrize("name", ["key", "value", "headers"])
def test_what_records_may_lack_cannot_be_promised_not_to_be_null(name):
    """Spark believes it: it would find no null among records that have some."""
    kind = HEADERS if name == "headers" else BinaryType()
    with pytest.raises(OptionError, match=f"'{name}' as NOT NULL: it may be null"):
        make_projection(StructType([StructField(name, kind, nullable=False)]))


def test_what_all_records_have_may_be_promised_not_to_be_null():
    columns = (("offset", LongType()), ("topic", StringType()))
    schema = StructType([StructField(name, kind, nullable=False) for name, kind in columns])
    assert make_projection(schema).names == ("offset", "topic")
