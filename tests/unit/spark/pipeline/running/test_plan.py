"""What would be read and written."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from tidelog.spark.pipeline import Pipeline, RetryLadder, pack_json, parse_json, topic
from tidelog.spark.pipeline.checks.survey import PartitionSpan, Survey
from tidelog.spark.pipeline.running.checkpoints import Position
from tidelog.spark.pipeline.running.plan import Plan, make_plan, policy_text

SURVEY = Survey(
    ("orders",),
    {
        "orders": {0: PartitionSpan(5, 20), 1: PartitionSpan(0, 10)},
        "orders.retry.1": {0: PartitionSpan(0, 3)},
        "clean": {0: PartitionSpan(0, 0), 1: PartitionSpan(0, 0)},
    },
)


def _plan(position: Position | None = None, **options: Any) -> Plan:
    return make_plan(_pipeline(**options), SURVEY, position)


def _pipeline(**options: Any) -> Pipeline:
    return Pipeline(
        "p",
        source=topic("orders", **options),
        steps=[parse_json("id long"), pack_json()],
        sink=topic("clean"),
        on_failure=RetryLadder(delays=["1m"]),
        checkpoint="/tmp/c",
    )


def _starts(plan: Plan) -> list[tuple[str, int, int | None, str]]:
    return [(read.topic, read.partition, read.start, read.why) for read in plan.reads]


def test_a_new_query_begins_at_the_earliest_offsets() -> None:
    plan = _plan()
    assert _starts(plan) == [
        ("orders", 0, 5, "earliest"),
        ("orders", 1, 0, "earliest"),
        ("orders.retry.1", 0, 0, "earliest"),
    ]
    assert plan.lag == 15 + 10 + 3
    assert plan.last_batch is None


def test_a_query_goes_on_where_its_checkpoint_ends_and_finds_new_partitions() -> None:
    plan = _plan(Position("id", 4, {"orders": {0: 20}, "orders.retry.1": {0: 1}}))
    assert _starts(plan) == [
        ("orders", 0, 20, "checkpoint"),
        ("orders", 1, 0, "new partition"),
        ("orders.retry.1", 0, 1, "checkpoint"),
    ]
    assert plan.lag == 12


def test_latest_has_no_lag_but_the_ladder_is_read_from_its_beginning() -> None:
    assert _plan(startingOffsets="latest").lag == 3


def test_a_source_that_is_not_there_is_named() -> None:
    plan = make_plan(_pipeline(), Survey(("orders",), {}), None)
    assert plan.other_sources == ("topic orders (does not exist)",)
    none_yet = Pipeline("p", source=topic(pattern="o.*"), sink=topic("clean"))
    assert make_plan(none_yet, Survey((), {}), None).other_sources == ("topics matching o.*",)


def test_a_plan_is_json_whatever_the_definition_was_written_with() -> None:
    pipeline = Pipeline(
        "p", source=topic("orders"), sink=topic("clean"), trigger=timedelta(seconds=90), checkpoint=Path("/tmp/c")
    )
    shown = json.loads(json.dumps(make_plan(pipeline, SURVEY, None).as_json()))
    assert (shown["trigger"], shown["checkpoint"]) == ("1m30s", "/tmp/c")


def test_where_only_a_run_can_tell_nothing_is_guessed() -> None:
    plan = _plan(startingTimestamp="1700000000000")
    assert plan.reads[0].start is None
    assert plan.lag is None
    assert plan.as_json()["reads"][0]["lag"] is None


def test_sinks_and_own_topics_say_whether_they_are_there() -> None:
    plan = _plan()
    assert plan.sinks == ("topic clean (2 partitions)",)
    assert plan.own_topics == (
        ("orders.retry.1", "failed rows wait 1m", True),
        ("orders.dlq", "dead letters, after 2 attempts", False),
    )
    assert plan.steps == ("parse_json(value) (rows can fail)", "pack_json")


def test_the_policy_is_a_sentence() -> None:
    assert policy_text(_pipeline()) == "2 attempts, after 1m, then orders.dlq"
    plain = Pipeline("p", source=topic("a"), sink=topic("b"))
    assert policy_text(plain) == "a row that fails stops the pipeline"
