"""Avro: columns and values of a schema. What Spark has no type for (unions of several types, recursion) is JSON text.

See `formats` for what the public functions do.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.client.schemas.avro import AvroDeserializer, AvroSerializer, parse_avro_schema
from tidelog.client.schemas.registry import SchemaRegistry
from tidelog.spark.pipeline.definition.schema_steps import AVRO
from tidelog.spark.pipeline.schemas.formats import Target, ValueWriter, given_text, reader_by_text, registered_text
from tidelog.spark.pipeline.schemas.origins import Origin

_PLAIN: Final[Mapping[str, DataType]] = {
    "null": NullType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Final[Mapping[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
_WIDER: Final = {
    frozenset({"int", "long"}): LongType(),
    frozenset({"float", "double"}): DoubleType(),
    frozenset({"int", "float"}): DoubleType(),
    frozenset({"int", "double"}): DoubleType(),
}
_DECIMAL_DIGITS_MAX: Final = 38


given_schema: Final = partial(given_text, AVRO)
registered_schema: Final = registered_text
value_reader: Final = partial(reader_by_text, AvroDeserializer[Any])


def spark_type(registry: SchemaRegistry | None, origin: Origin) -> DataType:
    parsed = parse_avro_schema(registry, origin.schema)
    named = dict(parsed.get("__named_schemas__", {})) if isinstance(parsed, dict) else {}
    return _type(parsed, named, ())


def value_writer(registry: SchemaRegistry | None, origin: Origin, target: Target) -> ValueWriter:
    schema = origin.schema
    own = None if target.use_latest else schema.text
    return AvroSerializer[Any](registry, own, references=schema.references, **target.serializer_options())


def _type(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        return _PLAIN[schema] if schema in _PLAIN else _type(named[schema], named, inside)
    logical = schema.get("logicalType")
    if logical == "decimal" and schema.get("precision", 0) <= _DECIMAL_DIGITS_MAX:
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    return _built(schema, named, inside)


def _built(schema: dict[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    kind = schema["type"]
    if kind in ("record", "error"):
        name = schema["name"]
        if name in inside:
            return StringType()
        named[name] = schema
        fields = schema["fields"]
        return StructType([StructField(each["name"], _type(each["type"], named, (*inside, name))) for each in fields])
    if kind == "array":
        return ArrayType(_type(schema["items"], named, inside))
    if kind == "map":
        return MapType(StringType(), _type(schema["values"], named, inside))
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
        return _PLAIN[kind]
    return _type(kind, named, inside)


def _union(branches: list[Any], named: dict[str, Any], inside: tuple[str, ...]) -> DataType:
    real = [branch for branch in branches if branch != "null"]
    if len(real) == 1:
        return _type(real[0], named, inside)
    plain = frozenset(branch for branch in real if isinstance(branch, str))
    return _WIDER.get(plain, StringType()) if len(plain) == len(real) else StringType()
