"""Keys and values with schemas, kept in a schema registry: Avro, JSON Schema and Protobuf in Confluent's wire format.

    SchemaRegistry                                  a registry by URL
    AvroSerializer, AvroDeserializer                `tidelog[avro]`
    JsonSchemaSerializer, JsonSchemaDeserializer    `tidelog[json-schema]`
    ProtobufSerializer, ProtobufDeserializer        `tidelog[protobuf]`

They are handed to a producer or consumer as `key_serializer`, `value_deserializer` and so on, and read and write what
Confluent's own serializers do in other languages. Nothing is imported until it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.schemas.avro import AvroDeserializer, AvroSerializer
    from tidelog.client.schemas.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
    from tidelog.client.schemas.protobuf import ProtobufDeserializer, ProtobufSerializer
    from tidelog.client.schemas.registry import (
        RegisteredSchema,
        RegistryError,
        RegistryUnavailable,
        Schema,
        SchemaReference,
        SchemaRegistry,
    )
    from tidelog.client.schemas.subjects import SubjectNameStrategy, record_name, topic_name, topic_record_name

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryError",
    "RegistryUnavailable",
    "Schema",
    "SchemaReference",
    "SchemaRegistry",
    "SubjectNameStrategy",
    "record_name",
    "topic_name",
    "topic_record_name",
]

_HOMES = {
    "AvroDeserializer": "avro",
    "AvroSerializer": "avro",
    "JsonSchemaDeserializer": "json_schema",
    "JsonSchemaSerializer": "json_schema",
    "ProtobufDeserializer": "protobuf",
    "ProtobufSerializer": "protobuf",
    "RegisteredSchema": "registry",
    "RegistryError": "registry",
    "RegistryUnavailable": "registry",
    "Schema": "registry",
    "SchemaReference": "registry",
    "SchemaRegistry": "registry",
    "SubjectNameStrategy": "subjects",
    "record_name": "subjects",
    "topic_name": "subjects",
    "topic_record_name": "subjects",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
