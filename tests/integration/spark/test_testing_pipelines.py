"""`tidelog.testing.pipelines`: what it reports is what the pipeline does on a broker."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.spark.pipeline_support import make_topics
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    delta,
    fail_when,
    pack_json,
    parse_debezium,
    parse_json,
    row_step,
    topic,
)
from tidelog.spark.pipeline.running.columns import output_rows
from tidelog.spark.pipeline.running.sinks import stop_at_failed
from tidelog.testing import Broker
from tidelog.testing.pipelines import Record, run_on_broker, run_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@row_step("size string", columns=["amount"])
def size_of(row):
    if row["amount"] == 13:
        raise ValueError("an unlucky amount")
    return {"size": "large" if row["amount"] > 10 else "small"}


def with_country(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, "id", "left")


ORDERS = Pipeline(
    "orders",
    source=topic("orders"),
    steps=[
        parse_json("id long, amount double"),
        fail_when("amount < 0", "negative amount"),
        size_of,
        pack_json("id", "size", key="id"),
    ],
    sink=topic("orders.clean"),
    on_failure=DeadLetters(),
)
RECORDS = [{"id": 1, "amount": 5}, {"id": 2, "amount": -1}, "not JSON", Record({"id": 3, "amount": 13}, key="k")]


def _assert_claims(result):
    assert result.values == [{"id": 1, "size": "small"}]
    assert result.rows[0]["key"] == b"1"
    failed = {each.value: each for each in result.failed}
    assert set(failed) == {b'{"id": 2, "amount": -1}', b"not JSON", b'{"id": 3, "amount": 13}'}
    assert failed[b'{"id": 2, "amount": -1}'].message == "negative amount"
    assert failed[b'{"id": 3, "amount": 13}'].type == "ValueError"
    assert failed[b'{"id": 3, "amount": 13}'].key == b"k"


def test_rows_go_through_the_steps_without_a_broker(spark: SparkSession) -> None:
    _assert_claims(run_rows(ORDERS, RECORDS, spark=spark))


@pytest.mark.parametrize("step", [parse_json("id long"), parse_debezium("id long")], ids=["json", "debezium"])
def test_a_value_is_parsed_once_although_a_check_and_the_columns_need_it(
    spark: SparkSession, step: Callable[[DataFrame], DataFrame]
) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    plan = stop_at_failed(step(rows))._jdf.queryExecution().executedPlan().toString()
    assert plan.count("from_json(") == 1, plan


def test_records_without_headers_are_handed_over_with_an_empty_array(spark: SparkSession) -> None:
    """Spark takes ten microseconds a row for null arrays, see `no_headers`."""
    rows = spark.sql("select 'v' as value, cast(null as array<struct<key string, value binary>>) as headers")
    for given in (rows, rows.drop("headers")):
        (row,) = output_rows(given, [topic("out")]).collect()
        assert row["headers"] == []


@pytest.mark.parametrize("columns", [("id",), ()])
def test_pack_json_keeps_where_a_row_goes(spark: SparkSession, columns: tuple[str, ...]) -> None:
    def choose(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("id", "if(id > 1, 'large', 'small') as to_topic", "cast(id as int) as to_partition")

    pipeline = Pipeline(
        "routed",
        source=topic("orders"),
        steps=[parse_json("id long"), choose, pack_json(*columns, key="id")],
        sink=topic(),
    )
    result = run_rows(pipeline, [{"id": 1}, {"id": 2}], spark=spark)
    assert [(row["topic"], row["partition"]) for row in result.rows] == [("small", 1), ("large", 2)]
    assert result.values == [{"id": 1}, {"id": 2}]


@pytest.mark.long
def test_the_same_pipeline_runs_on_a_broker(spark: SparkSession) -> None:
    _assert_claims(run_on_broker(ORDERS, RECORDS, spark=spark))


@pytest.mark.long
def test_tables_are_given_as_rows_and_read_from_a_lake(spark: SparkSession, tmp_path) -> None:
    pipeline = Pipeline(
        "countries",
        source=topic("orders"),
        tables={"customers": topic("customers")},
        steps=[parse_json("id long"), with_country],
        sink=delta(tmp_path / "t", columns=["id", "country"]),
    )
    result = run_rows(pipeline, [{"id": 1}], tables={"customers": [{"id": 1, "country": "CH"}]}, spark=spark)
    assert result.rows == [{"id": 1, "country": "CH"}]

    def only_id(orders: DataFrame) -> DataFrame:
        return orders.select("id", F.lit("CH").alias("country"))

    lake = Pipeline("lake", source=topic("orders"), steps=[parse_json("id long"), only_id], sink=delta(tmp_path / "t"))
    assert json.dumps(run_on_broker(lake, [{"id": 5}], spark=spark).rows) == '[{"id": 5, "country": "CH"}]'


@pytest.mark.long
def test_a_broker_gets_records_as_they_are_given_and_topics_that_rows_name_are_read(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    def choose(orders: DataFrame) -> DataFrame:
        moment = "cast(unix_millis(timestamp) as string) as value"
        return orders.selectExpr(moment, "headers", "concat('orders.', cast(value as string)) as to_topic")

    own = tmp_path / "checkpoint of the team"
    pipeline = Pipeline(
        "given",
        source=topic("orders", includeHeaders=True),
        steps=[choose],
        sink=topic(),
        checkpoint=str(own),
    )
    headers = [("n", None), ("n", b"1")]
    records = [
        Record("new", headers=headers, timestamp=datetime(2030, 1, 1, tzinfo=UTC)),
        Record("old", headers=headers, timestamp=datetime(1970, 1, 2, tzinfo=UTC)),
    ]
    make_topics(broker.bootstrap_servers, orders=1)
    for servers in (None, broker.bootstrap_servers):
        rows = run_on_broker(pipeline, records, spark=spark, bootstrap_servers=servers).rows
        assert [(row["topic"], row["value"]) for row in rows] == [
            ("orders.new", b"1893456000000"),
            ("orders.old", b"86400000"),
        ]
        assert [row["headers"] for row in rows] == [headers, headers]
    assert not own.exists(), "it belongs to the pipeline that runs, not to its test"
    assert [row["value"] for row in run_rows(pipeline, records, spark=spark).rows] == [b"1893456000000", b"86400000"]
