"""What pipelines report to the outside, without Spark: `tidelog pipeline status`, and events to a lineage service."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.integration.cli_support import run_here
from tests.integration.lineage_server import lineage_server
from tidelog.spark.pipeline import Pipeline, RetryLadder, delta, topic
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.expectations import RuleCount
from tidelog.spark.pipeline.running import status_topic
from tidelog.spark.pipeline.running.lineage import LineageWriter
from tidelog.spark.pipeline.running.reporting import Reporter, StatusReport
from tidelog.spark.pipeline.running.status_topic import StatusWriter
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State
from tidelog.spark.source.progress import QueryProgress
from tidelog.testing import Broker

PIPELINES = [
    Pipeline("clean", source=topic("orders"), sink=topic("clean"), on_failure=RetryLadder(["1s"])),
    Pipeline("lake", source=topic("orders"), sink=delta("/data/lake"), tables={"others": topic("others")}),
]
BATCH = QueryProgress("clean", 3, 500, 90.0, 100.0, 42, 10, 0, 0, 1)


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def test_states_lag_and_failures_are_seen_from_outside_and_a_killed_process_is_lost(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_here("pipeline", "status", "--format", "json", server=servers).document == []
    rules = {"amount > 0": RuleCount(400, 3)}
    clean = PipelineStatus("clean", State.RUNNING, "run-1", queries={"clean": BATCH}, rules=rules)
    lake = PipelineStatus("lake", State.FAILED, "run-2", restarts=5, error="no such bucket")
    with lineage_server() as lineage:
        places = {each.name: servers for each in PIPELINES}
        connections = {each.name: Connection(servers) for each in PIPELINES}
        reports: list[StatusReport] = [StatusWriter(connections, {}), LineageWriter(lineage.url, PIPELINES, places)]
        reporter = Reporter(reports, heartbeat_s=0.1)
        reporter.changed(replace(clean, state=State.STARTING))
        reporter.changed(clean)
        reporter.changed(lake)
        reporter.progressed(replace(clean, restarts=1), BATCH)
        reporter.close()
        events = lineage.events

    shown = run_here("pipeline", "status", "clean", "--format", "json", server=servers).document
    assert [(each["pipeline"], each["state"], each["lag_records"]) for each in shown] == [("clean", "running", 42)]
    assert shown[0]["queries"][0]["batch_id"] == 3
    assert shown[0]["rules"] == {"amount > 0": {"evaluated": 400, "failed": 3}}
    text = run_here("pipeline", "status", server=servers)
    assert text.code == 0
    assert "no such bucket" in text.out
    assert text.out.splitlines()[-1].split() == ["clean", "amount", ">", "0", "400", "3", "0.75%"]
    assert run_here("pipeline", "status", "lake", server=servers).code == 1
    never = run_here("pipeline", "status", "other", server=servers)
    assert (never.code, never.out.startswith("other: no status")) == (1, True)

    assert [(event["job"]["name"], event["eventType"]) for event in events[:3]] == [
        ("clean", "START"), ("clean", "RUNNING"), ("lake", "FAIL"),
    ]  # fmt: skip
    namespace = f"kafka://{servers}"
    assertion = {"assertion": "amount > 0", "success": False, "rowCount": 400, "failedRowCount": 3}
    source = events[0]["inputs"][0]
    assert source["inputFacets"]["dataQualityAssertions"]["assertions"] == [assertion]
    assert (source["namespace"], source["name"], len(events[0]["inputs"])) == (namespace, "orders", 1)
    assert [each["name"] for each in events[0]["outputs"]] == ["clean", "orders.retry.1", "orders.dlq"]
    assert events[2]["inputs"][1] == {"namespace": namespace, "name": "others"}
    assert events[2]["outputs"] == [{"namespace": "file", "name": "/data/lake"}]
    assert events[2]["run"]["facets"]["errorMessage"]["message"] == "no such bucket"
    assert events[0]["run"]["runId"] == events[1]["run"]["runId"] == "run-1"

    monkeypatch.setattr(status_topic, "LOST_AFTER_S", 0.0)
    lost = run_here("pipeline", "status", "clean", "--format", "json", server=servers)
    assert (lost.code, json.loads(lost.out)[0]["state"]) == (1, "lost")


def test_a_service_that_does_not_answer_delays_nothing(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    with lineage_server() as lineage:
        url = lineage.url
    places = {each.name: servers for each in PIPELINES}
    reporter = Reporter([LineageWriter(url, PIPELINES, places)])
    reporter.changed(PipelineStatus("clean", State.STARTING, "run-1"))
    reporter.changed(PipelineStatus("clean", State.RUNNING, "run-1"))
    reporter.close()
    assert len([each for each in caplog.messages if "OpenLineage: no event reached" in each]) == 1
