"""Our serializers and Confluent's read each other's bytes, through one registry; and a record goes all the way."""

import html
import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.integration.certificates import make_certificates
from tests.integration.console_support import console_process
from tidelog.client import Consumer, DeserializationFailed, Producer, SerializationFailed
from tidelog.client.schemas import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    RegistryError,
    RegistryUnavailable,
    Schema,
    SchemaReference,
    SchemaRegistry,
    record_name,
    topic_record_name,
)
from tidelog.testing import Broker
from tidelog.testing.registry import SchemaRegistryServer

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "string"}, {"name": "pieces", "type": "int"}],
}
ORDER_V2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "none"}]}  # type: ignore[misc]
JSON_ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "string"}, "pieces": {"type": "integer", "minimum": 1}},
    "required": ["id"],
}
VALUE = {"id": "a-1", "pieces": 3}


def context(topic: str = "orders", is_key: bool = False) -> SerializationContext:
    return SerializationContext(topic, MessageField.KEY if is_key else MessageField.VALUE)


Theirs = Callable[[SchemaRegistryServer | str], SchemaRegistryClient]


@pytest.fixture
def theirs() -> Iterator[Theirs]:
    """Confluent's client for a registry; its connections are closed at the end."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(
            SchemaRegistryClient({"url": server if isinstance(server, str) else server.url})
        )


@pytest.mark.parametrize("is_key", [False, True])
def test_avro_is_read_by_confluent_and_the_reverse(
    registry: SchemaRegistryServer, is_key: bool, theirs: Theirs
) -> None:
    ours = AvroSerializer[dict[str, Any]](SchemaRegistry(registry.url), ORDER, is_key=is_key)
    written = ours.serialize("orders", VALUE)
    their_reader = confluent_avro.AvroDeserializer(theirs(registry))
    assert their_reader(written, context(is_key=is_key)) == VALUE
    their_writer = confluent_avro.AvroSerializer(theirs(registry), str_schema())
    by_them = their_writer(VALUE, context(is_key=is_key))
    assert AvroDeserializer[Any](SchemaRegistry(registry.url)).deserialize("orders", by_them) == VALUE
    assert list(registry.subjects) == ["orders-key" if is_key else "orders-value"]


def str_schema() -> str:
    return json.dumps(ORDER)


def test_plain_avro_bytes_have_no_length_before_them(registry: SchemaRegistryServer, theirs: Theirs) -> None:
    ours = AvroSerializer[bytes](SchemaRegistry(registry.url), '"bytes"').serialize("raw", b"\x00\x01")
    assert ours == b"\x00\x00\x00\x00\x01\x00\x01"
    assert confluent_avro.AvroDeserializer(theirs(registry))(ours, context("raw")) == b"\x00\x01"


def test_json_is_read_by_confluent_and_the_reverse(registry: SchemaRegistryServer, theirs: Theirs) -> None:
    ours = JsonSchemaSerializer[dict[str, Any]](SchemaRegistry(registry.url), JSON_ORDER).serialize("orders", VALUE)
    their_reader = confluent_json.JSONDeserializer(None, schema_registry_client=theirs(registry))
    assert their_reader(ours, context()) == VALUE
    by_them = confluent_json.JSONSerializer(json.dumps(JSON_ORDER), theirs(registry))(VALUE, context())
    assert JsonSchemaDeserializer[Any](SchemaRegistry(registry.url)).deserialize("orders", by_them) == VALUE


def order_of(module: ModuleType) -> Any:
    order = module.Order(id="a-1", lines=[module.Order.Line(product="pear", pieces=2)])
    order.total.cents = 250
    order.placed.seconds = 1_700_000_000
    return order


@pytest.mark.parametrize("make", [order_of, lambda module: module.Order.Line(product="pear", pieces=2)])
def test_protobuf_is_read_by_confluent_and_the_reverse(
    registry: SchemaRegistryServer, orders_pb2: ModuleType, make: Callable[[ModuleType], Any], theirs: Theirs
) -> None:
    message = make(orders_pb2)
    kind = type(message)
    ours = ProtobufSerializer(SchemaRegistry(registry.url), kind).serialize("orders", message)
    settings = {"use.deprecated.format": False}
    assert confluent_protobuf.ProtobufDeserializer(kind, settings)(ours, context()) == message
    by_them = confluent_protobuf.ProtobufSerializer(kind, theirs(registry), settings)(message, context())
    assert by_them == ours
    assert ProtobufDeserializer(None, kind).deserialize("orders", by_them) == message
    assert "money.proto" in registry.subjects


def test_a_reader_schema_fills_in_what_older_producers_did_not_write(registry: SchemaRegistryServer) -> None:
    client = SchemaRegistry(registry.url)
    old = AvroSerializer[Any](client, ORDER).serialize("orders", VALUE)
    new = AvroSerializer[Any](client, ORDER_V2).serialize("orders", {**VALUE, "note": "fragile"})
    reader = AvroDeserializer[Any](SchemaRegistry(registry.url), ORDER_V2)
    assert reader.deserialize("orders", old) == {**VALUE, "note": "none"}
    assert reader.deserialize("orders", new) == {**VALUE, "note": "fragile"}
    old_reader = AvroDeserializer[Any](SchemaRegistry(registry.url), ORDER)
    assert old_reader.deserialize("orders", new) == VALUE


def test_a_schema_may_refer_to_others(registry: SchemaRegistryServer) -> None:
    client = SchemaRegistry(registry.url)
    client.register("shop.Order", Schema(str_schema()))
    basket = {"type": "record", "name": "Basket", "fields": [{"name": "order", "type": "shop.Order"}]}
    reference = (SchemaReference("shop.Order", "shop.Order", 1),)
    data = AvroSerializer[Any](client, basket, references=reference).serialize("baskets", {"order": VALUE})
    assert AvroDeserializer[Any](SchemaRegistry(registry.url)).deserialize("baskets", data) == {"order": VALUE}
    pallet = {"type": "object", "properties": {"order": {"$ref": "order.json"}}}
    client.register("order.json", Schema(json.dumps(JSON_ORDER), "JSON"))
    serializer = JsonSchemaSerializer[Any](client, pallet, references=(SchemaReference("order.json", "order.json", 1),))
    assert serializer.serialize("pallets", {"order": VALUE}) is not None
    with pytest.raises(ValueError, match=r"'id' is a required property \(at \$.order\)"):
        serializer.serialize("pallets", {"order": {}})


def test_each_schema_is_asked_for_once(registry: SchemaRegistryServer) -> None:
    client = SchemaRegistry(registry.url)
    serializer, deserializer = AvroSerializer[Any](client, ORDER), AvroDeserializer[Any](SchemaRegistry(registry.url))
    for _ in range(100):
        deserializer.deserialize("orders", serializer.serialize("orders", VALUE))
    assert registry.requests == ["POST /subjects/orders-value/versions", "GET /schemas/ids/1"]


def test_subjects_follow_the_strategy(registry: SchemaRegistryServer) -> None:
    client = SchemaRegistry(registry.url)
    AvroSerializer[Any](client, ORDER, subject=record_name).serialize("orders", VALUE)
    AvroSerializer[Any](client, ORDER, subject=topic_record_name).serialize("orders", VALUE)
    assert registry.subjects == ["orders-shop.Order", "shop.Order"]
    with pytest.raises(ValueError, match="no record name"):
        AvroSerializer[Any](client, '"string"', subject=record_name).serialize("orders", "x")


def test_a_schema_that_is_not_there_is_not_registered_unless_asked(registry: SchemaRegistryServer) -> None:
    serializer = AvroSerializer[Any](SchemaRegistry(registry.url), ORDER, register=False)
    with pytest.raises(RegistryError, match="answered 404") as caught:
        serializer.serialize("orders", VALUE)
    assert caught.value.is_not_found
    assert not registry.subjects
    SchemaRegistry(registry.url).register("orders-value", Schema(str_schema()))
    latest = AvroSerializer[Any](SchemaRegistry(registry.url), use_latest=True)
    assert latest.serialize("orders", VALUE) is not None


def test_a_busy_registry_is_asked_again(registry: SchemaRegistryServer) -> None:
    registry.fail_next(2)
    assert SchemaRegistry(registry.url).subjects() == []
    assert registry.requests == ["GET /subjects"] * 3


def test_a_registry_that_is_away_is_named_with_the_reason(free_url: str, registry: SchemaRegistryServer) -> None:
    with pytest.raises(RegistryUnavailable, match=f"{free_url}: .*refused"):
        SchemaRegistry(free_url).subjects()
    assert SchemaRegistry([free_url, registry.url]).subjects() == []


@pytest.fixture
def free_url() -> str:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_credentials_are_sent_and_not_shown(registry: SchemaRegistryServer) -> None:
    registry.require("Basic YWxpY2U6czNjcmV0")
    with pytest.raises(RegistryError, match="401"):
        SchemaRegistry(registry.url).subjects()
    within = SchemaRegistry(registry.url.replace("//", "//alice:s3cret@"))
    assert "s3cret" not in repr(within)
    assert within.subjects() is not None
    client = SchemaRegistry(registry.url, username="alice", password="s3cret")
    assert client.subjects() == []
    assert "s3cret" not in repr(client)


def test_records_with_schemas_go_from_a_producer_to_a_consumer(registry: SchemaRegistryServer) -> None:
    client = SchemaRegistry(registry.url)
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Producer(
            key_serializer=AvroSerializer[str](client, '"string"', is_key=True),
            value_serializer=AvroSerializer[Any](client, ORDER),
            bootstrap_servers=servers,
        ) as writer:
            writer.send("orders", VALUE, key="alice")
            writer.send("orders", None, key="alice")
            with pytest.raises(SerializationFailed, match="pieces"):
                writer.send("orders", {"id": "a-2", "pieces": "three"}, key="bob")
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"not framed", key=b"\x00\x00\x00\x00\x01\x06eve")
        reading = {
            "key.deserializer": AvroDeserializer[str](client),
            "value.deserializer": AvroDeserializer[Any](client),
            "auto.offset.reset": "earliest",
            "group.id": "readers",
        }
        with Consumer(reading, bootstrap_servers=servers) as consumer:
            consumer.subscribe(["orders"])
            reader = iter(consumer)
            records = [next(reader), next(reader)]
            assert [(record.key, record.value) for record in records] == [("alice", VALUE), ("alice", None)]
            with pytest.raises(DeserializationFailed, match="not 0"):
                next(iter(consumer))


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_real_registry_serves_all_three_types(apicurio: str, orders_pb2: ModuleType, theirs: Theirs) -> None:
    """Apicurio's Confluent-compatible API; confluent-kafka reads what was written through it."""
    client = SchemaRegistry(apicurio)
    avro = AvroSerializer[Any](client, ORDER).serialize("orders", VALUE)
    assert confluent_avro.AvroDeserializer(theirs(apicurio))(avro, context()) == VALUE
    assert AvroDeserializer[Any](SchemaRegistry(apicurio), ORDER_V2).deserialize("orders", avro) is not None
    json_bytes = JsonSchemaSerializer[Any](client, JSON_ORDER).serialize("orders-json", VALUE)
    reader = confluent_json.JSONDeserializer(None, schema_registry_client=theirs(apicurio))
    assert reader(json_bytes, context("orders-json")) == VALUE
    assert JsonSchemaDeserializer[Any](SchemaRegistry(apicurio)).deserialize("orders-json", json_bytes) == VALUE
    message = order_of(orders_pb2)
    kind = type(message)
    framed = ProtobufSerializer(client, kind).serialize("orders-proto", message)
    settings = {"use.deprecated.format": False}
    assert confluent_protobuf.ProtobufDeserializer(kind, settings)(framed, context("orders-proto")) == message
    assert set(client.subjects()) >= {"orders-value", "orders-json-value", "orders-proto-value", "money.proto"}
    client.set_compatibility("BACKWARD", "orders-value")
    other = Schema('{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "n", "type": "int"}]}')
    assert not client.is_compatible("orders-value", other)
    with pytest.raises(RegistryError) as caught:
        client.register("orders-value", other)
    assert caught.value.status == 409


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_console_shows_what_serializers_wrote_and_is_served_over_tls(
    apicurio: str, orders_pb2: ModuleType, tmp_path: Path
) -> None:
    pytest.importorskip("uvicorn", reason="the console needs tidelog[console]")
    client = SchemaRegistry(apicurio)
    message = order_of(orders_pb2)
    values = {
        "sold-avro": AvroSerializer[Any](client, ORDER).serialize("sold-avro", VALUE),
        "sold-json": JsonSchemaSerializer[Any](client, JSON_ORDER).serialize("sold-json", VALUE),
        "sold-protobuf": ProtobufSerializer(client, type(message)).serialize("sold-protobuf", message),
    }
    make_certificates(tmp_path)
    options = ["--schema-registry", apicurio]
    options += ["--tls-certificate", str(tmp_path / "broker.crt"), "--tls-key", str(tmp_path / "broker.key")]
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with Broker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for topic, value in values.items():
                producer.send(topic, value).result(60)
        with console_process(broker.bootstrap_servers, *options) as url:
            assert url.startswith("https://")
            for topic in values:
                with urllib.request.urlopen(f"{url}/topics/{topic}/messages?start=oldest", context=trusted) as reply:
                    page = html.unescape(reply.read().decode())
                    assert "Secure" in reply.headers["set-cookie"]
                assert f"{topic.removeprefix('sold-')}, schema " in page
                assert '"id": "a-1"' in page
                assert '"pieces": ' in page
