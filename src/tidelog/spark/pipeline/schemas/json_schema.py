"""JSON Schema: columns and values. What has no single type (`oneOf` of several, no `type`, recursion) is JSON text.

See `formats` for what the public functions do.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tidelog.client.schemas.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from tidelog.client.schemas.registry import SchemaRegistry
from tidelog.client.schemas.serializing import referenced
from tidelog.spark.pipeline.definition.schema_steps import JSON_SCHEMA
from tidelog.spark.pipeline.schemas.arrow_values import without_nulls
from tidelog.spark.pipeline.schemas.formats import Target, ValueWriter, given_text, reader_by_text, registered_text
from tidelog.spark.pipeline.schemas.origins import Origin

_PLAIN: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_TEXT: Final = StringType()


given_schema: Final = partial(given_text, JSON_SCHEMA)
registered_schema: Final = registered_text
value_reader: Final = partial(reader_by_text, JsonSchemaDeserializer[Any])


def spark_type(registry: SchemaRegistry | None, origin: Origin) -> DataType:
    others = {name: json.loads(used.text) for name, used in referenced(registry, origin.schema).items()}
    root = json.loads(origin.schema.text)
    return _type(root, root, others, ())


def value_writer(registry: SchemaRegistry | None, origin: Origin, target: Target) -> ValueWriter:
    schema = origin.schema
    own = None if target.use_latest else schema.text
    as_json = partial(without_nulls, kept=frozenset(json.loads(schema.text).get("required", ())))
    return JsonSchemaSerializer[Any](
        registry, own, to_dict=as_json, references=schema.references, **target.serializer_options()
    )


def _type(schema: Any, root: Any, others: Mapping[str, Any], inside: tuple[str, ...]) -> DataType:
    if not isinstance(schema, dict):
        return _TEXT
    if "$ref" in schema:
        return _referred(schema["$ref"], root, others, inside)
    for choice in ("oneOf", "anyOf"):
        if choice in schema and "type" not in schema:
            real = [each for each in schema[choice] if each.get("type") != "null"]
            return _type(real[0], root, others, inside) if len(real) == 1 else _TEXT
    kinds = schema.get("type", "object" if "properties" in schema else [])
    real_kinds = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    if len(real_kinds) != 1:
        return _PLAIN["number"] if sorted(real_kinds) == ["integer", "number"] else _TEXT
    (kind,) = real_kinds
    if kind == "object":
        return _object(schema, root, others, inside)
    if kind == "array":
        return ArrayType(_type(schema.get("items"), root, others, inside))
    return _PLAIN.get(kind, _TEXT)


def _object(schema: dict[str, Any], root: Any, others: Mapping[str, Any], inside: tuple[str, ...]) -> DataType:
    properties = schema.get("properties")
    if properties:
        fields = [StructField(name, _type(inner, root, others, inside)) for name, inner in properties.items()]
        return StructType(fields)
    values = schema.get("additionalProperties")
    return MapType(StringType(), _type(values, root, others, inside) if isinstance(values, dict) else _TEXT)


def _referred(reference: str, root: Any, others: Mapping[str, Any], inside: tuple[str, ...]) -> DataType:
    name, _, pointer = reference.partition("#")
    target = others.get(name) if name else root
    if target is None or reference in inside:
        return _TEXT
    found = target
    for part in filter(None, pointer.split("/")):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return _type(found, target, others, (*inside, reference))
