"""Topics into Delta and Iceberg tables: every row once, also when batches are repeated or the driver is killed."""

import json
from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.lake_kills import Kills
from tests.integration.spark.object_store import object_store
from tests.integration.spark.pipeline_support import committed, forget_last_commit, make_topics
from tests.integration.spark.pipeline_support import ids as order_ids
from tidelog.client import Producer
from tidelog.client.schemas import AvroSerializer, SchemaRegistry
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    delta,
    fail_when,
    iceberg,
    merge_changes,
    pack_json,
    parse_avro,
    parse_debezium,
    topic,
)
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.tables import open_table, selected
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker
from tidelog.testing.registry import SchemaRegistryServer

pytestmark = pytest.mark.spark


def run_once(pipeline: Pipeline, spark: SparkSession, servers: str) -> None:
    start(pipeline, spark, servers=servers, once=True).wait(Event())


def notes(table: Any) -> Counter[tuple[int, str | None]]:
    rows = open_table(table).read()
    return Counter(zip(rows["id"].to_pylist(), rows["note"].to_pylist(), strict=True))


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


@pytest.mark.timeout(600)
@pytest.mark.long
def test_a_batch_that_is_repeated_is_in_each_table_once_and_a_new_field_becomes_a_column(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """With a policy, so that both tables and the dead letters are one batch."""
    servers = broker.bootstrap_servers
    make_topics(servers, lake=2)

    def define(url: str, *columns: str) -> Pipeline:
        kept: dict[str, Any] = {"columns": columns, "compact_every": "1ms", "merge_schema": True}
        return Pipeline(
            "lake",
            source=topic("lake"),
            steps=[parse_avro(registry=url, subject="lake-value"), fail_when("id % 10 = 3", "three")],
            sink=(delta(tmp_path / "delta", **kept), iceberg("shop.orders", warehouse=tmp_path / "lake", **kept)),
            on_failure=DeadLetters(),
            checkpoint=tmp_path / "checkpoint",
        )

    with SchemaRegistryServer() as registry:
        for sent, fields in ((range(20), (ID,)), (range(20, 30), (ID, NOTE))):
            write = AvroSerializer[Any](
                SchemaRegistry(registry.url), {"type": "record", "name": "Order", "fields": [*fields]}
            )
            with Producer(bootstrap_servers=servers) as producer:
                for number in sent:
                    row = {"id": number, "note": f"no. {number}"}
                    producer.send("lake", write.serialize("lake", row), f"k{number % 3}".encode())
            pipeline = define(registry.url, "offset", *(str(each["name"]) for each in fields))
            run_once(pipeline, spark, servers)
        forget_last_commit(tmp_path / "checkpoint")
        run_once(pipeline, spark, servers)
    expected = Counter((number, None if number < 20 else f"no. {number}") for number in range(30) if number % 10 != 3)
    assert [notes(sink) for sink in pipeline.sinks] == [expected, expected]
    assert len(committed(servers, "lake.dlq")) == 3
    with pytest.raises(PipelineError, match=r"delta t writes the columns id, amount, but the rows have id$"):
        selected(spark.range(1), ("id", "amount"), delta("t"))


def last_state(events: DataFrame) -> DataFrame:
    """The columns of a customer, from Debezium's event or its key."""
    return events.selectExpr("row_key.id as id", "after.name as name", "operation", "offset")


@pytest.mark.timeout(300)
@pytest.mark.long
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_change_events_are_merged_into_a_table(spark: SparkSession, broker: Broker, tmp_path: Path, kind: str) -> None:
    servers = broker.bootstrap_servers
    name = f"customers.{kind}"
    make_topics(servers, **{name: 2})
    table = delta(tmp_path / "t") if kind == "delta" else iceberg("shop.customers", warehouse=tmp_path / "t")
    pipeline = Pipeline(
        "customers",
        source=topic(name),
        steps=[parse_debezium("id long, name string", key="id long"), last_state],
        sink=merge_changes(table, key="id", order_by="offset", operation="operation"),
        checkpoint=tmp_path / "checkpoint",
    )
    expected: dict[int, str] = {}
    for step in range(3):
        _send_changes(servers, name, step, expected)
        run_once(pipeline, spark, servers)
        found = {row["id"]: row["name"] for row in open_table(table).read().to_pylist()}
        assert found == expected
    forget_last_commit(tmp_path / "checkpoint")
    run_once(pipeline, spark, servers)
    rows = open_table(table).read().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == expected
    assert len(rows) == len(expected), "each customer once"


def _send_changes(servers: str, name: str, step: int, expected: dict[int, str]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(60):
            customer = (number * 7 + step) % 20
            key = json.dumps({"id": customer}).encode()
            if number % 5 == 4 and customer in expected:
                row = {"id": customer, "name": expected.pop(customer)}
                producer.send(name, json.dumps({"before": row, "after": None, "op": "d"}).encode(), key)
                producer.send(name, None, key)
            else:
                expected[customer] = f"{step}-{number}"
                row = {"id": customer, "name": expected[customer]}
                producer.send(name, json.dumps({"before": None, "after": row, "op": "u"}).encode(), key)
        producer.flush()


@pytest.mark.timeout(900)
@pytest.mark.long
def test_a_killed_driver_loses_nothing_on_an_object_store(broker: Broker, tmp_path: Path) -> None:
    """Killed between the files and the commit, and between the commit and Spark's checkpoint, in both tables."""
    with object_store() as storage:
        kills = Kills(broker.bootstrap_servers, tmp_path, storage)
        for kind in ("delta", "iceberg"):
            for point in ("before", "after"):
                kills.run(kind, point)
        kills.finish()
        kills.check()


@pytest.mark.timeout(400)
@pytest.mark.long
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_of_a_table_reach_a_topic_once(spark: SparkSession, broker: Broker, tmp_path: Path, kind: str) -> None:
    """All rows first, then those that are added, over a compaction and a batch that is repeated."""
    servers = broker.bootstrap_servers
    name = f"{kind}.rows"
    make_topics(servers, **{name: 2})
    described = delta(tmp_path / "t") if kind == "delta" else iceberg("shop.rows", warehouse=tmp_path / "t")
    table = open_table(described)
    pipeline = Pipeline(
        "table",
        source=described,
        steps=[pack_json("id", "at", key="id")],
        sink=topic(name),
        checkpoint=tmp_path / "checkpoint",
    )
    for number in range(3):
        rows = spark.range(number * 10, number * 10 + 10).selectExpr("id", "timestamp_seconds(id) as at")
        table.append(rows, Batch("writer", number))
        if number == 1:
            table.compact()
        run_once(pipeline, spark, servers)
    forget_last_commit(tmp_path / "checkpoint")
    run_once(pipeline, spark, servers)
    assert Counter(order_ids(committed(servers, name))) == Counter(range(30))
