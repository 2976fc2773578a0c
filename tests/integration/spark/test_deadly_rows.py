"""Rows that kill or hang their Python worker, and records that brokers refuse: dead letters, and all others once."""

import json
import os
import re
from collections import Counter
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.pipeline_support import committed, ids, make_topics, send_orders, trails
from tidelog.client import Admin, NewTopic
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    RetryLadder,
    pack_json,
    parse_json,
    row_step,
    topic,
)
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.restarts import RestartPolicy
from tidelog.spark.pipeline.running.run import start
from tidelog.spark.pipeline.running.supervision import Supervisor
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

DEADLY = {33, 70}
HANGING = {51}


@row_step("id long", columns=["value"])
def deadly(row: dict[str, Any]) -> dict[str, Any]:
    number = json.loads(row["value"])["id"]
    if number in DEADLY:
        os._exit(3)
    if number in HANGING:
        # Python's expressions hold its lock: no thread of Python could end this.
        re.fullmatch("(a+)+b", "a" * 64)
    if number % 10 == 9:
        raise ValueError("nine")
    return {"id": number}


def _run(pipeline: Pipeline, spark: SparkSession, servers: str, restarts: int = 3) -> None:
    Supervisor(
        [pipeline], lambda each: start(each, spark, servers=servers, once=True), RestartPolicy(restarts, first_s=0.01)
    ).run(Event())


@pytest.mark.long
@pytest.mark.parametrize("policy", [DeadLetters(), RetryLadder(["0s"], keep_order_by_key=True)], ids=["plan", "engine"])
def test_a_row_that_kills_or_hangs_its_worker_is_a_dead_letter(
    spark: SparkSession, broker: Broker, tmp_path: Path, policy: Any
) -> None:
    servers = broker.bootstrap_servers
    name = f"deadly.{type(policy).__name__}"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 2), NewTopic(f"{name}.out", 1)])
    send_orders(servers, name, range(100), keys=50)
    pipeline = Pipeline(
        name,
        source=topic(name),
        steps=[deadly, pack_json("id")],
        sink=topic(f"{name}.out"),
        on_failure=policy,
        checkpoint=tmp_path / "checkpoint",
        row_timeout="1s",
        trigger="0s",
    )
    for _ in range(1 if isinstance(policy, DeadLetters) else 4):
        _run(pipeline, spark, servers)
    dead = trails(committed(servers, f"{name}.dlq"))
    nines = {number for number in range(100) if number % 10 == 9}
    assert dead.keys() == DEADLY | HANGING | nines
    assert {dead[number].error_type for number in DEADLY | HANGING} == {"WorkerDied"}
    assert "ended with exit code 3" in dead[33].error_message
    assert "was not done within 1s (row_timeout)" in dead[51].error_message
    assert dead[33].attempts == 1, "another attempt would end in the same way"
    assert Counter(ids(committed(servers, f"{name}.out"))) == Counter(set(range(100)) - dead.keys())


def test_without_a_policy_the_row_is_named(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, named=1, named_out=1)
    send_orders(servers, "named", range(30, 40), keys=1)
    sink = topic("named.out")
    pipeline = Pipeline(
        "named", source=topic("named"), steps=[deadly, pack_json("id")], sink=sink, checkpoint=tmp_path / "checkpoint"
    )
    with pytest.raises(StreamingQueryException) as failed:
        _run(pipeline, spark, servers)
    assert "a row failed (topic named partition 0 offset 3) in step deadly: WorkerDied: " in in_a_sentence(failed.value)


def by_size(orders: DataFrame) -> DataFrame:
    """1 is too large for every topic, 2 for the small one, and others have no topic, no key or a bad name."""
    where = "array('large', 'large', 'small', null, 'no such/name', 'compact', 'large', 'small')[id]"
    return orders.selectExpr(
        "repeat('x', array(1, 3000000, 2000, 1, 1, 1, 100000, 10)[id]) as value",
        "if(id = 5, null, cast(id as string)) as key",
        f"if({where} like 'no%' or {where} is null, {where}, concat('refused.', {where})) as to_topic",
        "_record",
    )


def test_records_that_brokers_refuse_are_dead_letters(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        configs = {"small": {"max.message.bytes": "1500"}, "compact": {"cleanup.policy": "compact"}}
        topics = [
            NewTopic(f"refused.{name}", 1, configs=configs.get(name, {})) for name in ("small", "compact", "large")
        ]
        admin.create_topics([NewTopic("refused", 1), *topics])
    send_orders(servers, "refused", range(8), keys=1)
    pipeline = Pipeline(
        "refused",
        source=topic("refused"),
        steps=[parse_json("id long"), by_size],
        sink=topic(options={"kafka.max.request.size": "1500000"}),
        on_failure=RetryLadder(),
        checkpoint=tmp_path / "checkpoint",
    )
    _run(pipeline, spark, servers, restarts=0)
    dead = trails(committed(servers, "refused.dlq"))
    assert {number: trail.error_message for number, trail in dead.items()} == {
        1: "a record of 3000083 bytes for topic refused.large exceeds max.request.size=1500000",
        2: "a record of 2083 bytes for topic refused.small exceeds its max.message.bytes=1500",
        3: "to_topic is null",
        4: "to_topic is no name of a topic: no such/name",
        5: "refused.compact is a compacted topic, whose records need a key",
    }
    assert [len(each.value or b"") for each in committed(servers, "refused.large")] == [1, 100000]
    assert [len(each.value or b"") for each in committed(servers, "refused.small")] == [10]
