"""Expectations in running pipelines: rows kept, left out, dead or fatal, counted by rule; batches that are refused."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.pipeline_support import committed, forget_last_commit, ids, make_topics, send_orders
from tidelog.client.retry.headers import decode
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    RetryLadder,
    each_batch,
    expect,
    fail_when,
    pack_json,
    parse_json,
    topic,
)
from tidelog.spark.pipeline.definition.expectations import RuleCount
from tidelog.spark.pipeline.running.restarts import RestartPolicy
from tidelog.spark.pipeline.running.run import start
from tidelog.spark.pipeline.running.supervision import PipelineStatus, Supervisor
from tidelog.testing import Broker
from tidelog.testing.pipelines import run_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STEPS = [
    parse_json("id long"),
    expect("id >= 3", name="old enough", on_failure="dead_letter"),
    expect("id < 9"),
    expect("id != 5", name="not five", on_failure="drop"),
    pack_json("id"),
]
COUNTS = {"old enough": RuleCount(10, 3), "id < 9": RuleCount(7, 1), "not five": RuleCount(7, 1)}
"""Of the orders 0 to 9."""


def run(pipeline: Pipeline, spark: SparkSession, servers: str) -> PipelineStatus:
    """Run once; raises what stopped the pipeline."""
    supervisor = Supervisor(
        [pipeline], lambda each: start(each, spark, servers=servers, once=True), RestartPolicy(restarts_max=3)
    )
    try:
        supervisor.run(Event())
    except Exception as error:
        error.add_note(f"after {supervisor.statuses[0].restarts} restarts")
        raise
    return supervisor.statuses[0]


def without_change(rows: DataFrame) -> DataFrame:
    return rows.where("true")


def once_each(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["id"])


def test_rows_go_on_or_are_left_out_or_fail(spark: SparkSession) -> None:
    """A condition that is null is not met."""
    pipeline = Pipeline("p", source=topic("a"), sink=topic("b"), steps=STEPS, on_failure=DeadLetters())
    result = run_rows(pipeline, [{"id": number} for number in (2, 5, 8, 9, None)], spark=spark)
    assert [row["id"] for row in result.values] == [8, 9]
    assert [(row.type, row.message, row.retry) for row in result.failed] == [
        ("ExpectationFailed", "old enough: not id >= 3", False)
    ] * 2


@pytest.mark.long
def test_rows_are_counted_however_a_batch_is_computed(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """In the streaming plan, in a function for each batch, beside the checkpoint, and with state; each row once."""
    servers = broker.bootstrap_servers
    make_topics(servers, counted=1, counted_out=1)
    send_orders(servers, "counted", range(10), keys=3)
    seen: list[int] = []

    def sink(rows: DataFrame, batch_id: int) -> None:
        seen.extend([rows.count(), rows.count()])

    pipeline = Pipeline(
        "plan", source=topic("counted"), sink=topic("counted.out"), steps=STEPS, on_failure=DeadLetters(),
        checkpoint=str(tmp_path / "plan"),
    )  # fmt: skip
    changed: dict[str, dict[str, Any]] = {
        "plan": {},
        "function": {"steps": [*STEPS[:2], without_change, *STEPS[2:]]},
        "staged": {"sink": each_batch(sink)},
        "state": {"steps": [*STEPS[:2], once_each, *STEPS[2:]]},
    }
    for name, changes in changed.items():
        each = replace(pipeline, name=name, checkpoint=str(tmp_path / name), **changes)
        assert run(each, spark, servers).rules == COUNTS, name
    assert seen == [6, 6]
    letters = [decode(record.headers) for record in committed(servers, "counted.dlq")]
    assert [letter.error_message for letter in letters if letter] == ["old enough: not id >= 3"] * 12
    assert {letter.attempts for letter in letters if letter} == {1}


@pytest.mark.long
def test_a_batch_with_too_many_failing_rows_is_not_written(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Not even in part, and not after a restart. Limits may be added and removed: no batch is written twice."""
    servers = broker.bootstrap_servers
    make_topics(servers, limited=1, limited_out=1)
    send_orders(servers, "limited", range(10), keys=3)
    free = Pipeline(
        "limited", source=topic("limited"), sink=topic("limited.out"), steps=STEPS, on_failure=DeadLetters(),
        checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    limit = expect("id >= 3", name="old enough", on_failure="dead_letter", fail_above=0.3)
    limited = replace(free, steps=[STEPS[0], limit, *STEPS[2:]])

    def written() -> tuple[list[int], list[int]]:
        return ids(committed(servers, "limited.out")), ids(committed(servers, "limited.dlq"))

    first = ([3, 4, 6, 7, 8, 9], [0, 1, 2])
    run(free, spark, servers)
    forget_last_commit(tmp_path / "checkpoint")
    assert run(limited, spark, servers).rules == COUNTS, "3 of 10 are not above the limit"
    assert written() == first
    send_orders(servers, "limited", [1, 2, 3], keys=3)
    reason = (
        r"expectation 'old enough' \(id >= 3\): 2 of 3 rows of the batch fail, 66.67%, and fail_above=0.3 allows "
        r"30.00%; nothing of the batch is written"
    )
    with pytest.raises(Exception, match=reason) as stopped:
        run(limited, spark, servers)
    assert stopped.value.__notes__ == ["after 0 restarts"]
    assert written() == first
    assert run(free, spark, servers).rules["old enough"] == RuleCount(3, 2)
    assert written() == ([*first[0], 3], [*first[1], 1, 2])
    forget_last_commit(tmp_path / "checkpoint")
    run(free, spark, servers)
    assert written() == ([*first[0], 3], [*first[1], 1, 2])


@pytest.mark.long
def test_a_row_that_is_tried_again_is_counted_again_and_no_other(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, again=1, again_out=1)
    send_orders(servers, "again", range(5), keys=3)
    pipeline = Pipeline(
        "again", source=topic("again"), sink=topic("again.out"), checkpoint=str(tmp_path / "checkpoint"),
        steps=[parse_json("id long"), expect("id >= 3", name="rule"), fail_when("id = 1", "never"), pack_json("id")],
        on_failure=RetryLadder(delays=["0s"], attempts=2), trigger="0s",
    )  # fmt: skip
    counts = [run(pipeline, spark, servers).rules.get("rule", RuleCount()) for _ in range(2)]
    assert counts == [RuleCount(5, 3), RuleCount(1, 1)]
    assert ids(committed(servers, "again.dlq")) == [1]
    assert ids(committed(servers, "again.out")) == [0, 2, 3, 4]


@pytest.mark.long
def test_an_expectation_can_stop_the_pipeline(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """At the first row, whose place it names, whatever the policy."""
    servers = broker.bootstrap_servers
    make_topics(servers, fatal=1, fatal_out=1)
    send_orders(servers, "fatal", range(4), keys=3)
    pipeline = Pipeline(
        "fatal", source=topic("fatal"), sink=topic("fatal.out"), on_failure=DeadLetters(),
        steps=[parse_json("id long"), expect("id < 2", name="young", on_failure="fail"), pack_json("id")],
        checkpoint=str(tmp_path / "checkpoint"),
    )  # fmt: skip
    place = r"a row failed \(topic fatal partition 0 offset 2\) in step expect\('young'\): "
    reason = rf"{place}young: not id < 2; the expectation has"
    with pytest.raises(Exception, match=reason) as stopped:
        run(pipeline, spark, servers)
    assert stopped.value.__notes__ == ["after 0 restarts"]
    assert committed(servers, "fatal.out") == []
