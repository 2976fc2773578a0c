"""The steps `parse` and `pack` for values with schemas. Imports Spark, so it is imported when a pipeline runs.

The schema is found on the driver, which derives the columns from it; executors read and write values with the
serializers of `tidelog.client.schemas`. A registry that does not answer fails the batch, not the rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import BinaryType, StructField, StructType

from tidelog.client.errors import ClientError
from tidelog.client.schemas import subjects
from tidelog.client.schemas.registry import RegistryUnavailable, Schema, SchemaRegistry
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.schema_steps import PackSchema, ParseSchema
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.guarded import map_rows
from tidelog.spark.pipeline.schemas.formats import Target, format_of
from tidelog.spark.pipeline.schemas.origins import Origin, address_of, newest, open_registry
from tidelog.spark.pipeline.schemas.rows import RowReader, RowWriter, WrittenColumn, value_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOPIC: Final = "to_topic"
_REGISTERS: ContextVar[bool] = ContextVar("registers", default=True)


@contextmanager
def without_registering() -> Iterator[None]:
    """Steps that are planned in this block register no schema."""
    token = _REGISTERS.set(False)
    try:
        yield
    finally:
        _REGISTERS.reset(token)


def parse(rows: "DataFrame", step: ParseSchema) -> "DataFrame":
    """The value in a column as the columns of its schema."""
    address = address_of(step.registry, step.registry_options)
    registry = None if address is None else open_registry(address)
    origin = Origin(step.format, _schema_of(step, registry, step.subject), address, step.message)
    made = columns_of(origin, registry, step.into)
    reader = RowReader(origin, step.column, step.into, step.allow_null, _arrow(rows, made))
    return map_rows(rows, reader, made, [step.column], fatal=(RegistryUnavailable,))


def pack(rows: "DataFrame", step: PackSchema) -> "DataFrame":
    """Columns as a value with a schema; a key as text, or with a schema too."""
    address = address_of(step.registry, step.registry_options)
    registry = None if address is None else open_registry(address)
    origin = Origin(step.format, _schema_of(step, registry, None), address, step.message)
    columns = _columns_to_write(rows, step, origin, registry)
    writers = [WrittenColumn(origin, _target(step, is_key=False), "value", tuple(columns))]
    if step.key is not None and step.key_schema is not None:
        key_origin = replace(origin, schema=format_of(step.format).given_schema(step.key_schema))
        writers.append(WrittenColumn(key_origin, _target(step, is_key=True), "key", (step.key,)))
    _register(writers, step)
    if step.key is not None and step.key_schema is None:
        rows = rows.withColumn("key", F.col(f"`{step.key}`").cast("string").cast("binary"))
    for writer in writers:
        rows = _written(rows, writer, step)
    kept = [name for name in ("headers", _TOPIC, "to_partition", RECORD, ERROR) if name in rows.columns]
    return rows.select(*[name for name in ("key", "value") if name in rows.columns], *kept)


def columns_of(origin: Origin, registry: SchemaRegistry | None, into: str | None) -> StructType:
    """The columns that a schema's values become: the fields of a record, or one column."""
    kind = format_of(origin.format).spark_type(registry, origin)
    if into is not None:
        return StructType([StructField(into, kind)])
    if not isinstance(kind, StructType):
        raise PipelineError(f"the schema is {kind.simpleString()}, not a record: name a column for it, into='id'")
    return kind


# --- which schema ---


def _schema_of(step: ParseSchema | PackSchema, registry: SchemaRegistry | None, subject: str | None) -> Schema:
    if step.schema is not None:
        return format_of(step.format).given_schema(step.schema)
    if registry is None:
        raise PipelineError(f"{step.name} needs schema=… or registry=…")
    if isinstance(step, PackSchema):
        subject = _subject_to_write(step)
    if subject is None:
        raise PipelineError(f"{step.name} needs schema=… or subject=…, whose newest schema gives the columns")
    return format_of(step.format).registered_schema(registry, newest(registry, subject, step.format))


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


# --- writing ---


def _target(step: PackSchema, *, is_key: bool) -> Target:
    return Target(step.topic, strategy(step), step.register, step.schema is None and not is_key, is_key)


def _columns_to_write(
    rows: "DataFrame", step: PackSchema, origin: Origin, registry: SchemaRegistry | None
) -> list[str]:
    if step.columns is not None:
        return list(step.columns)
    there = set(rows.columns)
    return [name for name in columns_of(origin, registry, None).fieldNames() if name in there]


def _register(writers: list[WrittenColumn], step: PackSchema) -> None:
    """Register the schemas before the first row, so that a refusal stops the pipeline and is no row's failure."""
    if step.registry is None or not _REGISTERS.get():
        return
    if step.topic is None and step.subject != "record_name":
        return  # The column `to_topic` names the topics: their schemas are registered when they occur.
    for writer in writers:
        try:
            value_writer(writer.origin, writer.target).prepare(step.topic or "")
        except (ClientError, ValueError) as error:
            raise PipelineError(f"{step.name}: {error}") from error


def _written(rows: "DataFrame", writer: WrittenColumn, step: PackSchema) -> "DataFrame":
    missing = [name for name in writer.columns if name not in rows.columns]
    if missing:
        there = ", ".join(name for name in rows.columns if not name.startswith("_"))
        raise PipelineError(f"column {missing[0]!r} does not exist; the columns are {there}")
    needs_topic = step.registry is not None and step.topic is None and step.subject != "record_name"
    if needs_topic and _TOPIC not in rows.columns:
        raise PipelineError(f"{step.name} needs topic=…, or a column {_TOPIC!r}: its schema is registered by topic")
    fields = StructType([rows.schema[name] for name in writer.columns])
    function = RowWriter(writer, _arrow(rows, fields), _TOPIC if needs_topic else None)
    read = [*writer.columns, *([_TOPIC] if needs_topic else [])]
    return map_rows(
        rows, function, StructType([StructField(writer.column, BinaryType())]), read, fatal=(RegistryUnavailable,)
    )
