"""Keys and values of any registry schema, without classes and without a choice beforehand: Avro, Protobuf, JSON Schema.

`AnyDeserializer` reads the schema id before the data and then what that schema describes, as plain dictionaries, lists
and scalars. Protobuf is read with the descriptor that the registry keeps, or makes of the `.proto` text that it keeps;
where it does not, fields are shown by their numbers. Calls block. For programs that show data; others use the
deserializer of their schema.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.client.errors import ClientError
from tidelog.client.schemas.framing import HEADER_BYTES, decode_message_indexes, read_schema_id
from tidelog.client.schemas.registry import Schema, SchemaReference, SchemaRegistry


class DecodingError(ValueError):
    """The bytes were not written with a schema of the registry, or cannot be read with it."""


class Decoded(NamedTuple):
    """A value, and the schema that it was written with."""

    value: Any
    schema_type: str
    schema_id: int
    message: str = ""
    """The full name of a Protobuf message; empty if the registry has no descriptor of it."""


class AnyDeserializer:
    """Reads whatever registry serializers wrote. `bytes_as_text` shows bytes in fields without a description."""

    def __init__(self, registry: SchemaRegistry, bytes_as_text: Callable[[bytes], str] | None = None) -> None:
        self._registry = registry
        self._bytes_as_text = bytes_as_text or _text_or_hex
        self._avro: Any = None
        self._messages: dict[tuple[int, tuple[int, ...]], Any] = {}

    def decode(self, topic: str, data: bytes) -> Decoded:
        """The value of framed bytes. Raises DecodingError for anything else, and without the schema's extra."""
        try:
            schema_id = read_schema_id(data)
            schema = self._registry.schema(schema_id)
            if schema.type == "PROTOBUF":
                return self._protobuf(schema_id, schema, data)
            return Decoded(self._value(topic, schema, data), schema.type, schema_id)
        except (ValueError, TypeError, LookupError, ClientError, ModuleNotFoundError) as error:
            raise DecodingError(str(error)) from error

    def _value(self, topic: str, schema: Schema, data: bytes) -> Any:
        if schema.type == "AVRO":
            return self._avro_value(topic, data)
        return json.loads(data[HEADER_BYTES:])

    def _avro_value(self, topic: str, data: bytes) -> object:
        if self._avro is None:
            from tidelog.client.schemas.avro import AvroDeserializer

            self._avro = AvroDeserializer(self._registry)
        value: object = self._avro.deserialize(topic, data)
        return value

    def _protobuf(self, schema_id: int, schema: Schema, data: bytes) -> Decoded:
        from google.protobuf import json_format
        from google.protobuf.message import DecodeError

        indexes, position = decode_message_indexes(data, HEADER_BYTES)
        made = self._messages.get((schema_id, indexes))
        if made is None:
            descriptor = descriptor_of(self._registry, schema_id, schema, indexes)
            if descriptor is None:
                return Decoded(self.fields_by_number(data[position:]), schema.type, schema_id)
            from google.protobuf.message_factory import GetMessageClass

            made = self._messages[schema_id, indexes] = GetMessageClass(descriptor)
        message = made()
        try:
            message.ParseFromString(data[position:])
        except DecodeError as error:
            raise ValueError(f"not a {message.DESCRIPTOR.full_name}: {error}") from error
        value = json_format.MessageToDict(message, preserving_proto_field_name=True)
        return Decoded(value, schema.type, schema_id, message.DESCRIPTOR.full_name)

    def fields_by_number(self, data: bytes) -> dict[str, Any]:
        """The fields of a message without a description. Raises ValueError for bytes that are no message."""
        from google.protobuf.empty_pb2 import Empty
        from google.protobuf.message import DecodeError
        from google.protobuf.unknown_fields import UnknownFieldSet

        message = Empty()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(f"not a Protobuf message: {error}") from error
        found: dict[str, Any] = {}
        unknown: Any = UnknownFieldSet(message)
        for each in unknown:
            value = self._bytes_as_text(each.data) if isinstance(each.data, bytes) else each.data
            found.setdefault(str(each.field_number), []).append(value)
        return {number: values[0] if len(values) == 1 else values for number, values in found.items()}


def plain_json(value: object) -> str:
    """What JSON lacks, such as dates and decimals, as text: the `default` of `json.dumps`."""
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _text_or_hex(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()


def descriptor_of(registry: SchemaRegistry, schema_id: int, schema: Schema, indexes: tuple[int, ...]) -> Any:
    """The descriptor of a message; None if the registry has no descriptor of the file."""
    file = file_of(registry, schema_id, schema)
    if file is None:
        return None
    path = list(indexes)
    found = list(file.message_types_by_name.values())[path.pop(0)]
    for index in path:
        found = found.nested_types[index]
    return found


def file_of(registry: SchemaRegistry, schema_id: int, schema: Schema) -> Any:
    """The descriptor of a Protobuf schema's file; None if the registry has only its text. Raises ValueError."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    added: set[str] = set()

    def add(each: Schema, text: str, name: str | None) -> Any:
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            return None
        # Registries that make descriptors of texts do not know what the file was called.
        file.name = name or file.name
        for used in each.references:
            if used.name not in added and not add_used(used):
                return None
        for imported in file.dependency:
            if imported not in added and imported.startswith("google/protobuf/"):
                _add_well_known(pool, imported)
                added.add(imported)
        added.add(file.name)
        pool.Add(file)
        return pool.FindFileByName(file.name)

    def add_used(used: SchemaReference) -> bool:
        found = registry.version(used.subject, used.version)
        return add(found.schema, _serialized(registry, found.schema_id, found.schema), used.name) is not None

    try:
        return add(schema, _serialized(registry, schema_id, schema), None)
    except Exception as error:  # protobuf raises its own kinds for files that do not fit together
        raise ValueError(f"the registry's descriptor cannot be used: {error}") from error


def _serialized(registry: SchemaRegistry, schema_id: int, schema: Schema) -> str:
    """The schema itself if it is a descriptor already; else what the registry makes of it."""
    return schema.text if _is_base64(schema.text) else registry.serialized(schema_id)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _add_well_known(pool: Any, name: str) -> None:
    """A file that comes with protobuf, such as google/protobuf/timestamp.proto."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    pool.Add(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
