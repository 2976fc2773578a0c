"""Values with schemas in pipelines: Avro, JSON Schema and Protobuf, with a registry and with schema files.

The long test has a registry that others wrote, which keeps its schemas on a Tidelog broker, and serializers that others
wrote on both sides of the pipeline.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import DataFrame, SparkSession

from tests.integration.real_registry import real_registry
from tests.integration.spark.pipeline_support import committed
from tidelog.client import Admin, NewTopic, Producer
from tidelog.client.retry.headers import decode
from tidelog.client.schemas import AvroSerializer as OurAvroSerializer
from tidelog.client.schemas import Schema, SchemaRegistry
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    PipelineError,
    each_batch,
    fail_when,
    pack_avro,
    pack_json_schema,
    pack_protobuf,
    parse_avro,
    parse_debezium,
    parse_json_schema,
    parse_protobuf,
    topic,
)
from tidelog.spark.pipeline.running.run import start
from tidelog.spark.pipeline.schemas.protobuf import compile_text, message_class
from tidelog.testing import Broker
from tidelog.testing.registry import SchemaRegistryServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

AVRO_1 = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
}
NOTE = {"name": "note", "type": "string", "default": "none"}
AVRO_2 = {**AVRO_1, "fields": [*AVRO_1["fields"], NOTE]}  # type: ignore[misc]
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "amount": {"type": "number"}, "note": {"type": "string"}},
    "required": ["id", "amount"],
}
PROTO = """syntax = "proto3";
package shop;
message Order { int64 id = 1; double amount = 2; string note = 3; }
"""


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def steps_of(kind: str, url: str, output: str) -> list[Any]:
    """What a pipeline does with orders of a format."""
    at: dict[str, Any] = {"registry": url, "topic": output}
    return {
        "avro": [
            parse_avro(registry=url, subject="orders-avro-value"),
            fail_when("amount < 0", "negative amount"),
            pack_avro("id", "amount", "note", key="id", schema=AVRO_2, subject="record_name", **at),
        ],
        "json_schema": [
            parse_json_schema(registry=url, subject="orders-json_schema-value"),
            fail_when("amount < 0", "negative amount"),
            pack_json_schema("id", "amount", "note", key="id", schema=JSON_SCHEMA, subject="topic_record_name", **at),
        ],
        "protobuf": [
            parse_protobuf(registry=url, subject="orders-protobuf-value", message="shop.Order"),
            fail_when("amount < 0", "negative amount"),
            pack_protobuf("id", "amount", "note", key="id", schema=PROTO, message="shop.Order", **at),
        ],
    }[kind]


def theirs(kind: str, client: SchemaRegistryClient, name: str) -> tuple[list[bytes], Callable[[bytes], Any]]:
    """Orders that Confluent's serializers write, the oldest schema first, and Confluent's reader."""
    orders: list[dict[str, Any]] = [
        {"id": 1, "amount": 1.5},
        {"id": 2, "amount": 2.5, "note": "new"},
        {"id": 3, "amount": -1.0, "note": "x"},
    ]
    if kind == "avro":
        writers = [AvroSerializer(client, json.dumps(each)) for each in (AVRO_1, AVRO_2, AVRO_2)]
        reader = AvroDeserializer(client)
        written = [write(order, context(name)) for write, order in zip(writers, orders, strict=True)]
        return written, lambda data: reader(data, context(name))
    if kind == "json_schema":
        write_json = JSONSerializer(json.dumps(JSON_SCHEMA), client)
        read_json = JSONDeserializer(None, schema_registry_client=client)
        return [write_json(order, context(name)) for order in orders], lambda data: read_json(data, context(name))
    made = message_class(compile_text(PROTO, {}), "shop.Order")
    write_message = ProtobufSerializer(made, client, {"use.deprecated.format": False})
    read_message = ProtobufDeserializer(made, {"use.deprecated.format": False})

    def read(data: bytes) -> Any:
        message: Any = read_message(data, context(name))
        return {"id": message.id, "amount": message.amount, "note": message.note}

    return [write_message(made(**order), context(name)) for order in orders], read


@pytest.mark.long
def test_all_formats_with_a_real_registry_that_runs_on_tidelog(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Confluent's serializers write and read on both sides; what does not match is a dead letter with its reason."""
    servers = broker.bootstrap_servers
    with real_registry(servers) as url, SchemaRegistryClient({"url": url}) as client:
        with Admin(bootstrap_servers=servers) as admin:
            assert "kafkasql-journal" in {each.name for each in admin.list_topics()}, (
                "its schemas are in a topic of ours"
            )
        for kind in ("avro", "json_schema", "protobuf"):
            _whole_way(spark, servers, tmp_path, kind, url, client)
        registry = SchemaRegistry(url)
        registry.set_compatibility("BACKWARD", "orders-avro-value")
        wrong = pack_avro("id", registry=url, topic="orders-avro", schema={**AVRO_1, "fields": [_text_field("id")]})
        with pytest.raises(PipelineError, match=r"pack_avro: .* answered 409"):
            run([wrong], spark.createDataFrame([("1",)], "id string"))
        subjects = {"shop.Order", "clean-json_schema-Order", "clean-protobuf-value"}
        assert subjects <= set(registry.subjects()), "schemas are registered under the names of three strategies"


def _text_field(name: str) -> dict[str, str]:
    return {"name": name, "type": "string"}


