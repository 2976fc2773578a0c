"""Debezium's changes of a table in Delta and Iceberg, its last state and all versions: docs/pipelines/changes.md."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.pages import run_snippet, snippet
from tests.integration.spark.pipeline_support import forget_last_commit, make_topics
from tidelog.client import Producer
from tidelog.spark.pipeline import delta, iceberg, merge_changes
from tidelog.spark.pipeline.lake.tables import open_table
from tidelog.spark.pipeline.running.run import start
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

SOURCE = "shop.public.customers"


def event(key: int, name: str | None, operation: str) -> tuple[bytes, bytes]:
    row = None if name is None else {"id": key, "name": name}
    return json.dumps({"before": None, "after": row, "op": operation}).encode(), json.dumps({"id": key}).encode()


def events(start_at: int) -> list[tuple[bytes | None, bytes | None]]:
    """Twelve changes with a delete, its tombstone and a change that repeats the last, and a truncation."""
    made: list[tuple[bytes | None, bytes | None]] = [
        event(number % 3, f"name {(start_at + number) // 6}", "u") for number in range(8)
    ]
    made += [event(1, None, "d"), (None, json.dumps({"id": 1}).encode())]
    made += [(json.dumps({"before": None, "after": None, "op": "t"}).encode(), None)]
    made += [event(2, "after all", "r")]
    return made


def versions(sent: list[tuple[bytes | None, bytes | None]]) -> Counter[Any]:
    """`(id, name, valid from, valid to)` by offset: what a plain loop makes of the events."""
    closed: list[Any] = []
    alive: dict[int, tuple[str, int]] = {}
    for offset, (value, key) in enumerate(sent):
        after = None if value is None else json.loads(value)["after"]
        keys = list(alive) if key is None else [json.loads(key)["id"]]
        if after is not None and alive.get(after["id"], ("",))[0] == after["name"]:
            continue
        closed += [(each, *alive.pop(each), offset) for each in keys if each in alive]
        if after is not None:
            alive[after["id"]] = (after["name"], offset)
    return Counter(closed + [(key, *version, None) for key, version in alive.items()])


def test_the_pipelines_of_the_page_follow_a_table_with_all_its_versions(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path / "checkpoints"))
    servers = broker.bootstrap_servers
    make_topics(servers, **{SOURCE: 1})
    latest = run_snippet(snippet("changes.md", "The last state", {"/data/lake": str(tmp_path)}))["pipeline"]
    code = snippet("changes.md", "Every version", {"/data/lake/customers": str(tmp_path / "versions")})
    in_delta = run_snippet(code, delta=delta, merge_changes=merge_changes)["sink"]
    in_iceberg = replace(in_delta, table=iceberg("shop.versions", warehouse=tmp_path / "lake"))
    pipeline = replace(latest, sink=[latest.sink, in_delta, in_iceberg])
    sent: list[tuple[bytes | None, bytes | None]] = []
    for step in range(3):
        with Producer(bootstrap_servers=servers) as producer:
            for value, key in events(step * 7):
                sent.append((value, key))
                producer.send(SOURCE, value, key)
        start(pipeline, spark, servers=servers, once=True).wait(Event())
    for number in (1, 2, 3):
        forget_last_commit(tmp_path / "checkpoints" / "customers-table" / f"sink-{number}")
    start(pipeline, spark, servers=servers, once=True).wait(Event())
    for sink in (in_delta, in_iceberg):
        rows = open_table(sink.table).read().to_pylist()
        valid = [row for row in rows if row["valid_from"] != row["valid_to"]]
        found = Counter((row["id"], row["name"], row["valid_from"], row["valid_to"]) for row in valid)
        assert found == versions(sent)
    alive = {(key, name): at for key, name, at, end in versions(sent) if end is None}
    rows = open_table(latest.sink.table).read().to_pylist()
    assert {(row["id"], row["name"]): row["offset"] for row in rows} == alive
