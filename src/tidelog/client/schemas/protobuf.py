"""Protobuf keys and values in Confluent's wire format. Needs `pip install 'tidelog[protobuf]'`.

Messages are of classes that protoc generated. The registry gets the descriptor of their file, and of the files that it
imports as references, in the serialized form that registries take beside `.proto` text.
"""

import base64
from typing import Any, Generic, TypeVar

from tidelog.client.schemas.framing import (
    HEADER_BYTES,
    decode_message_indexes,
    encode_message_indexes,
    frame_header,
    read_schema_id,
)
from tidelog.client.schemas.registry import Schema, SchemaReference, SchemaRegistry
from tidelog.client.schemas.serializing import Registration, missing, schema_to_write
from tidelog.client.schemas.subjects import SubjectNameStrategy, topic_name

try:
    from google.protobuf.message import DecodeError, Message
except ModuleNotFoundError as error:
    raise missing("protobuf", "protobuf", error) from error

M = TypeVar("M", bound=Message)


class ProtobufSerializer(Generic[M]):
    """Writes messages of one class as keys or values."""

    def __init__(
        self,
        registry: SchemaRegistry,
        message: type[M],
        *,
        is_key: bool = False,
        subject: SubjectNameStrategy = topic_name,
        register: bool = True,
        normalize: bool = False,
        use_latest: bool = False,
    ) -> None:
        self._registry = registry
        self._message = message
        self._registration = Registration(is_key, subject, register, normalize, use_latest)
        self._indexes = encode_message_indexes(message_indexes(message.DESCRIPTOR))
        self._headers: dict[str, bytes] = {}

    def serialize(self, topic: str, value: M) -> bytes:
        """The framed bytes of a message."""
        if not isinstance(value, self._message):
            raise TypeError(f"{value!r} is not a {self._message.DESCRIPTOR.full_name}")
        return self.prepare(topic) + value.SerializeToString()

    def prepare(self, topic: str) -> bytes:
        """Find or register the schema for a topic now, and not with the first value; the bytes before a payload."""
        header = self._headers.get(topic)
        if header is None:
            header = self._headers[topic] = self._header(topic)
        return header

    def _header(self, topic: str) -> bytes:
        descriptor = self._message.DESCRIPTOR
        own = None if self._registration.use_latest else self._schema(descriptor.file)
        schema_id, _ = schema_to_write(self._registry, self._registration, topic, descriptor.full_name, own)
        return frame_header(schema_id) + self._indexes

    def _schema(self, file: Any) -> Schema:
        """A file as a schema; the files it imports are registered before it, each under its own name."""
        references = []
        for used in file.dependencies:
            if used.name.startswith("google/protobuf/"):
                continue  # every registry and every client has these
            schema = self._schema(used)
            if self._registration.register:
                self._registry.register(used.name, schema, normalize=self._registration.normalize)
            latest = self._registry.latest(used.name)
            references.append(SchemaReference(used.name, used.name, latest.version))
        return Schema(base64.b64encode(file.serialized_pb).decode(), "PROTOBUF", tuple(references))


class ProtobufDeserializer(Generic[M]):
    """Reads messages of one class. Fields that the class does not know are kept as unknown fields."""

    def __init__(self, registry: SchemaRegistry | None, message: type[M]) -> None:
        """`registry` is not asked: Protobuf messages are read by their class. It may be None."""
        self._registry = registry
        self._message = message

    def deserialize(self, topic: str, data: bytes) -> M:  # noqa: ARG002 - the topic decides nothing here
        """The message of framed bytes. Raises ValueError for bytes that are no such message."""
        read_schema_id(data)
        _, position = decode_message_indexes(data, HEADER_BYTES)
        message = self._message()
        try:
            message.ParseFromString(data[position:])
        except DecodeError as error:
            raise ValueError(f"not a {self._message.DESCRIPTOR.full_name}: {error}") from error
        return message


def message_indexes(descriptor: Any) -> tuple[int, ...]:
    """The path from a file to a message: its place among the messages of its file, or of the message around it."""
    outer = descriptor.containing_type
    if outer is not None:
        names = [each.name for each in outer.nested_types]
        return (*message_indexes(outer), names.index(descriptor.name))
    return (list(descriptor.file.message_types_by_name).index(descriptor.name),)
