"""Mistakes in steps with schemas: missing arguments, files and libraries. Pure, except that it looks for files."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from tidelog.spark.pipeline.definition.schema_steps import (
    AVRO,
    JSON_SCHEMA,
    PROTOBUF,
    STRATEGIES,
    PackSchema,
    ParseSchema,
)
from tidelog.spark.pipeline.definition.steps import ParseDebezium
from tidelog.spark.pipeline.schemas.origins import file_of, find_file

_LIBRARIES: Final = {
    AVRO: ("fastavro", "avro"),
    JSON_SCHEMA: ("jsonschema", "json-schema"),
    PROTOBUF: ("google.protobuf", "protobuf"),
}


def schema_problems(step: ParseSchema | PackSchema) -> Iterator[str]:
    """What is wrong with a step."""
    library, extra = _LIBRARIES[step.format]
    if not _is_there(library):
        yield f"{step.name} needs the library {library}: pip install 'tidelog[{extra}]'"
    if step.registry is not None and not step.registry.startswith(("http://", "https://")):
        yield f"registry {step.registry!r} is not a URL such as http://localhost:8081"
    for schema in (step.schema, step.key_schema if isinstance(step, PackSchema) else None):
        file = None if schema is None else file_of(schema, step.format)
        if file is not None and find_file(file) is None:
            yield f"schema file {str(file)!r} does not exist, neither here nor beside the pipeline's file"
    yield from _missing_schema(step)
    if isinstance(step, PackSchema):
        if isinstance(step.subject, str) and step.subject not in STRATEGIES:
            yield f"subject={step.subject!r} must be one of {', '.join(STRATEGIES)}, or a function"
        if step.key_schema is not None and step.key is None:
            yield "key_schema=… needs key=…, the column of the record's key"


def debezium_problems(step: ParseDebezium) -> Iterator[str]:
    """What is wrong with a step for change events."""
    if step.registry is None:
        if not isinstance(step.schema, str):
            yield f"{step.name} needs the table's columns, such as 'id long, name string', or registry=… and topic=…"
    elif step.topic is None:
        yield f"{step.name} needs topic=…: the subjects <topic>-key and <topic>-value give the columns"
    elif not _is_there("fastavro"):
        yield f"{step.name} needs the library fastavro: pip install 'tidelog[avro]'"


def _missing_schema(step: ParseSchema | PackSchema) -> Iterator[str]:
    if step.schema is not None:
        return
    if step.registry is None:
        yield f"{step.name} needs schema=…, a file or a text, or registry=…, the URL of a schema registry"
    elif isinstance(step, ParseSchema) and step.subject is None:
        yield f"{step.name} needs subject=…, such as 'orders-value', whose newest schema gives the columns, or schema=…"
    elif isinstance(step, PackSchema) and step.topic is None:
        yield f"{step.name} needs schema=…, or topic=… to look up the newest schema of its subject"


def _is_there(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:
        return False
