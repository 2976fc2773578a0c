"""Failing rows on a real broker: nothing is lost, nothing comes twice, neighbours go on, order is kept where asked."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.pipeline_support import (
    assert_each_once,
    committed,
    forget_last_commit,
    ids,
    make_topics,
    send_orders,
    trails,
    wait_for,
)
from tidelog.client import Admin, TopicPartition
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.spark.pipeline import (
    DROP,
    RECORD,
    Pipeline,
    PipelineError,
    RetryLadder,
    RowFailed,
    fail_when,
    pack_json,
    row_step,
    topic,
)
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.plan import drained
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = pytest.mark.spark

WAIT_S = 240


@row_step("id long", columns=["value", RECORD])
def read_order(row: dict[str, Any]) -> dict[str, Any]:
    """3 of ten never succeed, 5 of ten do at the third attempt, 7 of ten are not worth a second."""
    number = json.loads(row["value"])["id"]
    attempts = row[RECORD]["attempts"]
    if number % 10 == 3 or (number % 10 == 5 and attempts < 2):
        raise ValueError(f"order {number} failed")
    if number % 10 == 7:
        raise RowFailed("no use", retry=False)
    return {"id": number}


LEFT_OUT = {15, 21}


@row_step("id long", columns=["id", RECORD])
def leave_out(row: dict[str, Any]) -> Any:
    """Two orders are left out when they have waited: one is the next of its key then, the other waits behind one."""
    return DROP if row["id"] in LEFT_OUT and row[RECORD]["sequence"] is not None else {"id": row["id"]}


def with_origin(rows: DataFrame) -> DataFrame:
    """A function of DataFrames, which knows nothing of failed rows."""
    return rows.where("id is not null").selectExpr("*", "concat(topic, '-', partition, '@', offset) as origin")


DYING = {3, 7}


def _dying(sent: range) -> set[int]:
    return {number for number in sent if number % 10 in DYING}


def _run_until(spark: SparkSession, pipeline: Pipeline, servers: str, is_done: Callable[[], bool]) -> None:
    running = start(pipeline, spark, servers=servers)
    try:
        wait_for(lambda: is_done() or any(query.exception() for query in running.queries), WAIT_S, "the pipeline")
    finally:
        asked = Event()
        asked.set()
        running.wait(asked)


@pytest.mark.timeout(400)
@pytest.mark.long
def test_failed_rows_climb_the_ladder_and_all_others_pass(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, one=3, one_clean=2)
    sent = range(60)
    send_orders(servers, "one", sent, keys=7)
    pipeline = Pipeline(
        "one",
        source=topic("one"),
        steps=[read_order, with_origin, pack_json("id", "origin")],
        sink=topic("one.clean"),
        on_failure=RetryLadder(delays=["300ms", "600ms"]),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    dying = _dying(sent)
    _run_until(
        spark,
        pipeline,
        servers,
        lambda: len(committed(servers, "one.clean")) + len(committed(servers, "one.dlq")) >= len(sent),
    )
    output, dead = committed(servers, "one.clean"), committed(servers, "one.dlq")
    assert_each_once(ids(output), ids(dead), sent, dying)

    source = committed(servers, "one")
    where = dict(zip(ids(source), ((record.offset, record.timestamp) for record in source), strict=True))
    for number, trail in trails(dead).items():
        assert trail.attempts == (1 if number % 10 == 7 else 3)
        assert (trail.error_type, trail.error_message) == (
            ("RowFailed", "no use") if number % 10 == 7 else ("ValueError", f"order {number} failed")
        )
        assert (trail.pipeline, trail.origin.topic, trail.due_ms) == ("one", "one", None)
        assert (trail.origin.offset, trail.origin.timestamp_ms) == where[number]
    assert all(record.headers[0] == ("n", b"1") for record in dead)
    origins = [json.loads(bytes(record.value or b""))["origin"] for record in output]
    assert all(origin.startswith("one-") for origin in origins), "a retried row looks like its first attempt"


@pytest.mark.timeout(400)
@pytest.mark.long
def test_order_by_key_is_kept_while_some_rows_wait(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Also when rows are left out that others wait for, and when the last batch is done again, as after a crash."""
    servers = broker.bootstrap_servers
    make_topics(servers, two=2, two_clean=3)
    sent = range(24)
    send_orders(servers, "two", sent, keys=8)
    pipeline = Pipeline(
        "two",
        source=topic("two"),
        steps=[read_order, leave_out, pack_json("id")],
        sink=topic("two.clean"),
        on_failure=RetryLadder(delays=["200ms", "200ms"], keep_order_by_key=True),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    _run_until(
        spark,
        pipeline,
        servers,
        lambda: len(committed(servers, "two.clean")) + len(committed(servers, "two.dlq")) >= len(sent) - len(LEFT_OUT),
    )
    forget_last_commit(tmp_path / "checkpoint")
    start(pipeline, spark, servers=servers, once=True).wait(Event())
    output, dead = committed(servers, "two.clean"), committed(servers, "two.dlq")
    assert_each_once(ids(output), ids(dead), [number for number in sent if number not in LEFT_OUT], _dying(sent))
    for key in {record.key for record in output}:
        of_key = ids(record for record in output if record.key == key)
        assert of_key == sorted(of_key)
    assert size(servers, "two.retry.parked") == 0, "what was parked is deleted when it is done"
    last = {record.key: record.value for record in committed(servers, "two.retry.keys")}
    assert set(last.values()) == {None}, "no key is blocked any more"


@row_step("id long", columns=["value", RECORD])
def first_of_key_fails(row: dict[str, Any]) -> dict[str, Any]:
    """The first order of each key fails once, and later one of 501."""
    number = json.loads(row["value"])["id"]
    if row[RECORD]["attempts"] == 0 and (number < PARKED_KEYS or number % 501 == 500):
        raise ValueError(f"order {number} failed")
    return {"id": number}


PARKED_KEYS = 50


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [3_000, 100_000])
@pytest.mark.long
def test_parked_rows_drain_in_batches_linear_in_their_number(
    spark: SparkSession, broker: Broker, tmp_path: Path, count: int
) -> None:
    """Each is written to the parked topic once, the topic shrinks again, and the progress counts each row once."""
    servers = broker.bootstrap_servers
    name = f"many{count}"
    make_topics(servers, **{name: 2, f"{name}_clean": 2})
    send_orders(servers, name, range(count), keys=PARKED_KEYS)
    pipeline = Pipeline(
        name,
        source=topic(name, maxOffsetsPerTrigger=max(500, count // 12)),
        steps=[first_of_key_fails, pack_json("id")],
        sink=topic(f"{name}.clean"),
        on_failure=RetryLadder(delays=["2s"], keep_order_by_key=True),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="0s",
    )
    running = start(pipeline, spark, servers=servers)
    progress: dict[int, Any] = {}

    def is_drained() -> bool:
        progress.update({each["batchId"]: each for each in running.queries[0].recentProgress})
        return is_over()

    is_over = drained(pipeline, servers, lambda: False)
    running.wait(Event(), is_drained)

    output = committed(servers, f"{name}.clean")
    assert_each_once(ids(output), ids(committed(servers, f"{name}.dlq")), range(count), set())
    by_key: dict[bytes | None, list[int]] = {}
    for record in output:
        by_key.setdefault(record.key, []).append(ids([record])[0])
    assert all(of_key == sorted(of_key) for of_key in by_key.values())
    failed = size(servers, f"{name}.retry.1", from_start=True)
    assert size(servers, f"{name}.retry.parked") == 0, "the parked topic shrinks again"
    assert size(servers, f"{name}.retry.parked", from_start=True) <= count + 2 * len(progress), "no row is parked twice"
    assert sum(each["numInputRows"] for each in progress.values()) <= count + failed, "rows are counted once"
    # Each batch of the source, and for each row that fails in a key a batch to try it again and some for what follows.
    assert len(progress) <= 60 + count // 1_000


def size(servers: str, name: str, *, from_start: bool = False) -> int:
    """How many offsets a topic has, or had from its first record on."""
    with Admin({"bootstrap.servers": servers}) as admin:
        partitions = [TopicPartition(name, each.partition) for each in admin.describe_topics([name])[name].partitions]
        ends = admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
        starts = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    return sum(ends[each].offset - (0 if from_start else starts[each].offset) for each in partitions)


@pytest.mark.long
def test_without_a_policy_a_failing_row_stops_the_query_and_is_named(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, three=1, three_clean=1)
    send_orders(servers, "three", [13], keys=1)
    pipeline = Pipeline(
        "three",
        source=topic("three"),
        steps=[row_step("id long")(lambda row: 1 / 0)],
        sink=topic("three.clean"),
        checkpoint=str(tmp_path / "checkpoint"),
    )
    with pytest.raises(StreamingQueryException) as failure:
        start(pipeline, spark, servers=servers, once=True).wait(Event())
    assert "topic three partition 0 offset 0) in step <lambda>: ZeroDivisionError: division by zero" in in_a_sentence(
        failure.value
    )


def test_mistakes_that_only_spark_can_find_are_reported_before_a_query_starts(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, four=1)

    def start_with(*steps: Any) -> None:
        policy = RetryLadder(delays=["1s"])
        pipeline = Pipeline("four", source=topic("four"), steps=steps, sink=topic("four.clean"), on_failure=policy)
        start(pipeline, spark, servers=servers)

    with pytest.raises(PipelineError, match=r"keeps state over batches \(Deduplicate\)"):
        start_with(lambda rows: rows.dropDuplicates(["key"]), row_step("id long")(lambda row: 1 / 0))
    with pytest.raises(PipelineError, match="leaves out the column '_record', and step fail_when"):
        start_with(lambda rows: rows.groupBy("value").count(), fail_when("value is null", "empty"))
    with pytest.raises(PipelineError, match="needs a column `value`, not only key"):
        start_with(lambda rows: rows.select("key"))
    with pytest.raises(PipelineError, match=r"topic four.clean takes text or bytes, but the column `value` is double"):
        start_with(lambda rows: rows.selectExpr("key", "1d as value", "_record"))
