"""Rows that come back behind the watermark: dead letters again, with the reason, and counted where Spark drops them."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.spark.pipeline_support import committed, trails
from tidelog.client import Admin, NewTopic, Producer
from tidelog.spark.pipeline import DeadLetters, Pipeline, RetryLadder, fail_when, pack_json, parse_json, topic
from tidelog.spark.pipeline.failing.replay import Replay
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def per_minute(rows: DataFrame) -> DataFrame:
    windows = rows.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute"))
    return windows.agg(F.collect_list("id").alias("ids")).select("ids")


@pytest.mark.long
@pytest.mark.parametrize("policy", [DeadLetters(), RetryLadder(["0s"])], ids=["replay", "retry"])
def test_a_row_that_comes_back_too_late_is_a_dead_letter_again(
    spark: SparkSession, broker: Broker, tmp_path: Path, policy: Any
) -> None:
    servers, name = broker.bootstrap_servers, f"late.{type(policy).__name__}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1), NewTopic(f"{name}.out", 1)])
    pipeline = Pipeline(
        name,
        source=topic(name),
        steps=[
            parse_json("id long, at timestamp"),
            fail_when("id = 2 and _record.watermark is null", "the first attempt fails"),
            per_minute,
            pack_json("ids"),
        ],
        sink=topic(f"{name}.out"),
        on_failure=policy,
        checkpoint=tmp_path / "checkpoint",
        trigger="0s",
    )

    def run(*ids: int) -> int:
        """The rows that Spark dropped."""
        with Producer(bootstrap_servers=servers) as producer:
            for number in ids:
                at = f"2026-01-01T00:{number:02}:30Z"
                producer.send(name, json.dumps({"id": number, "at": at}).encode())
        running = start(pipeline, spark, servers=servers, once=True)
        running.wait(Event())
        return sum(progress.late_rows for progress in running.late_progress())

    assert run(1, 2, 3) == 0
    assert run(30) == 0
    if isinstance(policy, DeadLetters):
        replay = Replay(servers, f"{name}.dlq")
        assert replay.send(replay.spans(), lambda count: None).total == 1
        assert run() == 0
    dead = trails(committed(servers, f"{name}.dlq"))
    assert dead.keys() == {2}
    assert dead[2].error_message.startswith("late by ")
    assert "at is 2026-01-01 00:02:30, and the watermark is 2026-01-01 00:" in dead[2].error_message
    assert run(4) == 1, "what is read for the first time is Spark's to drop, and is counted"
    out = [json.loads(record.value or b"")["ids"] for record in committed(servers, f"{name}.out")]
    assert sorted(out) == [[1], [3]]
