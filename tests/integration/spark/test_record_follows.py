"""The column `_record` in pipelines whose functions select other columns: it follows, or the error names the step."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    PipelineError,
    each_batch,
    expect,
    fail_when,
    mark_failed,
    pack_json,
    parquet,
    parse_json,
    row_step,
    topic,
)
from tidelog.spark.pipeline.running.rehearsal import plan_problems
from tidelog.testing.pipelines import run_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ORDERS = [{"id": 1, "tags": ["a", "b"], "amount": 5.0}, {"id": 2, "tags": ["a"], "amount": -1.0}]


def selected(rows: DataFrame) -> DataFrame:
    return rows.select("id", "tags", "amount")


def filtered_and_renamed(rows: DataFrame) -> DataFrame:
    kept = rows.select(F.col("id").alias("number"), "tags", "amount").where("number > 0").orderBy("number")
    return kept.alias("k").select(F.col("k.number").alias("id"), "k.tags", "k.amount")


def exploded(rows: DataFrame) -> DataFrame:
    return rows.select("id", F.explode("tags").alias("tag"), "amount").drop("tag")


def joined(rows: DataFrame, names: DataFrame) -> DataFrame:
    return rows.select("id", "amount").join(names, "id", "left").select("id", "name", "amount")


def marked(rows: DataFrame) -> DataFrame:
    return mark_failed(rows.select("id", "amount"), "amount < 0", "negative")


def distinct(rows: DataFrame) -> DataFrame:
    return rows.select("id", "amount").distinct()


@row_step("half double", columns=["amount"])
def half(row: dict[str, Any]) -> dict[str, Any]:
    if row["amount"] < 0:
        raise ValueError("negative")
    return {"half": row["amount"] / 2}


def pipeline(*steps: Any, **more: Any) -> Pipeline:
    parse = parse_json("id long, tags array<string>, amount double")
    made = {"sink": topic("b"), "on_failure": DeadLetters(), **more}
    return Pipeline("p", source=topic("a"), steps=[parse, *steps, pack_json("id")], **made)


@pytest.mark.parametrize("function", [selected, filtered_and_renamed, exploded, joined])
@pytest.mark.parametrize("fallible", [fail_when("amount < 0", "negative"), half], ids=["spark", "python"])
def test_the_record_follows_where_a_row_is_made_of_one(
    spark: SparkSession, function: Callable[..., DataFrame], fallible: Any
) -> None:
    tables = {"names": [{"id": 1, "name": "Ann"}]} if function is joined else {}
    steps = [function, fallible]
    named = {"tables": {"names": parquet("/names", schema="id long")}} if tables else {}
    result = run_rows(pipeline(*steps, **named), ORDERS, tables=tables, spark=spark)
    assert [row["id"] for row in result.values] == [1] * (2 if function is exploded else 1)
    assert [(row.message, b'"amount": -1.0' in (row.value or b"")) for row in result.failed] == [("negative", True)]


def test_a_function_may_mark_rows_that_it_has_selected(spark: SparkSession) -> None:
    result = run_rows(pipeline(marked), ORDERS, spark=spark)
    assert (len(result.rows), [row.message for row in result.failed]) == (1, ["negative"])


@pytest.mark.parametrize(
    "fallible", [expect("amount > 0", on_failure="dead_letter"), half], ids=["expect('amount > 0')", "half"]
)
def test_rows_made_of_several_records_are_refused_with_both_steps(
    spark: SparkSession, fallible: Any, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(PipelineError) as refused:
        run_rows(pipeline(distinct, fallible), ORDERS, spark=spark)
    assert str(refused.value).startswith("step distinct leaves out the column '_record', and step ")
    assert f"step {fallible.name} needs it for rows that fail: keep this column" in str(refused.value)


def test_streams_are_planned_with_the_record(spark: SparkSession) -> None:
    """And where nothing can fail behind them, rows may be combined."""
    assert plan_problems(pipeline(selected, half), spark) == []
    assert plan_problems(pipeline(marked, sink=each_batch(print)), spark) == []
    (problem,) = plan_problems(pipeline(distinct, half), spark)
    assert "step distinct leaves out the column '_record', and step half needs it" in str(problem)
