"""The pipeline of docs/pipelines/relational.md, into PostgreSQL and SQLite, also when batches are repeated."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.postgres_support import PostgresServer
from tests.integration.spark.pages import run_snippet, snippet
from tests.integration.spark.pipeline_support import committed, forget_last_commit, make_topics
from tidelog.client import Producer
from tidelog.spark.pipeline import Pipeline, parse_json, sql_table, topic
from tidelog.spark.pipeline.lake.sql_dialects import dialect_of
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with PostgresServer() as server:
        yield server.url


def rows_of(url: str, name: str) -> list[Any]:
    with closing(dialect_of(url).connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT * FROM {dialect_of(url).quoted(name)}")
        return list(cursor.fetchall())


def test_the_pipeline_of_the_page_writes_each_order_once(
    spark: SparkSession, broker: Broker, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE", database)
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path / "checkpoints"))
    text = (Path(__file__).parents[3] / "docs" / "pipelines" / "relational.md").read_text(encoding="utf-8")
    pipeline = run_snippet(text.split("```python\n")[1].split("```")[0])["pipeline"]
    lite = f"sqlite:///{tmp_path / 'shop.db'}"
    run_snippet(snippet("relational.md", "Changes", {}))
    pipeline = replace(pipeline, sink=[pipeline.sink, replace(pipeline.sink, url=lite)])
    servers = broker.bootstrap_servers
    make_topics(servers, orders=2)
    for begin in (0, 20):
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(begin, begin + 20):
                order = {"id": number, "customer": f"c{number % 3}", "amount": number / 2}
                bad = number % 10 == 3
                producer.send("orders", b"no order" if bad else json.dumps(order).encode(), str(number).encode())
        start(pipeline, spark, servers=servers, once=True).wait(Event())
    forget_last_commit(tmp_path / "checkpoints" / "orders-table")
    start(pipeline, spark, servers=servers, once=True).wait(Event())
    expected = Counter((number, f"c{number % 3}", number / 2) for number in range(40) if number % 10 != 3)
    for url in (database, lite):
        assert Counter(map(tuple, rows_of(url, "orders"))) == expected
    assert len(committed(servers, "orders.dlq")) == 4


def counted(orders: DataFrame) -> DataFrame:
    """How many orders each customer has."""
    return orders.groupBy("customer").agg(F.count("*").alias("orders"))


@pytest.fixture
def few_states(spark: SparkSession) -> Iterator[SparkSession]:
    """One for each core, as `tidelog pipeline run` sets it."""
    name = "spark.sql.shuffle.partitions"
    kept = spark.conf.get(name)
    spark.conf.set(name, "2")
    yield spark
    spark.conf.set(name, str(kept))


def test_an_aggregate_in_update_mode_is_upserted(
    few_states: SparkSession, broker: Broker, database: str, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, counted=1)
    pipeline = Pipeline(
        "counts",
        source=topic("counted"),
        steps=[parse_json("customer string"), counted],
        sink=sql_table("counts", url=database, key="customer"),
        output_mode="update",
        checkpoint=tmp_path / "checkpoint",
    )
    for _ in range(2):
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(9):
                producer.send("counted", json.dumps({"customer": f"c{number % 4}"}).encode())
        start(pipeline, few_states, servers=servers, once=True).wait(Event())
    assert dict(rows_of(database, "counts")) == {"c0": 6, "c1": 4, "c2": 4, "c3": 4}
