"""JSON keys and values, validated by a JSON Schema, in Confluent's wire format.

Needs `pip install 'tidelog[json-schema]'`. Without a registry (None), the JSON text stands alone, and the serializer's
own schema checks it.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from tidelog.client.errors import ClientConfigError
from tidelog.client.schemas.framing import HEADER_BYTES, frame_header, read_schema_id
from tidelog.client.schemas.registry import Schema, SchemaReference, SchemaRegistry
from tidelog.client.schemas.serializing import Registration, missing, referenced, schema_to_write
from tidelog.client.schemas.subjects import SubjectNameStrategy, topic_name

try:
    from jsonschema.exceptions import ValidationError, best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012
except ModuleNotFoundError as error:
    raise missing("jsonschema", "json-schema", error) from error

T = TypeVar("T")


class _Writer(NamedTuple):
    header: bytes
    check: Callable[[Any], None] | None


class JsonSchemaSerializer(Generic[T]):
    """Writes keys or values as JSON after checking them. `to_dict` turns objects of the caller's class into JSON's."""

    def __init__(
        self,
        registry: SchemaRegistry | None,
        schema: str | Mapping[str, Any] | None = None,
        *,
        to_dict: Callable[[T], Any] | None = None,
        validate: bool = True,
        references: tuple[SchemaReference, ...] = (),
        is_key: bool = False,
        subject: SubjectNameStrategy = topic_name,
        register: bool = True,
        normalize: bool = False,
        use_latest: bool = False,
    ) -> None:
        self._registry = registry
        self._own = None if schema is None else Schema(_schema_text(schema), "JSON", references)
        self._to_dict = to_dict
        self._validate = validate
        self._registration = Registration(is_key, subject, register, normalize, use_latest)
        self._writers: dict[str, _Writer] = {}

    def serialize(self, topic: str, value: T) -> bytes:
        """The framed bytes of `value`. Raises ValueError where the schema forbids the value."""
        writer = self.prepare(topic)
        data = value if self._to_dict is None else self._to_dict(value)
        if writer.check is not None:
            writer.check(data)
        return writer.header + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()

    def prepare(self, topic: str) -> _Writer:
        """Find or register the schema for a topic now, and not with the first value."""
        writer = self._writers.get(topic)
        if writer is None:
            writer = self._writers[topic] = self._writer(topic)
        return writer

    def _writer(self, topic: str) -> _Writer:
        if self._registry is None:
            if self._own is None:
                raise ClientConfigError("a JSON Schema serializer without a registry needs a schema")
            return _Writer(b"", checker(None, self._own) if self._validate else None)
        name = None if self._own is None else json.loads(self._own.text).get("title")
        schema_id, schema = schema_to_write(self._registry, self._registration, topic, name, self._own)
        return _Writer(frame_header(schema_id), checker(self._registry, schema) if self._validate else None)


class JsonSchemaDeserializer(Generic[T]):
    """Reads JSON keys or values and checks them by the schema they were written with, or by `schema` if it is given."""

    def __init__(
        self,
        registry: SchemaRegistry | None,
        schema: str | Mapping[str, Any] | None = None,
        *,
        from_dict: Callable[[Any], T] | None = None,
        validate: bool = True,
        references: tuple[SchemaReference, ...] = (),
    ) -> None:
        self._registry = registry
        self._from_dict = from_dict
        self._validate = validate
        self._own = None
        if schema is None and registry is None and validate:
            raise ClientConfigError("a JSON Schema deserializer without a registry needs a schema")
        if schema is not None and validate:
            self._own = checker(registry, Schema(_schema_text(schema), "JSON", references))
        self._checks: dict[int, Callable[[Any], None]] = {}

    def deserialize(self, topic: str, data: bytes) -> T:  # noqa: ARG002 - the topic decides nothing here
        """The value of framed bytes. Raises ValueError for bytes that are no such value."""
        if self._registry is None:
            value = json.loads(data)
            check = self._own
        else:
            schema_id = read_schema_id(data)
            value = json.loads(data[HEADER_BYTES:])
            check = self._own or (self._check(self._registry, schema_id) if self._validate else None)
        if check is not None:
            check(value)
        made: T = value if self._from_dict is None else self._from_dict(value)
        return made

    def _check(self, registry: SchemaRegistry, schema_id: int) -> Callable[[Any], None]:
        check = self._checks.get(schema_id)
        if check is None:
            schema = registry.schema(schema_id)
            if schema.type != "JSON":
                raise ValueError(f"schema {schema_id} is of type {schema.type}, not JSON")
            check = self._checks[schema_id] = checker(registry, schema)
        return check


def _schema_text(schema: str | Mapping[str, Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def checker(registry: SchemaRegistry | None, schema: Schema) -> Callable[[Any], None]:
    """A function that raises ValueError for a value that `schema` forbids, naming the place in the value."""
    resources = [
        (name, Resource.from_contents(json.loads(used.text), default_specification=DRAFT202012))
        for name, used in referenced(registry, schema).items()
    ]
    contents = json.loads(schema.text)
    kind = validator_for(contents, default=Draft202012Validator)
    kind.check_schema(contents)
    validator = kind(contents, registry=Registry().with_resources(resources))

    def check(value: Any) -> None:
        error: ValidationError | None = best_match(validator.iter_errors(value))
        if error is not None:
            raise ValueError(f"{error.message} (at {error.json_path})")

    return check
