"""The steps `parse` and `pack` for values with schemas. Imports Spark, so it is imported when a pipeline runs.

The schema is found on the driver, which derives the columns from it; executors read and write values with the
serializers of `tidelog.client.schemas`. A registry that does not answer fails the batch, not the rows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from tidelog.client.errors import ClientError
from tidelog.client.schemas import subjects
from tidelog.client.schemas.registry import RegistryUnavailable, Schema, SchemaRegistry
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PackSchema, ParseSchema
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import map_rows
from tidelog.spark.pipeline.schemas.arrow_values import Convert, from_arrow, into_arrow, json_value, without_nulls
from tidelog.spark.pipeline.schemas.origins import (
    Origin,
    address_of,
    file_of,
    find_file,
    newest,
    open_registry,
    registry_of,
    schema_text,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPES: Final = {AVRO: "AVRO", JSON_SCHEMA: "JSON"}
_TOPIC: Final = "to_topic"


def parse(rows: "DataFrame", step: ParseSchema) -> "DataFrame":
    """The value in a column as the columns of its schema."""
    address = address_of(step.registry, step.registry_options)
    registry = None if address is None else open_registry(address)
    origin = Origin(step.format, _schema_of(step, registry, step.subject), address, step.message)
    made = columns_of(origin, registry, step.into)
    reader = _Reader(origin, step.column, step.into, step.allow_null, _arrow(rows, made))
    return map_rows(rows, reader, made, [step.column], fatal=(RegistryUnavailable,))


def pack(rows: "DataFrame", step: PackSchema) -> "DataFrame":
    """Columns as a value with a schema; a key as text, or with a schema too."""
    address = address_of(step.registry, step.registry_options)
    registry = None if address is None else open_registry(address)
    origin = Origin(step.format, _schema_of(step, registry, None), address, step.message)
    columns = _columns_to_write(rows, step, origin, registry)
    writers = [_Writer(origin, _target(step, is_key=False), "value", tuple(columns))]
    if step.key is not None and step.key_schema is not None:
        key_origin = replace(origin, schema=Schema(schema_text(step.key_schema, step.format), _TYPES[step.format]))
        writers.append(_Writer(key_origin, _target(step, is_key=True), "key", (step.key,)))
    _register(writers, step)
    if step.key is not None and step.key_schema is None:
        rows = rows.withColumn("key", F.col(f"`{step.key}`").cast("string").cast("binary"))
    for writer in writers:
        rows = _written(rows, writer, step)
    kept = [name for name in ("headers", _TOPIC, "to_partition", RECORD, ERROR) if name in rows.columns]
    return rows.select(*[name for name in ("key", "value") if name in rows.columns], *kept)


def columns_of(origin: Origin, registry: SchemaRegistry | None, into: str | None) -> StructType:
    """The columns that a schema's values become: the fields of a record, or one column."""
    kind = _type_of(origin, registry)
    if into is not None:
        return StructType([StructField(into, kind)])
    if not isinstance(kind, StructType):
        raise PipelineError(f"the schema is {kind.simpleString()}, not a record: name a column for it, into='id'")
    return kind


def _type_of(origin: Origin, registry: SchemaRegistry | None) -> DataType:
    assert origin.schema is not None, "found by the caller"
    if origin.format == AVRO:
        from tidelog.spark.pipeline.schemas.avro import avro_type

        return avro_type(registry, origin.schema)
    if origin.format == JSON_SCHEMA:
        from tidelog.spark.pipeline.schemas.json_schema import json_type

        return json_type(registry, origin.schema)
    from tidelog.spark.pipeline.schemas.protobuf import message_class, protobuf_type

    return protobuf_type(message_class(origin.schema, origin.message).DESCRIPTOR)


# --- which schema ---


def _schema_of(step: ParseSchema | PackSchema, registry: SchemaRegistry | None, subject: str | None) -> Schema:
    if step.schema is not None:
        return _given_schema(step)
    if registry is None:
        raise PipelineError(f"{step.name} needs schema=… or registry=…")
    if isinstance(step, PackSchema):
        subject = _subject_to_write(step)
    if subject is None:
        raise PipelineError(f"{step.name} needs schema=… or subject=…, whose newest schema gives the columns")
    found = newest(registry, subject, step.format)
    return found if step.format in _TYPES else _compile_registered(registry, found)


