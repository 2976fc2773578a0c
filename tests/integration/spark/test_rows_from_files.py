"""Sources that are not topics, under a failure policy: what fails is a dead letter with the row as JSON."""

import json
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.pipeline_support import committed, forget_last_commit, ids, make_topics
from tidelog.client.retry.headers import ERROR_MESSAGE, decode
from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    RetryLadder,
    expect,
    fail_when,
    pack_json,
    parquet,
    row_step,
    spark_format,
    topic,
)
from tidelog.spark.pipeline.checks.definition import check
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.rehearsal import plan_problems
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@row_step("half double", columns=["amount"])
def half(row: dict[str, float]) -> dict[str, float]:
    return {"half": row["amount"] / 2}


def pipeline(directory: Path, **more: object) -> Pipeline:
    made = {
        "source": spark_format(
            "json", str(directory / "in"), schema="id long, amount double, broken string",
            columnNameOfCorruptRecord="broken",
        ),
        "steps": [
            fail_when("broken is not null", "not JSON"), expect("id > 1", on_failure="drop"), half, pack_json("id"),
        ],
        "sink": topic("files.out"),
        "on_failure": DeadLetters(),
        "checkpoint": str(directory / "checkpoint"),
        **more,
    }  # fmt: skip
    return Pipeline("files", **made)  # type: ignore[arg-type]


def test_dead_letters_need_no_topic_as_the_source_and_retries_do(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert check(pipeline(tmp_path)) == []
    assert plan_problems(pipeline(tmp_path), spark) == []
    (problem,) = check(pipeline(tmp_path, on_failure=RetryLadder()))
    assert str(problem).endswith(
        "has no records that could wait in topics: use DeadLetters(…), or topic(…) as the source"
    )
    (problem,) = check(pipeline(tmp_path, on_failure=DeadLetters("files.out")))
    assert "topic 'files.out' is also the sink" in str(problem)
    assert check(pipeline(tmp_path, source=parquet("/in", schema="id long, amount double, broken string"))) == []


@pytest.mark.long
def test_rows_of_files_that_fail_are_dead_letters_exactly_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, files_out=1)
    (tmp_path / "in").mkdir()
    rows = [{"id": 1, "amount": 1.0}, {"id": 2, "amount": 4.0}, {"id": 3, "amount": None}]
    text = "".join(json.dumps(row) + "\n" for row in rows) + "{broken\n"
    (tmp_path / "in" / "orders.json").write_text(text)
    made = pipeline(tmp_path)
    start(made, spark, servers=servers, once=True).wait(Event())
    forget_last_commit(tmp_path / "checkpoint")
    start(made, spark, servers=servers, once=True).wait(Event())
    assert ids(committed(servers, "files.out")) == [2]
    letters = committed(servers, "files.dlq")
    found = {dict(letter.headers)[ERROR_MESSAGE]: json.loads(bytes(letter.value or b"")) for letter in letters}
    assert len(letters) == 2
    assert found.pop(b"not JSON") == {"id": None, "amount": None, "broken": "{broken"}
    assert list(found.values()) == [{"id": 3, "amount": None, "broken": None}]
    assert {decode(letter.headers) for letter in letters} == {None}, "they came from no topic"

    stopping = pipeline(tmp_path, on_failure=None, checkpoint=str(tmp_path / "other"))
    with pytest.raises(Exception, match="a row failed") as failed:
        start(stopping, spark, servers=servers, once=True).wait(Event())
    reason = in_a_sentence(failed.value)
    place = """a row failed (row {"broken":"{broken"}) in step fail_when('broken is not null'): """
    assert f"{place}RowRejected: not JSON" in reason
