"""The examples of docs/pipelines/, taken from the pages word for word and run against a broker."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.integration.spark.pipeline_pages import blocks_of
from tests.integration.spark.pipeline_support import committed, forget_last_commit, wait_for
from tidelog.client import Admin, NewTopic, Producer
from tidelog.client.retry.headers import decode
from tidelog.client.schemas import AvroDeserializer, AvroSerializer, SchemaRegistry
from tidelog.spark.pipeline import (
    DeadLetters,
    PipelineError,
    RetryLadder,
    pack_json,
    parse_json,
    row_step,
    topic,
)
from tidelog.spark.pipeline.definition.loading import load_pipeline
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker
from tidelog.testing.registry import SchemaRegistryServer

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pipeline]:
    """The pipeline that a section of the pages defines; texts of the page may be replaced, such as a port."""
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path / "checkpoints"))

    def load(section: str, number: int = 0, **replaced: str) -> Pipeline:
        found = [each.code for each in blocks_of(section) if each.language == "python"]
        code = [each for each in found if "Pipeline(" in each][number]
        for old, new in replaced.items():
            assert old in code
            code = code.replace(old, new)
        file = tmp_path / f"{re.sub('[^a-z]', '_', section.lower())}{number}.py"
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
    with SchemaRegistryServer() as registry:
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


def test_expectations(spark: SparkSession, broker: Broker, example: Callable[..., Pipeline]) -> None:
    servers = broker.bootstrap_servers
    make(servers, "orders.unchecked", "orders.checked")
    orders = [{"id": id_, "customer": "c", "amount": 20.0} for id_ in range(30)]
    orders[3]["amount"] = -1.0
    orders[4]["customer"] = "test"
    orders[5]["amount"] = 20_000.0
    send(servers, "orders.unchecked", *[(None, each) for each in orders])
    pipeline = example("Expectations")
    run_once(pipeline, spark, servers)
    assert {each["id"] for each in values(servers, "orders.checked")} == {*range(30)} - {3, 4}
    assert [each["id"] for each in values(servers, "orders.unchecked.dlq")] == [3]
    send(servers, "orders.unchecked", (None, {"id": 30, "amount": -1.0}))
    with pytest.raises(Exception, match=r"'positive amount' \(amount > 0\): 1 of 1 rows of the batch fail"):
        run_once(pipeline, spark, servers)


def test_several_topics(spark: SparkSession, broker: Broker, example: Callable[..., Pipeline]) -> None:
    """Also when the last batch is done again, and without a policy."""
    servers = broker.bootstrap_servers
    make(servers, "orders.in", "orders.all", "orders.high", "orders.alerts")
    orders = [{"id": id_, "customer": "c", "amount": amount} for id_, amount in ((1, 5), (2, 500), (3, 5000))]
    send(servers, "orders.in", *[(None, each) for each in (*orders, "poison")])
    pipeline = example("Several topics")
    run_once(pipeline, spark, servers)
    forget_last_commit(Path(pipeline.checkpoint_path))
    run_once(pipeline, spark, servers)

    def written() -> list[list[int]]:
        return [sorted(order["id"] for order in values(servers, f"orders.{name}")) for name in ("all", "high")]

    def alerts() -> list[tuple[bytes | None, bytes | None]]:
        return [(record.key, record.value) for record in committed(servers, "orders.alerts")]

    assert written() == [[1, 2, 3], [2, 3]]
    assert alerts() == [(b"c", b"large order 3")]
    assert values(servers, "orders.in.dlq") == ["poison"]

    well = replace(pipeline, on_failure=None, source=topic("orders.all"), name="again", steps=pipeline.steps[:2])
    sinks = [topic("copy", where=f"id {sign} 2", value="value") for sign in ("=", ">", ">=")]
    make(servers, "copy")
    run_once(replace(well, sink=sinks), spark, servers)
    assert sorted(order["id"] for order in values(servers, "copy")) == [2, 2, 3, 3]


def test_windows_with_a_policy(spark: SparkSession, broker: Broker, example: Callable[..., Pipeline]) -> None:
    servers = broker.bootstrap_servers
    make(servers, "payments", "payments.per-minute")

    def payment(id_: int, amount: float, minute: int) -> tuple[None, dict[str, Any]]:
        return None, {"id": id_, "customer": "c", "amount": amount, "at": f"2026-01-01T10:{minute:02}:30Z"}

    pipeline = example("Windows, joins and other state")
    send(servers, "payments", payment(1, 2.0, 0), payment(1, 2.0, 0), payment(2, 3.0, 0), payment(3, -1.0, 0))
    run_once(pipeline, spark, servers)
    send(servers, "payments", payment(4, 4.0, 0), (None, b"poison"), payment(5, 1.0, 30))
    run_once(pipeline, spark, servers)
    forget_last_commit(Path(pipeline.checkpoint_path))
    run_once(pipeline, spark, servers)
    send(servers, "payments", payment(6, 1.0, 31))
    run_once(pipeline, spark, servers)
    totals = values(servers, "payments.per-minute")
    assert [(each["customer"], each["total"]) for each in totals] == [("c", 9.0)], "each payment once, over two runs"
    letters = [record.value for record in committed(servers, "payments.dlq")]
    assert len(letters) == 2
    assert b"poison" in letters

    def deduplicated(rows: DataFrame) -> DataFrame:
        return rows.withWatermark("at", "10 minutes").dropDuplicatesWithinWatermark(["id"])

    ladder = replace(
        pipeline,
        steps=[*pipeline.steps[:2], deduplicated],
        on_failure=RetryLadder(delays=["1s"], keep_order_by_key=True),
    )
    with pytest.raises(PipelineError, match=r"keeps state over batches.*keep_order_by_key decides about each batch"):
        start(ladder, spark, servers=servers)
    own = replace(pipeline, steps=[*pipeline.steps[:2], same, *pipeline.steps[2:]])
    with pytest.raises(PipelineError, match=r"keeps state over batches.*same would be called twice"):
        start(own, spark, servers=servers)


@row_step("id long", columns=["id"])
def same(row: dict[str, Any]) -> dict[str, Any]:
    return row


def test_a_join_of_streams(spark: SparkSession, broker: Broker, example: Callable[..., Pipeline]) -> None:
    servers = broker.bootstrap_servers
    make(servers, "placed", "paid", "placed.paid")
    send(servers, "placed", *[(None, {"id": number}) for number in range(4)])
    pipeline = example("Windows, joins and other state", 1)
    run_once(pipeline, spark, servers)
    send(servers, "paid", (b"1", b""), (b"3", b""), (b"9", b""))
    run_once(pipeline, spark, servers)
    assert sorted(each["id"] for each in values(servers, "placed.paid")) == [1, 3]


class Counting(StatefulProcessor):
    """Numbers the rows of a key over all batches."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        found = self._count.get() if self._count.exists() else None
        count = 0 if found is None else found[0]
        for _ in rows:
            count += 1
        self._count.update((count,))
        yield Row(customer=key[0], n=count)

    def close(self) -> None:
        return None


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("customer").transformWithState(Counting(), "customer string, n long", "append", "none")


