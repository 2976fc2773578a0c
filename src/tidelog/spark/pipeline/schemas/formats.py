"""What every format of schemas offers, and the module of each, imported when a step first uses it.

A module of a format has the functions of `Format`, and nothing else knows one format from another.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from pyspark.sql.types import DataType

from tidelog.client.schemas import subjects
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PROTOBUF, SchemaText
from tidelog.spark.pipeline.schemas.origins import REGISTRY_TYPES, Origin, schema_text

ReadValue = Callable[[bytes], Any]

_MODULES: Final = {AVRO: "avro", JSON_SCHEMA: "json_schema", PROTOBUF: "protobuf"}


class Target(NamedTuple):
    """Under which subject a schema is registered, and for which topic."""

    topic: str | None
    strategy: subjects.SubjectNameStrategy
    register: bool
    use_latest: bool
    is_key: bool

    def serializer_options(self) -> dict[str, Any]:
        """The options that the serializers of all formats have."""
        return {
            "is_key": self.is_key,
            "subject": self.strategy,
            "register": self.register,
            "use_latest": self.use_latest,
        }


class ValueWriter(Protocol):
    """Writes values by one schema."""

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """The bytes of a value. Raises ValueError for one that does not match the schema."""

    def prepare(self, topic: str, /) -> object:
        """Register the schema for a topic, before there is a value."""


class Format(Protocol):
    """A format of schemas."""

    def given_schema(self, schema: SchemaText, /) -> Schema:
        """The schema that a step names: a file, a text or a dict."""

    def registered_schema(self, registry: SchemaRegistry, schema: Schema, /) -> Schema:
        """A schema of a registry in the form that the other functions take."""

    def spark_type(self, registry: SchemaRegistry | None, origin: Origin, /) -> DataType:
        """The type of the schema's values: a struct for a record."""

    def value_reader(self, registry: SchemaRegistry | None, origin: Origin, /) -> ReadValue:
        """A function from the bytes of a value to what its schema describes. It raises ValueError for other bytes."""

    def value_writer(self, registry: SchemaRegistry | None, origin: Origin, target: Target, /) -> ValueWriter:
        """A writer of the schema's values."""


@lru_cache
def format_of(name: str) -> Format:
    """The format of a step."""
    return cast(Format, import_module(f"tidelog.spark.pipeline.schemas.{_MODULES[name]}"))


# Formats whose schemas are JSON texts: their functions differ by the name of the format and by a class of the client.


def given_text(format_name: str, schema: SchemaText) -> Schema:
    """`Format.given_schema`, after the name of the format."""
    return Schema(schema_text(schema, format_name), REGISTRY_TYPES[format_name])


def registered_text(registry: SchemaRegistry, schema: Schema) -> Schema:  # noqa: ARG001 - see `Format`
    """`Format.registered_schema`: the text of a registry is the one that the other functions take."""
    return schema


def reader_by_text(deserializer: Callable[..., Any], registry: SchemaRegistry | None, origin: Origin) -> ReadValue:
    """`Format.value_reader`, after the client's deserializer of the format."""
    schema = origin.schema
    return partial(deserializer(registry, schema.text, references=schema.references).deserialize, "")
