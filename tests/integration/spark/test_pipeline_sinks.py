"""Several sinks, tables to join with, and batches that are done again: what is written is written once."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.spark.pipeline_support import committed, forget_last_commit, ids, make_topics, send_orders
from tidelog.client import Producer
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    delta,
    each_batch,
    fail_when,
    iceberg,
    parquet,
    parse_json,
    topic,
)
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = pytest.mark.spark


def with_names(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """A join with a table, by the name of the parameter."""
    joined = orders.join(customers, orders.id % 2 == customers.remainder, "left").drop("remainder")
    return joined.selectExpr("id", "name", "key", "to_json(struct(id, name)) as value", "_record")


@pytest.mark.timeout(400)
@pytest.mark.long
def test_a_topic_and_a_delta_table_get_each_row_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Also when the last batch is done again, as after a crash between the sinks' commit and Spark's."""
    servers = broker.bootstrap_servers
    make_topics(servers, many=2, many_clean=2)
    spark.createDataFrame([(0, "even"), (1, "odd")], "remainder int, name string").write.parquet(
        str(tmp_path / "names")
    )
    pipeline = Pipeline(
        "many",
        source=topic("many"),
        tables={"customers": parquet(str(tmp_path / "names"))},
        steps=[parse_json("id long"), fail_when("id % 10 = 3", "three"), with_names],
        sink=[topic("many.clean"), delta(str(tmp_path / "lake"))],
        on_failure=DeadLetters(),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    send_orders(servers, "many", range(20), keys=3)
    _once(pipeline, spark, servers)
    send_orders(servers, "many", range(20, 30), keys=3)
    _once(pipeline, spark, servers)
    forget_last_commit(tmp_path / "checkpoint")
    _once(pipeline, spark, servers)

    well = [number for number in range(30) if number % 10 != 3]
    assert Counter(ids(committed(servers, "many.clean"))) == Counter(well)
    assert Counter(ids(committed(servers, "many.dlq"))) == Counter([3, 13, 23])
    rows: list[dict[str, Any]] = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().to_pylist()
    assert Counter(row["id"] for row in rows) == Counter(well)
    assert all(row["name"] == ("odd" if row["id"] % 2 else "even") for row in rows)


def per_minute(orders: DataFrame) -> DataFrame:
    """Totals of a minute, once it is over."""
    minutes = orders.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute").alias("minute"))
    return minutes.agg(F.sum("id").alias("total")).selectExpr("minute.start as minute", "total")


@pytest.mark.timeout(400)
def test_state_a_policy_and_several_sinks_work_together(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Also when a sink fails after another has the batch, and when Spark forgets that a batch was done."""
    servers = broker.bootstrap_servers
    make_topics(servers, minutes=2, minutes_out=1)
    fails_once = tmp_path / "fails"

    def flaky(rows: DataFrame, batch_id: int) -> None:
        if rows.count() and not fails_once.exists():
            fails_once.touch()
            raise OSError("the disk is full")

    pipeline = Pipeline(
        "minutes",
        source=topic("minutes"),
        steps=[parse_json("id long, at timestamp"), fail_when("id < 0", "negative"), per_minute],
        sink=[
            delta(str(tmp_path / "lake")),
            iceberg("shop.minutes", warehouse=str(tmp_path / "ice")),
            each_batch(flaky),
            topic("minutes.out", value="json"),
        ],
        on_failure=DeadLetters(),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    pipeline = replace(
        pipeline, steps=[*pipeline.steps, lambda rows: rows.withColumn("json", F.to_json(F.struct("*")))]
    )

    def send(*orders: tuple[int, int]) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            for number, minute in orders:
                producer.send("minutes", f'{{"id": {number}, "at": "2026-01-01T10:{minute:02}:30Z"}}'.encode())

    send((1, 0), (2, 0), (-1, 0), (3, 1))
    _once(pipeline, spark, servers)
    send((4, 1), (-2, 1), (5, 10))
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        _once(pipeline, spark, servers)
    _once(pipeline, spark, servers)
    send((6, 10), (7, 20))
    _once(pipeline, spark, servers)
    forget_last_commit(tmp_path / "checkpoint")
    _once(pipeline, spark, servers)
    send((8, 30))
    _once(pipeline, spark, servers)

    expected = Counter([3, 7, 11, 7])
    rows: list[dict[str, Any]] = DeltaTable(str(tmp_path / "lake")).to_pyarrow_table().to_pylist()
    assert Counter(row["total"] for row in rows) == expected
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/ice/catalog.db")
    assert Counter(catalog.load_table("shop.minutes").scan().to_arrow()["total"].to_pylist()) == expected
    records = committed(servers, "minutes.out")
    assert Counter(json.loads(bytes(record.value or b""))["total"] for record in records) == expected
    assert Counter(ids(committed(servers, "minutes.dlq"))) == Counter([-1, -2])


def _once(pipeline: Pipeline, spark: SparkSession, servers: str) -> None:
    start(pipeline, spark, servers=servers, once=True).wait(Event())
