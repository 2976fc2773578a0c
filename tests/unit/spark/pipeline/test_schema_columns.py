"""Columns of schemas, and values between serializers and Arrow."""

import base64
import json
import pickle
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from tidelog.client.errors import ClientConfigError
from tidelog.client.schemas import subjects
from tidelog.client.schemas.avro import AvroDeserializer, AvroSerializer
from tidelog.client.schemas.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from tidelog.client.schemas.registry import Schema
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PROTOBUF
from tidelog.spark.pipeline.schemas.arrow_values import from_arrow, into_arrow, json_value
from tidelog.spark.pipeline.schemas.formats import Target, format_of
from tidelog.spark.pipeline.schemas.origins import Origin
from tidelog.spark.pipeline.schemas.rows import RowReader, RowWriter, WrittenColumn

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "other", "type": ["null", "shop.Kind"]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "mixed", "type": ["null", "string", "int"]},
        {"name": "wide", "type": ["int", "long", "null"]},
        {"name": "parent", "type": ["null", "shop.Order"]},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}


def test_an_avro_schema_gives_columns_and_json_text_for_what_spark_has_no_type_for() -> None:
    made: Any = format_of(AVRO).spark_type(None, Origin(AVRO, Schema(json.dumps(ORDER))))
    kinds = {field.name: field.dataType.simpleString() for field in made}
    assert kinds == {
        "id": "bigint",
        "at": "timestamp",
        "day": "date",
        "price": "decimal(10,2)",
        "kind": "string",
        "other": "string",
        "tags": "map<string,array<int>>",
        "mixed": "string",
        "wide": "bigint",
        "parent": "string",
        "uid": "string",
        "clock": "int",
    }


def test_a_json_schema_gives_columns() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "amount": {"type": ["null", "number"]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
            "any": {},
            "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
        "$defs": {"line": {"properties": {"sku": {"type": "string"}, "inner": {"$ref": "#/$defs/line"}}}},
    }
    origin = Origin(JSON_SCHEMA, Schema(json.dumps(schema), "JSON"))
    assert format_of(JSON_SCHEMA).spark_type(None, origin).simpleString() == (
        "struct<id:bigint,amount:double,lines:array<struct<sku:string,inner:string>>,any:string,"
        "flags:map<string,boolean>,note:string,either:string>"
    )


def test_values_of_avro_become_arrow_and_come_back() -> None:
    value = {
        "id": 1,
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "price": Decimal("12.50"),
        "kind": "OLD",
        "other": None,
        "tags": {"a": [1, 2]},
        "mixed": 7,
        "wide": 2**40,
        "parent": None,
        "uid": UUID(int=5),
        "clock": time(1, 2, 3, 4000),
    }
    plain = AvroSerializer[Any](None, ORDER).serialize("orders", value)
    read = AvroDeserializer[Any](None, ORDER).deserialize("orders", plain)
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.map_(pa.string(), pa.list_(pa.int32()))),
            ("mixed", pa.string()),
            ("uid", pa.string()),
            ("clock", pa.int32()),
        ]
    )
    convert, back = into_arrow(kind), from_arrow(kind)
    assert convert is not None
    assert back is not None
    array = pa.array([convert(read), None], kind)
    made = back(array.to_pylist()[0])
    assert made == {
        **{name: value[name] for name in ("id", "at", "day", "price", "tags")},
        "mixed": "7",
        "uid": str(UUID(int=5)),
        "clock": ((1 * 60 + 2) * 60 + 3) * 1000 + 4,
    }


def test_json_values_are_what_json_has() -> None:
    given = {
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "raw": b"\x00",
        "price": Decimal("1.5"),
        "took": timedelta(seconds=2),
    }
    made = {"at": "2026-01-02T00:00:00Z", "raw": "AA==", "price": 1.5, "took": "2.000000s"}
    assert json_value([given]) == [made]
    with pytest.raises(ValueError, match="nan is not a number in JSON"):
        json_value({"x": float("nan")})
    with pytest.raises(TypeError, match="is not an object with the fields a"):
        into_arrow(pa.struct([("a", pa.int32())]))(5)  # type: ignore[misc]


def test_without_a_registry_serializers_write_the_data_alone() -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    written = JsonSchemaSerializer[Any](None, schema).serialize("orders", {"id": 1})
    assert written == b'{"id":1}'
    reader = JsonSchemaDeserializer[Any](None, schema)
    assert reader.deserialize("orders", written) == {"id": 1}
    with pytest.raises(ValueError, match="'id' is a required property"):
        reader.deserialize("orders", b"{}")
    with pytest.raises(ValueError, match="ends too early for the schema"):
        AvroDeserializer[Any](None, ORDER).deserialize("orders", b"\x02")
    for made in (AvroDeserializer, JsonSchemaDeserializer):
        with pytest.raises(ClientConfigError, match="without a registry needs a schema"):
            made(None)


def _proto() -> Schema:
    field = FieldDescriptorProto
    fields = [
        field(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL),
        field(name="name", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL),
    ]
    order = DescriptorProto(name="Order", field=fields)
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", message_type=[order])
    return Schema(base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode(), "PROTOBUF")


_FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
_PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}


@pytest.mark.parametrize(
    "origin",
    [
        Origin(AVRO, format_of(AVRO).given_schema({"type": "record", "name": "Order", "fields": _FIELDS})),
        Origin(JSON_SCHEMA, format_of(JSON_SCHEMA).given_schema({"type": "object", "properties": _PROPERTIES})),
        Origin(PROTOBUF, _proto(), message="shop.Order"),
    ],
    ids=lambda origin: origin.format,
)
def test_every_format_reads_what_it_writes(origin: Origin) -> None:
    """As the steps do it in executors, where the writers and readers arrive pickled."""
    kind: Any = format_of(origin.format).spark_type(None, origin)
    assert kind.simpleString() == "struct<id:bigint,name:string>"
    fields = pa.schema([("id", pa.int64()), ("name", pa.string())])
    target = Target("orders", subjects.topic_name, register=True, use_latest=False, is_key=False)
    write = pickle.loads(pickle.dumps(RowWriter(WrittenColumn(origin, target, "value", ("id", "name")), fields, None)))
    read = pickle.loads(pickle.dumps(RowReader(origin, "value", None, False, fields)))
    row = {"id": 7, "name": "seven"}

    assert read(write(row)) == row
    with pytest.raises(ValueError, match="value is null"):
        read({"value": None})
