"""Which schema a step uses, as plain data that travels to executors, and the registry it came from.

A process has one `SchemaRegistry` for each address, so that each schema is fetched once.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tidelog.client.errors import ClientError
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PROTOBUF, SchemaText

SUFFIXES: Final = {AVRO: (".avsc", ".json"), JSON_SCHEMA: (".json",), PROTOBUF: (".proto", ".desc", ".pb")}
REGISTRY_TYPES: Final = {AVRO: "AVRO", JSON_SCHEMA: "JSON", PROTOBUF: "PROTOBUF"}


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A registry by URL, and the options of `SchemaRegistry`, such as a password."""

    url: str
    options: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        return f"RegistryAddress({self.url})"


@dataclass(frozen=True, slots=True)
class Origin:
    """A schema and the registry that its data refers to."""

    format: str
    schema: Schema
    registry: RegistryAddress | None = None
    message: str | None = None


def address_of(registry: str | None, options: Mapping[str, Any]) -> RegistryAddress | None:
    """The address that a step names."""
    if registry is None:
        return None
    plain = {name: tuple(value.items()) if isinstance(value, Mapping) else value for name, value in options.items()}
    return RegistryAddress(registry, tuple(sorted(plain.items())))


@lru_cache(maxsize=64)
def open_registry(address: RegistryAddress) -> SchemaRegistry:
    """The client of this process for a registry."""
    options: dict[str, Any] = {name: dict(value) if name == "headers" else value for name, value in address.options}
    return SchemaRegistry(address.url, **options)


def registry_of(origin: Origin) -> SchemaRegistry | None:
    """The registry of this process for a schema; None if the data does not refer to one."""
    return None if origin.registry is None else open_registry(origin.registry)


def newest(registry: SchemaRegistry, subject: str, format: str) -> Schema:  # noqa: A002 - as in the steps
    """The newest version of a subject. Raises PipelineError for a subject of another format."""
    try:
        found = registry.latest(subject).schema
    except ClientError as error:
        raise PipelineError(f"subject {subject!r}: {error}") from error
    if found.type != REGISTRY_TYPES[format]:
        raise PipelineError(f"subject {subject!r} has a schema of type {found.type}, not {REGISTRY_TYPES[format]}")
    return found


def schema_text(schema: SchemaText, format: str) -> str:  # noqa: A002 - as in the steps
    """The text of a schema that a step names: a file's, or the text itself."""
    if isinstance(schema, Mapping):
        return json.dumps(schema)
    file = file_of(schema, format)
    return str(schema) if file is None else _found(file).read_text(encoding="utf-8")


def file_of(schema: SchemaText, format: str) -> Path | None:  # noqa: A002 - as in the steps
    """The file that `schema` names; None if it is the text of a schema."""
    if isinstance(schema, os.PathLike):
        return Path(schema)
    is_file = isinstance(schema, str) and "\n" not in schema and schema.endswith(SUFFIXES[format])
    return Path(str(schema)) if is_file else None


def find_file(file: Path) -> Path | None:
    """A file, looked for in the working directory and beside the pipeline's own file."""
    places = [file] if file.is_absolute() else [file, *(Path(place, file) for place in sys.path)]
    return next((place for place in places if place.is_file()), None)


def _found(file: Path) -> Path:
    found = find_file(file)
    if found is None:
        raise PipelineError(f"schema file {str(file)!r} does not exist")
    return found
