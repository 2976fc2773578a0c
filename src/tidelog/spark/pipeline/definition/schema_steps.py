"""Steps for values with schemas: Avro, JSON Schema and Protobuf. Plain data: nothing is imported before they run.

With `registry`, a value has Confluent's wire format: the id of the schema it was written with, then the data. It is
read with the writer's schema and turned into the columns of the reader's, which is `schema` or the newest of `subject`.
Without `registry`, a value is the data alone, and `schema` describes it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AVRO: Final = "avro"
JSON_SCHEMA: Final = "json_schema"
PROTOBUF: Final = "protobuf"

SchemaText = str | os.PathLike[str] | Mapping[str, Any]
"""A file, the text of a schema, or a schema as a dict."""

STRATEGIES: Final = ("topic_name", "record_name", "topic_record_name")
"""Names of the subject strategies of `tidelog.client.schemas`."""

Strategy = str | Callable[[str, bool, str | None], str]


@dataclass(frozen=True)
class ParseSchema:
    """A column with a schema, as columns; values that do not match fail."""

    format: str
    schema: SchemaText | None = None
    registry: str | None = None
    subject: str | None = None
    message: str | None = None
    column: str = "value"
    into: str | None = None
    registry_options: Mapping[str, Any] = field(default_factory=dict)
    allow_null: bool = False
    """Whether a column without a value stays so, and is not a failure."""

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"parse_{self.format}({self.column})"

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.schemas.columns import parse

        return parse(rows, self)


@dataclass(frozen=True)
class PackSchema:
    """Columns as a value with a schema; rows that do not match fail."""

    format: str
    columns: tuple[str, ...] | None = None
    key: str | None = None
    schema: SchemaText | None = None
    key_schema: SchemaText | None = None
    registry: str | None = None
    topic: str | None = None
    message: str | None = None
    subject: Strategy = "topic_name"
    register: bool = True
    registry_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"pack_{self.format}"

    def __call__(self, rows: "DataFrame") -> "DataFrame":
        from tidelog.spark.pipeline.schemas.columns import pack

        return pack(rows, self)


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
