"""Makes the steps for values with schemas, see `definition.schema_steps`."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from tidelog.spark.pipeline.applying.steps import PackSchema, ParseSchema
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PROTOBUF, SchemaText, Strategy


class ParseOptions(TypedDict, total=False):
    """The arguments that reading has in all formats."""

    registry: str | None
    subject: str | None
    column: str
    into: str | None
    registry_options: Mapping[str, Any]


class PackOptions(TypedDict, total=False):
    """The arguments that writing has in all formats."""

    key: str | None
    schema: SchemaText | None
    registry: str | None
    topic: str | None
    subject: Strategy
    register: bool
    registry_options: Mapping[str, Any]


def parse_avro(schema: SchemaText | None = None, **options: Unpack[ParseOptions]) -> ParseSchema:
    """A step: the Avro data in `column` becomes the columns of the schema, or one column `into`.

    The schema is `schema`, or the newest of `subject` in `registry`. `registry_options` are those of `SchemaRegistry`:
    `username`, `password`, `headers`, `timeout`.
    """
    return _parse(AVRO, schema, None, options)


def parse_json_schema(schema: SchemaText | None = None, **options: Unpack[ParseOptions]) -> ParseSchema:
    """A step: the JSON in `column`, checked by a JSON Schema, becomes the schema's columns, or one column `into`.

    The other arguments are those of `parse_avro`.
    """
    return _parse(JSON_SCHEMA, schema, None, options)


def parse_protobuf(
    schema: SchemaText | None = None, *, message: str | None = None, **options: Unpack[ParseOptions]
) -> ParseSchema:
    """A step: the Protobuf message in `column` becomes the columns of its fields, or one column `into`.

    `message` is its full name, such as `shop.Order`; without it, the file's first message. The other arguments are
    those of `parse_avro`.
    """
    return _parse(PROTOBUF, schema, message, options)


def pack_avro(*columns: str, key_schema: SchemaText | None = None, **options: Unpack[PackOptions]) -> PackSchema:
    """A step: `columns` (default: the schema's) become an Avro record in `value`.

    With `registry`, the schema is registered for `topic` under the subject that `subject` names; `register=False`
    expects it there, and without `schema` the newest of the subject is used. `key` names the column of the record's
    key: text, or Avro by `key_schema`.
    """
    return _pack(AVRO, columns, options, key_schema=key_schema)


def pack_json_schema(*columns: str, key_schema: SchemaText | None = None, **options: Unpack[PackOptions]) -> PackSchema:
    """A step: `columns` (default: the schema's) become a JSON object in `value`, checked by the schema.

    The other arguments are those of `pack_avro`.
    """
    return _pack(JSON_SCHEMA, columns, options, key_schema=key_schema)


def pack_protobuf(*columns: str, message: str | None = None, **options: Unpack[PackOptions]) -> PackSchema:
    """A step: `columns` (default: the message's fields) become a Protobuf message in `value`.

    `message` is its full name, such as `shop.Order`; without it, the file's first message. The other arguments are
    those of `pack_avro`.
    """
    return _pack(PROTOBUF, columns, options, message=message)


def _parse(kind: str, schema: SchemaText | None, message: str | None, options: ParseOptions) -> ParseSchema:
    _check_names(f"parse_{kind}", options, ParseOptions)
    return ParseSchema(kind, schema, message=message, **options)


def _pack(kind: str, columns: tuple[str, ...], options: PackOptions, **more: Any) -> PackSchema:
    _check_names(f"pack_{kind}", options, PackOptions)
    return PackSchema(kind, columns or None, **options, **more)


def _check_names(function: str, given: Mapping[str, Any], known: type) -> None:
    """Python itself only checks the names of arguments that are in the signature."""
    for name in given:
        if name not in known.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
