"""JSON values written with any schema of a registry are read back as they were typed; what does not fit is refused."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from tidelog.client.schemas.decoding import AnyDeserializer
from tidelog.client.schemas.encoding import AnySerializer, EncodingError
from tidelog.client.schemas.registry import RegisteredSchema, Schema, SchemaReference, SchemaRegistry

MONEY = {
    "type": "record",
    "name": "Money",
    "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "currency", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "USD"]}},
    ],
}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": MONEY},
        {"name": "paid", "type": ["null", "Money"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
        {"name": "note", "type": ["null", "string", "bytes"]},
    ],
}
VALUE = {
    "id": 7,
    "price": {"amount": "12.50", "currency": "EUR"},
    "paid": {"amount": "1.00", "currency": "USD"},
    "at": "2026-01-31 12:00:00+00:00",
    "day": "2026-01-31",
    "tags": {"a": ["x", "y"]},
    "digest": "beef",
    "note": "plain",
}
RULES = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "kind": {"enum": ["a", "b"]}, "deep": {"properties": {"x": {}}}},
    "required": ["id"],
    "additionalProperties": False,
}


class Registry(SchemaRegistry):
    """A registry in memory."""

    def __init__(self, *schemas: Schema, descriptors: dict[int, str] | None = None) -> None:
        super().__init__("http://nowhere")
        self._kept = dict(enumerate(schemas, 1))
        self._descriptors = descriptors or {}

    def schema(self, schema_id: int) -> Schema:
        return self._kept[schema_id]

    def version(self, subject: str, version: int) -> RegisteredSchema:
        schema_id = int(subject)
        return RegisteredSchema(subject, version, schema_id, self._kept[schema_id])

    def serialized(self, schema_id: int) -> str:
        return self._descriptors.get(schema_id, self._kept[schema_id].text)


def _file(name: str, *messages: DescriptorProto, imports: tuple[str, ...] = ()) -> str:
    file = FileDescriptorProto(name=name, package="shop", syntax="proto3", dependency=imports, message_type=messages)
    return base64.b64encode(file.SerializeToString()).decode()


def _message(name: str, **fields: Any) -> DescriptorProto:
    """A message whose fields are of scalar types, or of messages by their names."""
    made = DescriptorProto(name=name)
    for number, (field, kind) in enumerate(fields.items(), 1):
        added = made.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if isinstance(kind, str):
            added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
        else:
            added.type = kind
    return made


INT64, STRING = FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.TYPE_STRING
MAIN = _file(
    "order.proto",
    _message("Order", id=INT64, note=STRING, price=".shop.Money", at=".google.protobuf.Timestamp"),
    _message("Refund", reason=STRING),
    imports=("money.proto", "google/protobuf/timestamp.proto"),
)
USED = _file("money.proto", _message("Money", cents=INT64))


def _avro(schema: object = ORDER) -> Schema:
    return Schema(json.dumps(schema))


def _shown(registry: SchemaRegistry, data: bytes) -> object:
    """What a page shows of the bytes."""
    return json.loads(json.dumps(AnyDeserializer(registry).decode("t", data).value, default=_plain))


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def test_an_avro_value_is_read_back_as_it_was_typed():
    registry = Registry(_avro())
    assert _shown(registry, AnySerializer(registry).encode(1, _avro(), VALUE)) == VALUE


@pytest.mark.parametrize(
    "schema", [_avro(), Schema(json.dumps(RULES), "JSON"), _avro("string"), _avro(["null", MONEY])]
)
def test_an_example_can_be_written_as_it_is(schema):
    registry = Registry(schema)
    serializer = AnySerializer(registry)
    example: Any = serializer.example(1, schema)
    assert _shown(registry, serializer.encode(1, schema, example)) == json.loads(json.dumps(example))


def test_the_example_of_an_avro_record_has_every_field():
    example: Any = AnySerializer(Registry()).example(1, _avro())
    assert list(example) == [each["name"] for each in ORDER["fields"]]
    assert example["price"] == {"amount": "0.00", "currency": "EUR"}


def test_a_schema_that_contains_itself_has_an_example():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert "next" in json.dumps(AnySerializer(Registry()).example(1, _avro(node)))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": "seven"}, r"the value\.id is .*no long"),
        ({"idd": 7}, "has 'idd', which Order has not"),
        ({"price": {"amount": "much", "currency": "EUR"}}, r"the value\.price\.amount is 'much', which is no decimal"),
        ({"price": {"amount": "1"}}, r"the value\.price lacks currency"),
        ({"price": {"amount": "1", "currency": "GBP"}}, "no Currency"),
        ({"at": "soon"}, "no timestamp-millis"),
        ({"digest": "xyz"}, "no Digest"),
        ({"tags": {"a": [1]}}, r"the value\.tags\.a\[0\]"),
    ],
)
def test_an_avro_value_that_does_not_fit_is_refused_by_its_place(change, complaint):
    with pytest.raises(EncodingError, match=complaint):
        AnySerializer(Registry(_avro())).encode(1, _avro(), {**VALUE, **change})


def test_plain_bytes_stand_without_a_length():
    assert AnySerializer(Registry()).encode(3, _avro("bytes"), "beef") == b"\0\0\0\0\3\xbe\xef"


def test_json_is_checked_by_its_schema():
    schema = Schema(json.dumps(RULES), "JSON")
    with pytest.raises(EncodingError, match="id"):
        AnySerializer(Registry(schema)).encode(1, schema, {"kind": "a"})


@pytest.mark.parametrize("descriptors", [{}, {1: MAIN, 2: USED}])
def test_a_protobuf_message_is_written_with_descriptors_of_the_registry(descriptors):
    """Kept as such, or made by the registry of the texts that it keeps."""
    texts = ('syntax = "proto3"; …', "…") if descriptors else (MAIN, USED)
    schema = Schema(texts[0], "PROTOBUF", (SchemaReference("money.proto", "2", 1),))
    registry = Registry(schema, Schema(texts[1], "PROTOBUF"), descriptors=descriptors)
    serializer = AnySerializer(registry)
    value = {"id": "7", "note": "x", "price": {"cents": "250"}, "at": "2026-01-31T12:00:00Z"}
    assert _shown(registry, serializer.encode(1, schema, value)) == value
    example = serializer.example(1, schema)
    assert example == {"id": 0, "note": "", "price": {"cents": 0}, "at": "2026-01-31T12:00:00Z"}
    assert serializer.encode(1, schema, example)
    refund = serializer.encode(1, schema, {"reason": "late"}, "shop.Refund")
    assert _shown(registry, refund) == {"reason": "late"}
    assert AnyDeserializer(registry).decode("t", refund).message == "shop.Refund"
    with pytest.raises(EncodingError, match=r"which has shop\.Order, shop\.Refund"):
        serializer.encode(1, schema, {}, "shop.Missing")
    with pytest.raises(EncodingError, match="nothing"):
        serializer.encode(1, schema, {"nothing": 1})


def test_a_protobuf_text_without_a_descriptor_cannot_be_written():
    schema = Schema('syntax = "proto3";', "PROTOBUF")
    with pytest.raises(EncodingError, match="only as text"):
        AnySerializer(Registry(schema)).encode(1, schema, {})