def test_transform_with_state_and_a_policy(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make(servers, "visits", "visits.counted")
    provider = "spark.sql.streaming.stateStore.providerClass"
    pipeline = Pipeline(
        "visits",
        source=topic("visits"),
        steps=[parse_json("customer string"), counted, pack_json(key="customer")],
        sink=topic("visits.counted"),
        on_failure=DeadLetters(),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    spark.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    try:
        for visits in (2, 1):
            send(servers, "visits", *[(None, {"customer": "a"})] * visits, (None, b"poison"))
            run_once(pipeline, spark, servers)
    finally:
        spark.conf.unset(provider)
    assert [each["n"] for each in values(servers, "visits.counted")] == [2, 3]
    assert len(committed(servers, "visits.dlq")) == 2


def test_tables_that_change(
    spark: SparkSession, broker: Broker, example: Callable[..., Pipeline], tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make(servers, "orders.raw", "orders.named")
    path = str(tmp_path / "customers")

    def name(text: str) -> None:
        spark.createDataFrame([("c", text)], "customer string, name string").write.mode("overwrite").parquet(path)

    def order(id_: int) -> None:
        send(servers, "orders.raw", (None, {"id": id_, "customer": "c"}))

    name("Ann")
    order(1)
    pipeline = example("Tables that change", **{"/data/customers": path, '"10m"': '"1ms"'})
    running = start(pipeline, spark, servers=servers)
    try:
        for number, text in ((1, "Ann"), (2, "Bob")):
            if number > 1:
                name(text)
                order(number)
            wait_for(lambda: len(values(servers, "orders.named")) == number, 100, "the order")  # noqa: B023
    finally:
        running.stop()
    assert [each["name"] for each in values(servers, "orders.named")] == ["Ann", "Bob"]
    order(3)
    run_once(replace(pipeline, on_failure=DeadLetters()), spark, servers)
    assert [each["name"] for each in values(servers, "orders.named")] == ["Ann", "Bob", "Bob"]
    windowed = [lambda rows: rows.withWatermark("timestamp", "1 minute"), *pipeline.steps]
    with pytest.raises(PipelineError, match=r"keeps state over batches.*tables that are refreshed"):
        start(replace(pipeline, steps=windowed), spark, servers=servers)
