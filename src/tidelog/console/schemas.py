"""Keys and values that were written with a schema of a registry, as text.

Avro and Protobuf need their extras. Protobuf is read with the descriptor that the registry keeps; a registry that keeps
only `.proto` text shows fields by their numbers. Calls block: they belong into a thread.
"""

import base64
import binascii
import json
from typing import Any, Final

from tidelog.client.errors import ClientError
from tidelog.client.schemas.framing import HEADER_BYTES, decode_message_indexes, read_schema_id
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.console.formats import NULL, Format, Shown, cut, pretty, show

TIMEOUT_S: Final = 3.0


class RegistryDecoder:
    """Reads what registry serializers wrote. Without a URL it reads nothing."""

    def __init__(self, url: str | None) -> None:
        self._registry = None if url is None else SchemaRegistry(url, timeout=TIMEOUT_S)
        self._avro: Any = None
        self._messages: dict[tuple[int, tuple[int, ...]], Any] = {}

    @property
    def is_there(self) -> bool:
        """Whether a registry was named."""
        return self._registry is not None

    def show(self, topic: str, data: bytes | None, wanted: Format) -> Shown:
        """A key or value in any format. What the registry cannot read is shown as `formats.show` does."""
        if data is None:
            return NULL
        data = bytes(data)
        is_tried = wanted is Format.REGISTRY or (wanted is Format.AUTO and data[:1] == b"\0")
        if self._registry is None or not is_tried:
            return show(data, Format.AUTO if wanted is Format.REGISTRY else wanted)
        try:
            return self._decode(self._registry, topic, data)
        except (ValueError, TypeError, KeyError, LookupError, ClientError, ModuleNotFoundError) as error:
            return show(data, Format.AUTO)._replace(note=f"not read with the registry: {error}")

    def _decode(self, registry: SchemaRegistry, topic: str, data: bytes) -> Shown:
        schema_id = read_schema_id(data)
        schema = registry.schema(schema_id)
        if schema.type == "AVRO":
            text = pretty(self._avro_value(registry, topic, data))
        elif schema.type == "PROTOBUF":
            text = self._protobuf_text(registry, schema_id, schema, data)
        else:
            text = pretty(json.loads(data[HEADER_BYTES:]))
        return Shown(cut(text), f"{schema.type.lower()}, schema {schema_id}", len(data))

    def _avro_value(self, registry: SchemaRegistry, topic: str, data: bytes) -> object:
        if self._avro is None:
            from tidelog.client.schemas.avro import AvroDeserializer

            self._avro = AvroDeserializer(registry)
        value: object = self._avro.deserialize(topic, data)
        return value

    def _protobuf_text(self, registry: SchemaRegistry, schema_id: int, schema: Schema, data: bytes) -> str:
        from google.protobuf import json_format
        from google.protobuf.message import DecodeError

        indexes, position = decode_message_indexes(data, HEADER_BYTES)
        made = self._messages.get((schema_id, indexes))
        if made is None:
            descriptor = _descriptor_of(registry, schema, indexes)
            if descriptor is None:
                return pretty(fields_by_number(data[position:]))
            from google.protobuf.message_factory import GetMessageClass

            made = self._messages[schema_id, indexes] = GetMessageClass(descriptor)
        message = made()
        try:
            message.ParseFromString(data[position:])
        except DecodeError as error:
            raise ValueError(f"not a {message.DESCRIPTOR.full_name}: {error}") from error
        text: str = json_format.MessageToJson(message, preserving_proto_field_name=True)
        return text


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


def fields_by_number(data: bytes) -> dict[str, Any]:
    """The fields of a message whose description is not known. Raises ValueError for bytes that are no message."""
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
        value = each.data
        if isinstance(value, bytes):
            value = show(value, Format.AUTO).text
        found.setdefault(str(each.field_number), []).append(value)
    return {number: values[0] if len(values) == 1 else values for number, values in found.items()}