def _given_schema(step: ParseSchema | PackSchema) -> Schema:
    assert step.schema is not None
    if step.format in _TYPES:
        return Schema(schema_text(step.schema, step.format), _TYPES[step.format])
    from tidelog.spark.pipeline.schemas.protobuf import compile_file, compile_text

    file = file_of(step.schema, step.format)
    found = None if file is None else find_file(file)
    return compile_text(schema_text(step.schema, step.format), {}) if found is None else compile_file(found)


def _compile_registered(registry: SchemaRegistry, schema: Schema) -> Schema:
    from tidelog.spark.pipeline.schemas.protobuf import compile_registered

    return compile_registered(registry, schema)


def _subject_to_write(step: PackSchema) -> str:
    if step.topic is None:
        raise PipelineError(f"{step.name} needs schema=…, or topic=… to look up the newest schema of its subject")
    return strategy(step)(step.topic, False, step.message)


def strategy(step: PackSchema) -> subjects.SubjectNameStrategy:
    """The subject strategy of a step, which may be named by text."""
    if not isinstance(step.subject, str):
        return step.subject
    found: subjects.SubjectNameStrategy = getattr(subjects, step.subject)
    return found


# --- reading ---


def _arrow(rows: "DataFrame", made: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(made, timezone=rows.sparkSession.conf.get("spark.sql.session.timeZone"))


@dataclass
class _Reader:
    """Reads the value of a row. Travels to executors as plain data and opens what it needs there."""

    origin: Origin
    column: str
    into: str | None
    allow_null: bool
    fields: pa.Schema
    _convert: Convert | None = field(default=None, repr=False)
    _read: Callable[[bytes], Any] | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.origin, self.column, self.into, self.allow_null, self.fields

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.origin, self.column, self.into, self.allow_null, self.fields = state
        self._convert = self._read = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        data = row[self.column]
        if data is None:
            if self.allow_null:
                return dict.fromkeys(self.fields.names)
            raise ValueError(f"{self.column} is null")
        if self._read is None or self._convert is None:
            self._convert = into_arrow(pa.struct(list(self.fields)))
            assert self._convert is not None, "a struct is always picked"
            self._read = value_reader(self.origin)
        value = self._read(bytes(data))
        made: dict[str, Any] = self._convert(value if self.into is None else {self.into: value})
        return made


@lru_cache(maxsize=64)
def value_reader(origin: Origin) -> Callable[[bytes], Any]:
    """A function from the bytes of a value to what its schema describes. Raises ValueError for other bytes."""
    registry, schema = registry_of(origin), origin.schema
    assert schema is not None
    if origin.format == AVRO:
        from tidelog.client.schemas.avro import AvroDeserializer

        avro = AvroDeserializer[Any](registry, schema.text, references=schema.references)
        return lambda data: avro.deserialize("", data)
    if origin.format == JSON_SCHEMA:
        from tidelog.client.schemas.json_schema import JsonSchemaDeserializer

        checked = JsonSchemaDeserializer[Any](registry, schema.text, references=schema.references)
        return lambda data: checked.deserialize("", data)
    return _protobuf_reader(origin, schema)


def _protobuf_reader(origin: Origin, schema: Schema) -> Callable[[bytes], Any]:
    from google.protobuf.message import DecodeError

    from tidelog.client.schemas.protobuf import ProtobufDeserializer
    from tidelog.spark.pipeline.schemas.protobuf import message_class, message_reader

    made = message_class(schema, origin.message)
    as_value = message_reader(made.DESCRIPTOR)
    if origin.registry is not None:
        framed = ProtobufDeserializer(None, made)
        return lambda data: as_value(framed.deserialize("", data))

    def read(data: bytes) -> Any:
        try:
            return as_value(made.FromString(data))
        except DecodeError as error:
            raise ValueError(f"not a {made.DESCRIPTOR.full_name}: {error}") from error

    return read


# --- writing ---


class _Target(NamedTuple):
    """Under which subject a schema is registered, and for which topic."""

    topic: str | None
    strategy: subjects.SubjectNameStrategy
    register: bool
    use_latest: bool
    is_key: bool


def _target(step: PackSchema, *, is_key: bool) -> _Target:
    return _Target(step.topic, strategy(step), step.register, step.schema is None and not is_key, is_key)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Which columns become which column of the record, by which schema."""

    origin: Origin
    target: _Target
    column: str
    columns: tuple[str, ...]


def _columns_to_write(
    rows: "DataFrame", step: PackSchema, origin: Origin, registry: SchemaRegistry | None
) -> list[str]:
    if step.columns is not None:
        return list(step.columns)
    there = set(rows.columns)
    return [name for name in columns_of(origin, registry, None).fieldNames() if name in there]


def _register(writers: list[_Writer], step: PackSchema) -> None:
    """Register the schemas before the first row, so that a refusal stops the pipeline and is no row's failure."""
    if step.registry is None:
        return
    if step.topic is None and step.subject != "record_name":
        return  # The column `to_topic` names the topics: their schemas are registered when they occur.
    for writer in writers:
        try:
            opened_writer(writer.origin, writer.target).prepare(step.topic or "")
        except (ClientError, ValueError) as error:
            raise PipelineError(f"{step.name}: {error}") from error


def _written(rows: "DataFrame", writer: _Writer, step: PackSchema) -> "DataFrame":
    missing = [name for name in writer.columns if name not in rows.columns]
    if missing:
        there = ", ".join(name for name in rows.columns if not name.startswith("_"))
        raise PipelineError(f"column {missing[0]!r} does not exist; the columns are {there}")
    needs_topic = step.registry is not None and step.topic is None and step.subject != "record_name"
    if needs_topic and _TOPIC not in rows.columns:
        raise PipelineError(f"{step.name} needs topic=…, or a column {_TOPIC!r}: its schema is registered by topic")
    fields = StructType([rows.schema[name] for name in writer.columns])
    function = _RowWriter(writer, _arrow(rows, fields), _TOPIC if needs_topic else None)
    read = [*writer.columns, *([_TOPIC] if needs_topic else [])]
    return map_rows(
        rows, function, StructType([StructField(writer.column, BinaryType())]), read, fatal=(RegistryUnavailable,)
    )


@dataclass
class _RowWriter:
    """Writes the value of a row. Travels to executors as plain data and opens what it needs there."""

    writer: _Writer
    fields: pa.Schema
    topic_column: str | None
    _convert: Convert | None = field(default=None, repr=False)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if self._convert is None:
            self._convert = from_arrow(pa.struct(list(self.fields)))
        assert self._convert is not None
        topic = self.writer.target.topic if self.topic_column is None else row[self.topic_column]
        value = self._convert(row)
        if self.writer.column == "key":
            (value,) = value.values()
        made = opened_writer(self.writer.origin, self.writer.target)
        return {self.writer.column: made.write(topic or "", value)}

    def __getstate__(self) -> tuple[Any, ...]:
        return self.writer, self.fields, self.topic_column

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.writer, self.fields, self.topic_column = state
        self._convert = None


@dataclass(frozen=True, slots=True)
class OpenedWriter:
    """Writes values by one schema; `prepare` registers the schema for a topic before there is a value."""

    write: Callable[[str, Any], bytes]
    prepare: Callable[[str], object]


@lru_cache(maxsize=64)
def opened_writer(origin: Origin, target: _Target) -> OpenedWriter:
    """The writer of this process for a schema."""
    registry, schema = registry_of(origin), origin.schema
    assert schema is not None
    own = None if target.use_latest else schema.text
    given: dict[str, Any] = {
        "is_key": target.is_key,
        "subject": target.strategy,
        "register": target.register,
        "use_latest": target.use_latest,
    }
    if origin.format == AVRO:
        from tidelog.client.schemas.avro import AvroSerializer

        avro = AvroSerializer[Any](registry, own, references=schema.references, **given)
        return OpenedWriter(avro.serialize, avro.prepare)
    if origin.format == JSON_SCHEMA:
        from tidelog.client.schemas.json_schema import JsonSchemaSerializer

        as_json = partial(without_nulls, kept=frozenset(json.loads(schema.text).get("required", ())))
        checked = JsonSchemaSerializer[Any](registry, own, to_dict=as_json, references=schema.references, **given)
        return OpenedWriter(checked.serialize, checked.prepare)
    return _protobuf_writer(origin, schema, registry, given)


def _protobuf_writer(
    origin: Origin, schema: Schema, registry: SchemaRegistry | None, given: dict[str, Any]
) -> OpenedWriter:
    from google.protobuf.json_format import ParseDict, ParseError

    from tidelog.client.schemas.protobuf import ProtobufSerializer
    from tidelog.spark.pipeline.schemas.protobuf import message_class

    made = message_class(schema, origin.message)
    framed = None if registry is None else ProtobufSerializer(registry, made, **given)

    def write(topic: str, value: Any) -> bytes:
        try:
            message = ParseDict(json_value(value, allow_nan=True), made())
        except ParseError as error:
            raise ValueError(str(error)) from error
        return message.SerializeToString() if framed is None else framed.serialize(topic, message)

    return OpenedWriter(write, lambda topic: None if framed is None else framed.prepare(topic))
