"""Avro keys and values in Confluent's wire format. Needs `pip install 'tidelog[avro]'`.

Data is written with the serializer's schema, or the newest of its subject, and read with the schema it was written
with; a reader's schema turns what older or newer producers wrote into what this program expects, by Avro's rules.
Without a registry (None), the data stands alone: nothing before it names a schema, and both sides need the same one.
"""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tidelog.client.errors import ClientConfigError
from tidelog.client.schemas.framing import HEADER_BYTES, frame_header, read_schema_id
from tidelog.client.schemas.registry import Schema, SchemaReference, SchemaRegistry
from tidelog.client.schemas.serializing import Registration, missing, referenced, schema_to_write
from tidelog.client.schemas.subjects import SubjectNameStrategy, topic_name

try:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer
except ModuleNotFoundError as error:
    raise missing("fastavro", "avro", error) from error

T = TypeVar("T")

_BYTES: Final = "bytes"


class _Writer(NamedTuple):
    header: bytes
    schema: Any
    is_bytes: bool


class AvroSerializer(Generic[T]):
    """Writes keys or values with a schema: dictionaries for records, plain values for plain types.

    `to_dict` turns objects of the caller's class into what the schema describes.
    """

    def __init__(
        self,
        registry: SchemaRegistry | None,
        schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        to_dict: Callable[[T], Any] | None = None,
        references: tuple[SchemaReference, ...] = (),
        is_key: bool = False,
        subject: SubjectNameStrategy = topic_name,
        register: bool = True,
        normalize: bool = False,
        use_latest: bool = False,
    ) -> None:
        self._registry = registry
        self._own = None if schema is None else Schema(_schema_text(schema), "AVRO", references)
        self._to_dict = to_dict
        self._registration = Registration(is_key, subject, register, normalize, use_latest)
        self._writers: dict[str, _Writer] = {}

    def serialize(self, topic: str, value: T) -> bytes:
        """The framed bytes of `value`. Raises ValueError or TypeError where the schema forbids it."""
        writer = self.prepare(topic)
        data = value if self._to_dict is None else self._to_dict(value)
        if writer.is_bytes:
            # As Confluent's serializers have it: plain bytes stand without Avro's length before them.
            return writer.header + bytes(data)  # type: ignore[arg-type]
        out = BytesIO()
        out.write(writer.header)
        schemaless_writer(out, writer.schema, data)
        return out.getvalue()

    def prepare(self, topic: str) -> _Writer:
        """Find or register the schema for a topic now, and not with the first value."""
        writer = self._writers.get(topic)
        if writer is None:
            writer = self._writers[topic] = self._writer(topic)
        return writer

    def _writer(self, topic: str) -> _Writer:
        own = None if self._own is None else parse_avro_schema(self._registry, self._own)
        if self._registry is None:
            if own is None:
                raise ClientConfigError("an Avro serializer without a registry needs a schema")
            return _Writer(b"", own, _is_bytes(own))
        name = None if own is None else _record_name(own)
        schema_id, schema = schema_to_write(self._registry, self._registration, topic, name, self._own)
        parsed = parse_avro_schema(self._registry, schema)
        return _Writer(frame_header(schema_id), parsed, _is_bytes(parsed))


class AvroDeserializer(Generic[T]):
    """Reads keys or values with the schema they were written with, resolved to `reader_schema` where one is given.

    `from_dict` makes objects of the caller's class.
    """

    def __init__(
        self,
        registry: SchemaRegistry | None,
        reader_schema: str | Mapping[str, Any] | list[Any] | None = None,
        *,
        from_dict: Callable[[Any], T] | None = None,
        references: tuple[SchemaReference, ...] = (),
    ) -> None:
        self._registry = registry
        self._from_dict = from_dict
        self._reader: Any = None
        if reader_schema is None and registry is None:
            raise ClientConfigError("an Avro deserializer without a registry needs a schema")
        if reader_schema is not None:
            self._reader = parse_avro_schema(registry, Schema(_schema_text(reader_schema), "AVRO", references))
        self._written: dict[int, tuple[Any, bool]] = {}

    def deserialize(self, topic: str, data: bytes) -> T:  # noqa: ARG002 - the topic decides nothing here
        """The value of framed bytes. Raises ValueError for bytes that are no such value."""
        if self._registry is None:
            value = self._read(data, 0, self._reader, _is_bytes(self._reader), "the schema")
        else:
            schema_id = read_schema_id(data)
            written = self._written.get(schema_id)
            if written is None:
                written = self._written[schema_id] = self._schema_of(self._registry, schema_id)
            value = self._read(data, HEADER_BYTES, *written, f"schema {schema_id}")
        made: T = value if self._from_dict is None else self._from_dict(value)
        return made

    def _read(self, data: bytes, position: int, schema: Any, is_bytes: bool, what: str) -> Any:
        if is_bytes:
            return data[position:]
        source = BytesIO(data)
        source.seek(position)
        try:
            return schemaless_reader(source, schema, self._reader)
        except EOFError as error:
            raise ValueError(f"the data ends too early for {what}") from error

    def _schema_of(self, registry: SchemaRegistry, schema_id: int) -> tuple[Any, bool]:
        schema = registry.schema(schema_id)
        if schema.type != "AVRO":
            raise ValueError(f"schema {schema_id} is of type {schema.type}, not AVRO")
        parsed = parse_avro_schema(registry, schema)
        return parsed, _is_bytes(parsed)


def _schema_text(schema: str | Mapping[str, Any] | list[Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def parse_avro_schema(registry: SchemaRegistry | None, schema: Schema) -> Any:
    """The schema as fastavro wants it, with everything it refers to."""
    names: dict[str, Any] = {}
    for used in referenced(registry, schema).values():
        parse_schema(json.loads(used.text), names)
    return parse_schema(_loaded(schema.text), names)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # The name of a plain type, without quotes, is a schema too.
        return text.strip()


def _record_name(parsed: Any) -> str | None:
    return parsed.get("name") if isinstance(parsed, dict) else None


def _is_bytes(parsed: Any) -> bool:
    kind = parsed.get("type") if isinstance(parsed, dict) and "logicalType" not in parsed else parsed
    return bool(kind == _BYTES)
