"""Backfills: older records into the sinks of a running query, from a cluster and from segment files, each once."""

from collections import Counter
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

from tests.integration.cli_support import run
from tests.integration.spark.pipeline_support import committed, ids, make_topics, send_orders, wait_for
from tidelog.spark.pipeline import DeadLetters, Pipeline, delta, fail_when, iceberg, pack_json, parse_json, topic
from tidelog.spark.pipeline.lake.tables import open_table
from tidelog.spark.pipeline.running.backfill import Backfill, state_of
from tidelog.spark.pipeline.running.backfill_plan import Bound
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

ASKED: dict[str, str | None] = {"--from": None, "--to": None, "--path": None}


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_backfill_beside_the_running_query_writes_each_record_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the sinks have a part and before the backfill has noted it, then repeated."""
    servers = broker.bootstrap_servers
    make_topics(servers, history=2)
    send_orders(servers, "history", range(60), keys=60)
    sinks = (delta(tmp_path / "delta", columns=["id"]), iceberg("a.b", warehouse=tmp_path / "ice", columns=["id"]))
    pipeline = Pipeline(
        "history",
        source=topic("history", startingOffsets="latest"),
        steps=[parse_json("id long"), fail_when("id = 7", "seven")],
        sink=sinks,
        on_failure=DeadLetters(),
        checkpoint=tmp_path / "checkpoint",
        trigger="100ms",
    )
    live = start(pipeline, spark, servers=servers)
    try:
        live.queries[0].processAllAvailable()
        state = state_of(pipeline, "first")
        filling = Backfill(pipeline, spark, servers, state)
        plan = filling.plan(ASKED, Bound(), Bound(), 24)
        assert plan.total == 60
        assert plan.parts > 1
        with monkeypatch.context() as dying:
            dying.setattr(type(state), "keep_done", _die)
            with pytest.raises(Killed):
                filling.run(plan, lambda _: None, lambda: False)
        again = Backfill(pipeline, spark, servers, state_of(pipeline, "first"))
        assert again.plan(ASKED, Bound(), Bound(), 24) == plan
        counted: list[int] = []
        assert again.run(plan, counted.append, lambda: False)
        assert sum(counted) == plan.total
        send_orders(servers, "history", range(60, 70), keys=60)
        expected = Counter(number for number in range(70) if number != 7)
        wait_for(lambda: all(_ids(sink) >= expected for sink in sinks), 120, "the live query")
    finally:
        live.stop()
    assert [_ids(sink) for sink in sinks] == [expected, expected]
    assert ids(committed(servers, "history.dlq")) == [7]


def _die(*_arguments: object) -> None:
    raise Killed


def _ids(table: object) -> Counter[int]:
    return Counter(open_table(table).read()["id"].to_pylist())  # type: ignore[arg-type]


def test_segment_files_are_backfilled_into_a_topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, filed=2, filed_clean=2)
    send_orders(servers, "filed", range(40), keys=40)
    pipeline = Pipeline(
        "filed",
        source=topic("filed"),
        steps=[parse_json("id long"), pack_json("id", key="id")],
        sink=topic("filed.clean"),
        checkpoint=tmp_path / "checkpoint",
    )
    for _ in range(2):
        state = state_of(pipeline, "files")
        filling = Backfill(pipeline, spark, servers, state, str(broker.data_dir))
        plan = filling.plan({"--path": "here"}, Bound(), Bound(), 15)
        assert filling.run(plan, lambda _: None, Event().is_set)
        state.keep_done(state.done - 1)  # as if it had died before its last note
    assert Counter(ids(committed(servers, "filed.clean"))) == Counter(range(40))

    rows = spark.range(0, 3, 1, 1).selectExpr("cast(id as string) key", "cast(id as string) value")
    for _ in range(2):  # no batch of the backfill any more, so neither is taken for a repeated one
        options = {"kafka.bootstrap.servers": servers, "topic": "filed.clean", "delivery": "exactly-once"}
        rows.write.format("tidelog").options(**options).mode("append").save()
    assert len(committed(servers, "filed.clean")) == 46


FILE = """
from tidelog.spark.pipeline import Pipeline, delta, parse_json, topic

pipeline = Pipeline(
    "told",
    source=topic("told"),
    steps=[parse_json("id long")],
    sink=delta({table!r}, columns=["id"]),
    checkpoint={checkpoint!r},
)
"""


def test_the_command_goes_on_where_it_was(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, told=1)
    send_orders(servers, "told", range(20), keys=3)
    file = tmp_path / "told.py"
    file.write_text(FILE.format(table=str(tmp_path / "t"), checkpoint=str(tmp_path / "c")))
    asked = ["pipeline", "backfill", str(file), "--from", "5", "--to", "15", "--batch", "4", "--master", "local[1]"]
    first = run(*asked, "--format", "json", server=servers, timeout_s=200)
    assert first.document == {"pipeline": "told", "name": "backfill", "offsets": 10, "of": 10, "done": True}
    assert _ids(delta(tmp_path / "t")) == Counter(range(5, 15))
    again = run(*asked, "--format", "json", server=servers, timeout_s=200)
    assert again.document == first.document
    assert _ids(delta(tmp_path / "t")) == Counter(range(5, 15))
    compacted = run("pipeline", "compact", str(file), "--format", "json", server=servers)
    assert compacted.document["added"] == 1
    other = run(*asked[:4], "6", "--to", "15", server=servers)
    assert other.code == 1
    assert "choose another --name" in other.err
