"""Records of any bytes go through Spark's steps and Python's, one after the other: rows or dead letters, never a stop.

The steps that Python computes are given far more bytes in `tests.property.spark_pipeline.test_any_bytes`.
"""

import json
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.spark.pipeline_support import committed, make_topics
from tests.property.spark_pipeline.test_any_bytes import SCHEMAS
from tidelog.client import Producer
from tidelog.client.retry import headers
from tidelog.client.retry.headers import decode
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    RetryLadder,
    batch_step,
    expect,
    fail_when,
    pack_avro,
    pack_json,
    pack_json_schema,
    pack_protobuf,
    parse_avro,
    parse_debezium,
    parse_json,
    parse_json_schema,
    parse_protobuf,
    row_step,
    topic,
)
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PROTOBUF, PackSchema
from tidelog.spark.pipeline.definition.steps import OWN_STEPS
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker
from tidelog.testing.pipelines import Record, run_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

LATIN = '{"name": "café", "data": "x"}'.encode("latin-1")
EVENT = b'{"op": "c", "after": {"name": "a"}, "ts_ms": 9000000000000000000, "source": {"ts_ms": 9000000000000000000}}'
GOOD = b'{"name": "a", "data": "b"}'
GARBAGE = [
    *[b"", b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b'{"name": "\xff"}', LATIN, EVENT, b"\xf8", b"[" * 3000],
    *[Random(seed).randbytes(seed) for seed in range(1, 24)],
]
NOT_JSON = [value for value in GARBAGE if value != EVENT]
RECORDS = [Record(value, key=key, headers=[("h", value)]) for value, key in product([None, GOOD, *GARBAGE], [b"\xff"])]


def as_text(rows: DataFrame) -> DataFrame:
    """A cast checks nothing: the text has whatever bytes the value had."""
    return rows.withColumns({"name": F.col("value").cast("string"), "data": F.col("key").cast("string")})


@row_step("name string, data string")
def echo(row: dict[str, Any]) -> dict[str, Any]:
    """With all columns, so that all are read."""
    return {"name": row.get("name"), "data": bytes(row["value"] or b"").decode("utf-8", "surrogateescape")}


@batch_step("name string, data string")
def batch_echo(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same for a batch."""
    return pa.RecordBatch.from_pylist(
        [echo.function(row) for row in batch.to_pylist()], pa.schema({"name": pa.string(), "data": pa.string()})
    )


BEFORE: dict[Any, list[Any]] = {
    "a function of DataFrames": [as_text],
    "ParseJson": [parse_json("name string, data string")],
    "ParseDebezium": [parse_debezium("name string", key="id long")],
    "FailWhen": [fail_when("value is null", "no value")],
    "Expect": [expect("cast(value AS string) > 'a'", on_failure="dead_letter")],
    "ParseSchema": [
        parse_avro(SCHEMAS[AVRO]),
        parse_json_schema(SCHEMAS[JSON_SCHEMA]),
        parse_protobuf(SCHEMAS[PROTOBUF]),
    ],
    "RowStep": [echo],
    "BatchStep": [batch_echo],
}
AFTER: dict[str, list[Any]] = {
    "RowStep": [echo],
    "BatchStep": [batch_echo],
    "PackSchema": [
        pack_avro(schema=SCHEMAS[AVRO]),
        pack_json_schema(schema=SCHEMAS[JSON_SCHEMA]),
        pack_protobuf(schema=SCHEMAS[PROTOBUF]),
    ],
    "PackJson": [pack_json()],
}
PAIRS = [
    (first, second)
    for before, after in product(BEFORE.values(), AFTER.values())
    for first, second in product(before, after)
]


def _name(step: Any) -> str:
    return str(getattr(step, "name", getattr(step, "__name__", step)))


def _run(spark: SparkSession, *steps: Any) -> None:
    ends = [] if isinstance(steps[-1], PackSchema) or _name(steps[-1]) == "pack_json" else [pack_json()]
    source = topic("in", includeHeaders=True)
    pipeline = Pipeline("any", source=source, steps=[*steps, *ends], sink=topic("out"), on_failure=DeadLetters())
    result = run_rows(pipeline, RECORDS, spark=spark)
    assert len(result.rows) + len(result.failed) == len(RECORDS)
    for failed in result.failed:
        failed.message.encode()


def test_garbage_is_a_row_or_a_failure(spark: SparkSession) -> None:
    _run(spark, parse_json("name string, data string"), echo)


def name_after(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("after.name as name", "_record")


@pytest.mark.parametrize(
    "steps", [[parse_json("name string")], [parse_debezium("name string"), name_after]], ids=["json", "debezium"]
)
def test_text_that_is_not_utf8_is_no_json(spark: SparkSession, steps: list[Any]) -> None:
    """The parser would write U+FFFD for what it cannot read."""
    sink = topic("out", value="name")
    pipeline = Pipeline("latin", source=topic("in"), steps=steps, sink=sink, on_failure=DeadLetters())
    result = run_rows(pipeline, [Record(LATIN)], spark=spark)
    assert not result.rows
    (failed,) = result.failed
    assert failed.value == LATIN
    assert "caf\ufffd" in failed.message


@pytest.mark.long
def test_every_kind_of_step_is_in_the_tables() -> None:
    listed = [step for steps in [*BEFORE.values(), *AFTER.values()] for step in steps]
    missing = [kind.__name__ for kind in OWN_STEPS if not any(isinstance(step, kind) for step in listed)]
    assert not missing


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=[f"{_name(one)}-{_name(two)}" for one, two in PAIRS])
def test_any_bytes_go_through_any_two_steps(spark: SparkSession, first: Any, second: Any) -> None:
    _run(spark, first, second)


@pytest.mark.long
def test_garbage_in_topics_and_in_their_headers_stops_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Not in the source, and not in the retry topic, where others may write, too."""
    servers = broker.bootstrap_servers
    make_topics(servers, bytes=2, bytes_out=1)
    pipeline = Pipeline(
        "bytes",
        source=topic("bytes", includeHeaders=True),
        steps=[parse_json("name string, data string"), echo, pack_json("name")],
        sink=topic("bytes.out"),
        on_failure=RetryLadder(delays=["0s"], attempts=2),
        checkpoint=tmp_path / "checkpoint",
        trigger="0s",
    )
    own = {
        headers.PIPELINE: b"bytes",
        headers.ATTEMPTS: b"-7",
        headers.ORIGIN_TIMESTAMP_MS: b"9000000000000000000",
        headers.ORIGIN_PARTITION: b"\xff",
        headers.ERROR_MESSAGE: b"\xff",
    }
    with Producer(bootstrap_servers=servers) as producer:
        for value in (GOOD, *NOT_JSON):
            producer.send("bytes", value, value, headers=[("h", value), ("\ufffd", None)])
        producer.flush()
        start(pipeline, spark, servers=servers, once=True).wait(Event())
        for name, value in [*own.items(), (headers.PIPELINE, b"\xff")]:
            given = {**own, name: value}
            producer.send("bytes.retry.1", GOOD, b"retried", headers=list(given.items()))
        producer.flush()
    for _ in range(3):
        start(pipeline, spark, servers=servers, once=True).wait(Event())
    dead = committed(servers, "bytes.dlq")
    out = committed(servers, "bytes.out")
    assert Counter(bytes(letter.value or b"") for letter in dead) == Counter(NOT_JSON), "each once"
    assert all(decode(letter.headers) is not None for letter in dead)
    assert [json.loads(record.value or b"") for record in out] == [{"name": "a"}] * (1 + len(own))
