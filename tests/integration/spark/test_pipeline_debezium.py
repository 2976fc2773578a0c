"""Change events of Debezium as rows: each operation, with and without schemas, tombstones, and what is no event."""

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidelog.spark.pipeline import Pipeline, each_batch, parse_debezium, topic

pytestmark = pytest.mark.spark

ANN = {"id": 1, "name": "Ann"}
BOB = {"id": 1, "name": "Bob"}
SOURCE = {"table": "customers", "ts_ms": 1_700_000_000_123, "lsn": 7}


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1_700_000_000_456}


def with_schema(payload: Any) -> str:
    return json.dumps({"schema": {"type": "struct", "fields": []}, "payload": payload})


def parsed(spark: SparkSession, *records: tuple[str | None, str | None]) -> list[Any]:
    pipeline = Pipeline(
        "cdc",
        source=topic("customers"),
        steps=[parse_debezium("id long, name string", key="id long")],
        sink=each_batch(print),
    )
    rows = spark.createDataFrame(list(records), "key string, value string").selectExpr(
        "cast(key as binary) as key", "cast(value as binary) as value"
    )
    return pipeline.transform(rows).collect()


def test_every_operation_becomes_a_row_with_its_key(spark: SparkSession) -> None:
    key, bare = '{"id": 1}', json.dumps
    events = [
        (key, bare(event("c", None, ANN))),
        (with_schema({"id": 1}), with_schema(event("u", ANN, BOB))),
        (key, bare(event("r", None, ANN))),
        (key, bare(event("d", BOB, None))),
        (key, None),
        (key, with_schema(event("t", None, None))),
    ]
    rows = parsed(spark, *events)
    assert all(row["_error"] is None for row in rows)
    assert [row.operation for row in rows] == ["create", "update", "snapshot", "delete", "tombstone", "truncate"]
    assert [row.row_key.id for row in rows] == [1] * 6
    assert [row.after and row.after.name for row in rows] == ["Ann", "Bob", "Ann", None, None, None]
    assert [row.before and row.before.name for row in rows] == [None, "Ann", None, "Bob", None, None]
    assert rows[0].changed_at.timestamp() == pytest.approx(1_700_000_000.123)
    assert json.loads(rows[1].source) == SOURCE


def test_what_is_no_change_event_fails_with_the_reason(spark: SparkSession) -> None:
    key = '{"id": 1}'
    rows = parsed(
        spark,
        (key, "no json"),
        (key, json.dumps(event("x", None, ANN))),
        (key, json.dumps(event("c", None, {"id": "one"}))),
        (key, json.dumps(event("u", ANN, None))),
        ("one", json.dumps(event("c", None, ANN))),
        (key, json.dumps(ANN)),
    )
    messages = [row["_error"].message for row in rows]
    assert messages[0] == "value is not a change event of (id long, name string): no json"
    assert messages[1] == "the change event has an unknown op: x"
    assert messages[2].startswith("value is not a change event of (id long, name string): {")
    assert messages[3] == "the change event has no `after`: update"
    assert messages[4] == "key is not a JSON object of (id long): one"
    assert messages[5] == "the change event has an unknown op: null"
