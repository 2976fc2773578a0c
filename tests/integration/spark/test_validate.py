"""`tidelog pipeline validate` finds what `run` refuses, without a broker."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.cli_support import run
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    RetryLadder,
    delta,
    fail_when,
    pack_avro,
    pack_json,
    parse_json,
    row_step,
    spark_format,
    topic,
)
from tidelog.spark.pipeline.running.rehearsal import plan_problems

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

IDS = parse_json("id long, at timestamp")


def per_minute(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("at", "1 minute").groupBy(F.window("at", "1 minute")).count()


def once(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["id"])


def totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("id").count()


def without_record(rows: DataFrame) -> DataFrame:
    return rows.select("id", "value").distinct()


@row_step("n long")
def number(row: dict[str, Any]) -> dict[str, Any]:
    return {"n": 1}


TOTAL = {"type": "record", "name": "T", "fields": [{"name": "total", "type": "long"}]}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a schema with a typing mistake": ({"steps": [parse_json("id lon g")]}, "parse_json(value)"),
    "a schema of a row step": ({"steps": [row_step("n long,, m")(number.function)]}, "step number: "),
    "a schema of files": ({"source": spark_format("json", "/tmp", schema="id lng")}, '"LNG"'),
    "a column of a condition": ({"steps": [fail_when("amount < 0", "negative")]}, "amount"),
    "a column of the key": ({"steps": [IDS, pack_json(key="ident")]}, "ident"),
    "a column of a schema": (
        {
            "steps": [
                IDS,
                pack_avro(
                    "total", schema={"type": "record", "name": "T", "fields": [{"name": "total", "type": "long"}]}
                ),
            ]
        },
        "column 'total' does not exist",
    ),
    "a step that drops the record": (
        {"steps": [IDS, without_record, fail_when("id < 0", "no")], "on_failure": DeadLetters()},
        "step without_record leaves out the column '_record'",
    ),
    "state and order": (
        {"steps": [IDS, once], "on_failure": RetryLadder(["1s"], keep_order_by_key=True)},
        "keep_order_by_key decides about each batch by itself",
    ),
    "state, a function and a policy": (
        {"steps": [IDS, number, per_minute, pack_json()], "on_failure": DeadLetters()},
        "number would be called twice",
    ),
    "an aggregate that never ends": ({"steps": [IDS, totals, pack_json()]}, "watermark"),
    "a column of a table": ({"steps": [IDS], "sink": delta("/nowhere", columns=["id", "name"])}, "but the rows have"),
    "a value that is no text": ({"steps": [IDS], "sink": topic("b", value="id")}, "takes text or bytes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_spark_would_refuse_is_a_problem(spark: SparkSession, mistake: str) -> None:
    given, expected = MISTAKES[mistake]
    pipeline = Pipeline("p", **{"source": topic("a"), "sink": topic("b"), **given})
    (problem,) = plan_problems(pipeline, spark)
    assert expected in problem.message
    assert not problem.is_warning


@pytest.mark.parametrize(
    "steps",
    [[IDS, pack_json()], [IDS, per_minute, pack_json()], [IDS, number, pack_json("n")]],
    ids=["", "state", "rows"],
)
@pytest.mark.parametrize("policy", [None, RetryLadder(["1s"])], ids=["stops", "retries"])
def test_a_pipeline_that_runs_has_none(spark: SparkSession, steps: list[Any], policy: Any) -> None:
    pipeline = Pipeline("p", source=topic("a"), steps=[*steps, pack_json()], sink=topic("b"), on_failure=policy)
    assert plan_problems(pipeline, spark) == []


@pytest.mark.long
def test_the_command_says_so_without_a_broker(tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    text = (
        "from tidelog.spark.pipeline import Pipeline, pack_json, parse_json, topic\n"
        "good = Pipeline('good', source=topic('a'), steps=[parse_json('id long'), pack_json()], sink=topic('b'))\n"
        "bad = Pipeline('bad', source=topic('a'), steps=[parse_json('id log'), pack_json()], sink=topic('b'))\n"
    )
    file.write_text(text)
    found = run("pipeline", "validate", str(file), "--offline", server="127.0.0.1:1")
    assert found.code == 2
    assert found.out == "good: valid\n"
    (line,) = found.err.splitlines()
    assert line.startswith("error: bad: steps: step parse_json(value): ")
    assert '"LOG"' in line