def _whole_way(
    spark: SparkSession, servers: str, tmp_path: Path, kind: str, url: str, client: SchemaRegistryClient
) -> None:
    source, sink = f"orders-{kind}", f"clean-{kind}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(source, 1), NewTopic(sink, 1)])
    written, read = theirs(kind, client, source)
    unknown = b"\x00\x7f\xff\xff\xff" + written[0][5:]
    with Producer(bootstrap_servers=servers) as producer:
        for value in (*written, b"no frame", written[0][:5], unknown, None):
            producer.send(source, value, b"k")
    pipeline = Pipeline(
        f"through-{kind}",
        source=topic(source),
        steps=steps_of(kind, url, sink),
        sink=topic(sink),
        on_failure=DeadLetters(),
        checkpoint=str(tmp_path / kind),
    )
    start(pipeline, spark, servers=servers, once=True).wait(Event())
    made = {record.key: read(bytes(record.value or b"")) for record in committed(servers, sink)}
    first: dict[str, Any] = {"id": 1, "amount": 1.5}
    notes: dict[str, dict[str, Any]] = {"avro": {"note": "none"}, "json_schema": {}, "protobuf": {"note": ""}}
    first |= notes[kind]
    reasons = [decode(record.headers).error_message for record in committed(servers, f"{source}.dlq")]  # type: ignore[union-attr]
    assert made == {b"1": first, b"2": {"id": 2, "amount": 2.5, "note": "new"}}, reasons
    assert "negative amount" in reasons
    assert "value is null" in reasons
    assert any("not written by a registry serializer" in reason for reason in reasons)
    # Avro alone needs the schema that a value was written with: the two others are read by the reader's schema.
    assert any("answered 404" in reason for reason in reasons) == (kind == "avro"), reasons
    assert len(reasons) == (5 if kind == "avro" else 4), reasons


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as server:
        yield server


def values(spark: SparkSession, *data: bytes | None, keys: tuple[bytes, ...] = ()) -> DataFrame:
    rows = [(keys[index] if keys else b"k", each) for index, each in enumerate(data)]
    return spark.createDataFrame(rows, "key binary, value binary")


def run(steps: list[Any], rows: DataFrame) -> list[Any]:
    pipeline = Pipeline("p", source=topic("orders"), steps=steps, sink=each_batch(print))
    return pipeline.transform(rows).collect()


def test_formats_without_a_registry_by_schema_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value is the data alone; the files lie in the working directory, and what does not match fails."""
    monkeypatch.chdir(tmp_path)
    Path("order.avsc").write_text(json.dumps(AVRO_2))
    Path("order.json").write_text(json.dumps(JSON_SCHEMA))
    Path("order.proto").write_text(PROTO)
    orders = spark.createDataFrame([(1, 1.5, "a"), (2, None, "b")], "id long, amount double, note string")
    for packing, parsing in (
        (pack_avro(key="id", schema="order.avsc"), parse_avro("order.avsc")),
        (pack_json_schema(key="id", schema="order.json"), parse_json_schema("order.json")),
        (pack_protobuf(key="id", schema=Path("order.proto")), parse_protobuf("order.proto")),
    ):
        first, second = run([packing, parsing], orders)
        assert (bytes(first.key), first.id, first.amount, first.note, first["_error"]) == (b"1", 1, 1.5, "a", None)
        if packing.format == "protobuf":
            assert (second.amount, second["_error"]) == (0.0, None), "a missing field is its default"
        else:
            assert second["_error"].type in ("TypeError", "ValueError")


def test_a_subject_gives_the_columns_and_refusals_stop_before_the_first_row(
    spark: SparkSession, registry: SchemaRegistryServer
) -> None:
    client = SchemaRegistry(registry.url)
    client.register("orders-value", Schema(json.dumps(AVRO_2)))
    parsing = parse_avro(registry=registry.url, subject="orders-value", into="order")
    (row,) = run([parsing], values(spark, b"\x00\x00\x00\x00\x63\x02"))
    assert row["_error"].message.startswith(f"{registry.url}/schemas/ids/99 answered 404")
    assert row["_error"].type == "RegistryError"
    packing = pack_avro("id", registry=registry.url, topic="orders", schema=AVRO_1, register=False)
    with pytest.raises(PipelineError, match=r"pack_avro: .* answered 404"):
        run([packing], spark.createDataFrame([(1,)], "id long"))
    with pytest.raises(PipelineError, match=r"subject 'nothing-value'.* answered 404"):
        run([parse_avro(registry=registry.url, subject="nothing-value")], values(spark, b""))


@pytest.mark.long
def test_change_events_in_avro(spark: SparkSession, registry: SchemaRegistryServer) -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "string"}],
    }
    source = {"type": "record", "name": "Source", "fields": [{"name": "ts_ms", "type": "long"}]}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    client = SchemaRegistry(registry.url)
    write, write_key = OurAvroSerializer[Any](client, envelope), OurAvroSerializer[Any](client, key, is_key=True)
    ann = {"id": 1, "n": "Ann"}
    events = [
        {"before": None, "after": ann, "source": {"ts_ms": 1000}, "op": "c"},
        {"before": ann, "after": None, "source": {"ts_ms": 2000}, "op": "d"},
    ]
    rows = values(
        spark,
        *[write.serialize("t.customers", each) for each in events],
        None,
        b"nonsense",
        keys=(write_key.serialize("t.customers", {"id": 1}),) * 4,
    )
    made = run([parse_debezium(registry=registry.url, topic="t.customers")], rows)
    assert [each.operation for each in made[:3]] == ["create", "delete", "tombstone"]
    assert [each.row_key.id for each in made[:3]] == [1, 1, 1]
    assert [each.after and each.after.n for each in made[:3]] == ["Ann", None, None]
    assert made[1].changed_at.timestamp() == 2
    assert [each["_error"] is None for each in made] == [True, True, True, False]
