"""Protobuf messages without generated code: .proto files compiled on the driver, columns, and values of messages.

A schema is a set of file descriptors, the file of the message last, as `protoc --descriptor_set_out --include_imports`
writes it. It travels to executors, which make classes of it. What Spark has no type for (`Struct`, `Any`, recursion) is
JSON text. See `formats` for what the first five functions do.
"""

import base64
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.json_format import MessageToJson, ParseDict, ParseError
from google.protobuf.message import DecodeError, Message
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.client.schemas.protobuf import ProtobufDeserializer, ProtobufSerializer
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.client.schemas.serializing import referenced
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.schema_steps import PROTOBUF, SchemaText
from tidelog.spark.pipeline.schemas.arrow_values import json_value
from tidelog.spark.pipeline.schemas.formats import ReadValue, Target, ValueWriter
from tidelog.spark.pipeline.schemas.origins import Origin, file_of, find_file, schema_text

_MAIN: Final = "schema.proto"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN: Final[Mapping[int, DataType]] = {
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_DURATION: Final = "google.protobuf.Duration"
_AS_TEXT: Final = frozenset(f"google.protobuf.{name}" for name in ("Any", "Struct", "Value", "ListValue", "FieldMask"))

Descriptor = Any
"""A message's descriptor: of Python's own class or of the C library's, which have no common base."""

Read = Callable[[Any], Any]


# --- the format ---


def given_schema(schema: SchemaText) -> Schema:
    file = file_of(schema, PROTOBUF)
    found = None if file is None else find_file(file)
    return compile_text(schema_text(schema, PROTOBUF), {}) if found is None else compile_file(found)


def registered_schema(registry: SchemaRegistry, schema: Schema) -> Schema:
    """A registry has the text of a .proto file, or a descriptor in base64."""
    used = referenced(registry, schema)
    files = [_descriptor(each.text) for each in (*used.values(), schema)]
    if all(file is not None for file in files):
        return _as_schema(FileDescriptorSet(file=[file for file in files if file is not None]))
    return compile_text(schema.text, {name: each.text for name, each in used.items()})


def spark_type(registry: SchemaRegistry | None, origin: Origin) -> DataType:  # noqa: ARG001 - see `formats`
    return protobuf_type(message_class(origin.schema, origin.message).DESCRIPTOR)


def value_reader(registry: SchemaRegistry | None, origin: Origin) -> ReadValue:
    made = message_class(origin.schema, origin.message)
    as_value = message_reader(made.DESCRIPTOR)
    if registry is not None:
        # The columns are those of the message that is compiled in, whichever schema a value names.
        framed = ProtobufDeserializer(None, made)
        return lambda data: as_value(framed.deserialize("", data))

    def read(data: bytes) -> Any:
        try:
            return as_value(made.FromString(data))
        except DecodeError as error:
            raise ValueError(f"not a {made.DESCRIPTOR.full_name}: {error}") from error

    return read


def value_writer(registry: SchemaRegistry | None, origin: Origin, target: Target) -> ValueWriter:
    made = message_class(origin.schema, origin.message)
    framed = None if registry is None else ProtobufSerializer(registry, made, **target.serializer_options())
    return _MessageWriter(made, framed)


@dataclass(frozen=True, slots=True)
class _MessageWriter:
    """Writes values as messages, with a header where there is a registry."""

    message: type[Message]
    framed: ProtobufSerializer[Message] | None

    def serialize(self, topic: str, value: Any) -> bytes:
        try:
            message = ParseDict(json_value(value, allow_nan=True), self.message())
        except ParseError as error:
            raise ValueError(str(error)) from error
        return message.SerializeToString() if self.framed is None else self.framed.serialize(topic, message)

    def prepare(self, topic: str) -> object:
        return None if self.framed is None else self.framed.prepare(topic)


# --- schemas ---


def compile_file(file: Path) -> Schema:
    """The descriptors of a .proto file, or of a file that protoc made of one."""
    if file.suffix != ".proto":
        return _as_schema(FileDescriptorSet.FromString(file.read_bytes()))
    return _compiled(file.parent, file.name)


def compile_text(text: str, others: Mapping[str, str]) -> Schema:
    """The descriptors of the text of a .proto file; `others` are the files that it imports, by name."""
    with tempfile.TemporaryDirectory() as directory:
        for name, content in {**others, _MAIN: text}.items():
            file = Path(directory, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        return _compiled(Path(directory), _MAIN)


def _descriptor(text: str) -> FileDescriptorProto | None:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None


def _as_schema(files: FileDescriptorSet) -> Schema:
    return Schema(base64.b64encode(files.SerializeToString()).decode(), "PROTOBUF")


def _compiled(directory: Path, name: str) -> Schema:
    with tempfile.NamedTemporaryFile(suffix=".desc") as out:
        given = [f"-I{directory}", "--include_imports", f"--descriptor_set_out={out.name}", name]
        done = subprocess.run([*_protoc(), *given], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PipelineError(f"protoc rejects {name}: {done.stderr.strip()[-300:]}")
        return _as_schema(FileDescriptorSet.FromString(Path(out.name).read_bytes()))


def _protoc() -> list[str]:
    if find_spec("grpc_tools") is not None:
        return [sys.executable, "-m", "grpc_tools.protoc"]
    if shutil.which("protoc") is not None:
        return ["protoc"]
    raise PipelineError(
        "a .proto file needs protoc: pip install 'tidelog[proto-files]', or name a descriptor set, which "
        "`protoc --include_imports --descriptor_set_out=orders.desc orders.proto` makes"
    )


# --- classes ---


@lru_cache(maxsize=64)
def message_class(schema: Schema, name: str | None) -> type[Message]:
    """The class of a message, by its full name; without a name, of the first message of the schema's own file."""
    files = FileDescriptorSet.FromString(base64.b64decode(schema.text)).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    if name is None:
        own = files[-1]
        if not own.message_type:
            raise PipelineError(f"{own.name} has no message")
        name = f"{own.package}.{own.message_type[0].name}".lstrip(".")
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        there = ", ".join(f"{file.package}.{each.name}".lstrip(".") for file in files for each in file.message_type)
        raise PipelineError(f"message {name!r} is not in the schema, which has {there}") from None
    found: type[Message] = message_factory.GetMessageClass(descriptor)
    return found


# --- columns ---


def protobuf_type(descriptor: Descriptor, inside: tuple[str, ...] = ()) -> DataType:
    """The Spark type of a message: a struct of its fields."""
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return TimestampType()
    if name == _DURATION:
        return DayTimeIntervalType()
    if name in _AS_TEXT or name in inside:
        return StringType()
    if _is_wrapper(descriptor):
        return _type_of_one(descriptor.fields_by_name["value"], inside)
    fields = [StructField(field.name, _type_of(field, (*inside, name))) for field in descriptor.fields]
    return StructType(fields)


def _type_of(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if _is_map(field):
        key, value = _entry(field).fields
        return MapType(_type_of_one(key, inside), _type_of_one(value, inside))
    kind = _type_of_one(field, inside)
    return ArrayType(kind) if _is_repeated(field) else kind


def _type_of_one(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if field.message_type is not None:
        return protobuf_type(field.message_type, inside)
    return BinaryType() if field.type == FieldDescriptor.TYPE_BYTES else _PLAIN[field.cpp_type]


# --- values ---


def message_reader(descriptor: Descriptor, inside: tuple[str, ...] = ()) -> Read:
    """A function from a message to the value of its column: a dict, or what stands for a well-known type."""
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return lambda message: _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1_000)
    if name == _DURATION:
        return lambda message: timedelta(seconds=message.seconds, microseconds=message.nanos // 1_000)
    if name in _AS_TEXT or name in inside:
        return lambda message: MessageToJson(message, preserving_proto_field_name=True, indent=None)
    if _is_wrapper(descriptor):
        return lambda message: message.value
    fields = [(field.name, _field_reader(field, (*inside, name))) for field in descriptor.fields]
    return lambda message: {field: read(message) for field, read in fields}


def _field_reader(field: FieldDescriptor, inside: tuple[str, ...]) -> Read:
    name = field.name
    if _is_map(field):
        one = _value_reader(_entry(field).fields_by_name["value"], inside)
        return lambda message: {key: one(each) for key, each in getattr(message, name).items()}
    one = _value_reader(field, inside)
    if _is_repeated(field):
        return lambda message: [one(each) for each in getattr(message, name)]
    if field.has_presence:
        return lambda message: one(getattr(message, name)) if message.HasField(name) else None
    return lambda message: one(getattr(message, name))


def _value_reader(field: FieldDescriptor, inside: tuple[str, ...]) -> Read:
    if field.message_type is not None:
        return message_reader(field.message_type, inside)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return lambda value: value


def _is_repeated(field: FieldDescriptor) -> bool:
    is_repeated = getattr(field, "is_repeated", None)
    if is_repeated is not None:
        return bool(is_repeated)
    # Before protobuf 6.31.
    return bool(getattr(field, "label", None) == getattr(FieldDescriptor, "LABEL_REPEATED", 3))


def _entry(field: FieldDescriptor) -> Descriptor:
    """The message of a map's entries: key and value."""
    entry = field.message_type
    assert entry is not None, "checked by _is_map"
    return entry


def _is_map(field: FieldDescriptor) -> bool:
    entry = field.message_type
    return bool(entry is not None and _is_repeated(field) and entry.GetOptions().map_entry)


def _is_wrapper(descriptor: Descriptor) -> bool:
    name = str(descriptor.full_name)
    return name.startswith("google.protobuf.") and name.endswith("Value")
