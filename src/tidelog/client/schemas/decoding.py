"""Keys and values of any registry schema, without classes and without a choice beforehand: Avro, Protobuf, JSON Schema.

`AnyDeserializer` reads the schema id before the data and then what that schema describes, as plain dictionaries, lists
and scalars. Protobuf is read with the descriptor that the registry keeps; a registry that keeps only `.proto` text
leads to fields by their numbers. Calls block. For programs that show data; others use the deserializer of their schema.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tidelog.client.errors import ClientError
from tidelog.client.schemas.framing import HEADER_BYTES, decode_message_indexes, read_schema_id
from tidelog.client.schemas.registry import Schema, SchemaRegistry


class DecodingError(ValueError):
    """The bytes were not written with a schema of the registry, or cannot be read with it."""


class Decoded(NamedTuple):
    """A value, and the schema that it was written with."""

    value: Any
    schema_type: str
    schema_id: int


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
            return Decoded(self._value(topic, schema_id, schema, data), schema.type, schema_id)
        except (ValueError, TypeError, LookupError, ClientError, ModuleNotFoundError) as error:
            raise DecodingError(str(error)) from error

    def _value(self, topic: str, schema_id: int, schema: Schema, data: bytes) -> Any:
        if schema.type == "AVRO":
            return self._avro_value(topic, data)
        if schema.type == "PROTOBUF":
            return self._protobuf_value(schema_id, schema, data)
        return json.loads(data[HEADER_BYTES:])

    def _avro_value(self, topic: str, data: bytes) -> object:
        if self._avro is None:
            from tidelog.client.schemas.avro import AvroDeserializer

            self._avro = AvroDeserializer(self._registry)
        value: object = self._avro.deserialize(topic, data)
        return value

    def _protobuf_value(self, schema_id: int, schema: Schema, data: bytes) -> dict[str, Any]:
        from google.protobuf import json_format
        from google.protobuf.message import DecodeError

        indexes, position = decode_message_indexes(data, HEADER_BYTES)
        made = self._messages.get((schema_id, indexes))
        if made is None:
            descriptor = _descriptor_of(self._registry, schema, indexes)
            if descriptor is None:
                return self.fields_by_number(data[position:])
            from google.protobuf.message_factory import GetMessageClass

            made = self._messages[schema_id, indexes] = GetMessageClass(descriptor)
        message = made()
        try:
            message.ParseFromString(data[position:])
        except DecodeError as error:
            raise ValueError(f"not a {message.DESCRIPTOR.full_name}: {error}") from error
        value: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
        return value

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


def _descriptor_of(registry: SchemaRegistry, schema: Schema, indexes: tuple[int, ...]) -> Any:
    """The descriptor of a message; None if the registry keeps the file as text."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    added: set[str] = set()

    def add(each: Schema) -> Any:
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(each.text, validate=True))
        except (binascii.Error, ValueError):
            return None
        for used in each.references:
            if used.name not in added and add(registry.version(used.subject, used.version).schema) is None:
                return None
        for name in file.dependency:
            if name not in added and name.startswith("google/protobuf/"):
                _add_well_known(pool, name)
                added.add(name)
        added.add(file.name)
        pool.Add(file)
        return pool.FindFileByName(file.name)

    try:
        file = add(schema)
    except Exception as error:  # protobuf raises its own kinds for files that do not fit together
        raise ValueError(f"the registry's descriptor cannot be used: {error}") from error
    if file is None:
        return None
    path = list(indexes)
    found = list(file.message_types_by_name.values())[path.pop(0)]
    for index in path:
        found = found.nested_types[index]
    return found


def _add_well_known(pool: Any, name: str) -> None:
    """A file that comes with protobuf, such as google/protobuf/timestamp.proto."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    pool.Add(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
