"""Several sinks, tables to join with, and batches that are done again: what is written is written once."""

from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.pipeline_support import committed, forget_last_commit, ids, make_topics, send_orders
from tidelog.spark.pipeline import DeadLetters, Pipeline, delta, fail_when, parquet, parse_json, topic
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


def _once(pipeline: Pipeline, spark: SparkSession, servers: str) -> None:
    start(pipeline, spark, servers=servers, once=True).wait(Event())
