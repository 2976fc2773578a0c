"""The columns of a JSON Schema. What has no single type (`oneOf` of several, no `type`, recursion) is JSON text."""

import json
from collections.abc import Mapping
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

from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.client.schemas.serializing import referenced

_PLAIN: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_TEXT: Final = StringType()


def json_type(registry: SchemaRegistry | None, schema: Schema) -> DataType:
    """The Spark type of a JSON Schema: a struct for an object with properties."""
    others = {name: json.loads(used.text) for name, used in referenced(registry, schema).items()}
    root = json.loads(schema.text)
    return _type(root, root, others, ())


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
