"""Steps for values with schemas: Avro, JSON Schema and Protobuf. Plain data: nothing is imported before they run.

With `registry`, a value has Confluent's wire format: the id of the schema it was written with, then the data. It is
read with the writer's schema and turned into the columns of the reader's, which is `schema` or the newest of `subject`.
Without `registry`, a value is the data alone, and `schema` describes it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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


def parse_avro(
    schema: SchemaText | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    column: str = "value",
    into: str | None = None,
    registry_options: Mapping[str, Any] | None = None,
) -> ParseSchema:
    """A step: the Avro data in `column` becomes the columns of the schema, or one column `into`.

    `registry_options` are those of `SchemaRegistry`: `username`, `password`, `headers`, `timeout`.
    """
    return ParseSchema(AVRO, schema, registry, subject, None, column, into, registry_options or {})


def parse_json_schema(
    schema: SchemaText | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    column: str = "value",
    into: str | None = None,
    registry_options: Mapping[str, Any] | None = None,
) -> ParseSchema:
    """A step: the JSON in `column`, checked by a JSON Schema, becomes the schema's columns, or one column `into`."""
    return ParseSchema(JSON_SCHEMA, schema, registry, subject, None, column, into, registry_options or {})


def parse_protobuf(
    schema: SchemaText | None = None,
    *,
    message: str | None = None,
    registry: str | None = None,
    subject: str | None = None,
    column: str = "value",
    into: str | None = None,
    registry_options: Mapping[str, Any] | None = None,
) -> ParseSchema:
    """A step: the Protobuf message in `column` becomes the columns of its fields, or one column `into`.

    `message` is its full name, such as `shop.Order`; without it, the file's first message.
    """
    return ParseSchema(PROTOBUF, schema, registry, subject, message, column, into, registry_options or {})


def pack_avro(
    *columns: str,
    key: str | None = None,
    schema: SchemaText | None = None,
    key_schema: SchemaText | None = None,
    registry: str | None = None,
    topic: str | None = None,
    subject: Strategy = "topic_name",
    register: bool = True,
    registry_options: Mapping[str, Any] | None = None,
) -> PackSchema:
    """A step: `columns` (default: the schema's) become an Avro record in `value`.

    With `registry`, the schema is registered for `topic` under the subject that `subject` names; `register=False`
    expects it there, and without `schema` the newest of the subject is used. `key` names the column of the record's
    key: text, or Avro by `key_schema`.
    """
    return PackSchema(
        AVRO, columns or None, key, schema, key_schema, registry, topic, None, subject, register, registry_options or {}
    )


def pack_json_schema(
    *columns: str,
    key: str | None = None,
    schema: SchemaText | None = None,
    key_schema: SchemaText | None = None,
    registry: str | None = None,
    topic: str | None = None,
    subject: Strategy = "topic_name",
    register: bool = True,
    registry_options: Mapping[str, Any] | None = None,
) -> PackSchema:
    """A step: `columns` (default: the schema's) become a JSON object in `value`, checked by the schema.

    The other arguments are those of `pack_avro`.
    """
    return PackSchema(
        JSON_SCHEMA,
        columns or None,
        key,
        schema,
        key_schema,
        registry,
        topic,
        None,
        subject,
        register,
        registry_options or {},
    )


def pack_protobuf(
    *columns: str,
    key: str | None = None,
    schema: SchemaText | None = None,
    message: str | None = None,
    registry: str | None = None,
    topic: str | None = None,
    subject: Strategy = "topic_name",
    register: bool = True,
    registry_options: Mapping[str, Any] | None = None,
) -> PackSchema:
    """A step: `columns` (default: the message's fields) become a Protobuf message in `value`.

    `message` is its full name, such as `shop.Order`; without it, the file's first message. The other arguments are
    those of `pack_avro`.
    """
    chosen = columns or None
    return PackSchema(
        PROTOBUF, chosen, key, schema, None, registry, topic, message, subject, register, registry_options or {}
    )
