"""The examples of docs/pipelines.md, taken from the page word for word and run against a broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.registry_server import registry_server
from tests.integration.spark.pipeline_support import committed
from tidelog.client import Admin, NewTopic, Producer
from tidelog.client.schemas import AvroDeserializer, AvroSerializer, SchemaRegistry
from tidelog.spark.pipeline import Pipeline
from tidelog.spark.pipeline.definition.loading import load_pipeline
from tidelog.spark.pipeline.failing.headers import decode
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pipeline]:
    """The pipeline that a section of the page defines; texts of the page may be replaced, such as a port."""
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path / "checkpoints"))

    def load(section: str, **replaced: str) -> Pipeline:
        text = PAGE.read_text(encoding="utf-8")
        part = re.search(rf"^##+ {re.escape(section)}\n(.*?)(?=^##+ |\Z)", text, re.MULTILINE | re.DOTALL)
        assert part is not None, f"docs/pipelines.md has no section {section!r}"
        code = next(block for block in re.findall(r"```python\n(.*?)```", part[1], re.DOTALL) if "Pipeline(" in block)
        for old, new in replaced.items():
            assert old in code
            code = code.replace(old, new)
        file = tmp_path / f"{re.sub('[^a-z]', '_', section.lower())}.py"
        file.write_text(code, encoding="utf-8")
        return load_pipeline(str(file))

    return load


def make(servers: str, *names: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1) for name in names])


def send(servers: str, topic: str, *records: tuple[Any, Any]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for key, value in records:
            producer.send(topic, _bytes(value), _bytes(key))


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def run_once(pipeline: Pipeline, spark: SparkSession, servers: str) -> None:
    start(pipeline, spark, servers=servers, once=True).wait(Event())


def values(servers: str, topic: str) -> list[Any]:
    return [json.loads(bytes(record.value or b"null")) for record in committed(servers, topic)]


def test_change_data_capture(spark: SparkSession, broker: Broker, example: Callable[..., Pipeline]) -> None:
    servers = broker.bootstrap_servers
    make(servers, "shop.public.customers", "customers")
    ann = {"id": 1, "name": "Ann"}
    send(
        servers,
        "shop.public.customers",
        ({"id": 1}, {"before": None, "after": ann, "op": "c", "source": {}}),
        ({"id": 1}, {"before": ann, "after": None, "op": "d", "source": {}}),
        ({"id": 1}, None),
        ({"id": 2}, {"nothing": 1}),
    )
    run_once(example("Change data capture"), spark, servers)
    assert values(servers, "customers") == [ann]
    assert [record.key for record in committed(servers, "customers")] == [b"1"]
    assert values(servers, "customers.dlq") == [{"nothing": 1}]


def test_schemas(spark: SparkSession, broker: Broker, example: Callable[..., Pipeline]) -> None:
    servers = broker.bootstrap_servers
    make(servers, "orders", "orders.large")
    fields = [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}]
    with registry_server() as registry:
        client = SchemaRegistry(registry.url)
        order = AvroSerializer[Any](client, {"type": "record", "name": "Order", "fields": fields})
        orders = [
            order.serialize("orders", {"id": id_, "amount": amount}) for id_, amount in ((1, 5), (2, 500), (3, -1))
        ]
        send(servers, "orders", *[(None, each) for each in (*orders, b"poison")])
        run_once(example("Schemas", **{"http://localhost:8081": registry.url}), spark, servers)
        reader = AvroDeserializer[Any](client)
        large = [reader.deserialize("", bytes(record.value or b"")) for record in committed(servers, "orders.large")]
        assert large == [{"id": 2, "amount": 500.0}]
        assert client.latest("orders.large-value").schema_id
    reasons = [decode(record.headers) for record in committed(servers, "orders.dlq")]
    assert {trail.error_message for trail in reasons if trail} == {
        "negative amount",
        "the first byte is 112, not 0: not written by a registry serializer",
    }
