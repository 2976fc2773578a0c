"""What a pipeline says of itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from tidelog.spark.pipeline import DeadLetters, Pipeline, delta, each_batch, iceberg, parquet, spark_format, topic
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.spark.pipeline.failing.source_options import source_options
from tidelog.spark.pipeline.running.ladder_source import ladder_options
from tidelog.spark.pipeline.running.parked_hint import ParkedTopicHint, hint_for

LADDER = Ladder(("orders.retry.1",), (500,), 2, "orders.dlq", "orders.retry.parked", "orders.retry.keys")


def test_places_are_described_in_a_few_words() -> None:
    places = [topic("a", "b"), topic(pattern="a.*"), topic(), parquet("/x"), spark_format("rate"), delta("/y")]
    assert list(map(str, [*places, each_batch(print)])) == [
        "topic a, b",
        "topics matching a.*",
        "the topic each row names",
        "parquet /x",
        "rate",
        "delta /y",
        "function print",
    ]


def test_options_are_texts_as_spark_wants_them() -> None:
    made = topic("a", includeHeaders=True, maxOffsetsPerTrigger=5, options={"kafka.client.id": "me"})
    assert made.options == {"includeHeaders": "true", "maxOffsetsPerTrigger": "5", "kafka.client.id": "me"}


def test_a_single_column_need_not_be_in_a_list() -> None:
    assert delta("/x", partition_by="day", columns="id") == delta("/x", partition_by=["day"], columns=["id"])
    assert iceberg("a.b", partition_by="day(at)", columns="id").partition_by == ("day(at)",)
    assert parquet("/x", partition_by="day").partition_by == ("day",)


def test_without_a_policy_each_sink_of_several_has_a_checkpoint_of_its_own() -> None:
    both = Pipeline("p", source=topic("a"), sink=[topic("b"), delta(Path("/d"))], checkpoint=Path("/c"))
    assert both.checkpoint_paths == ["/c/sink-1", "/c/sink-2"]
    assert replace(both, sink=topic("b")).checkpoint_paths == ["/c"]
    assert replace(both, sink=[topic("b"), topic("d")]).checkpoint_paths == ["/c"], "topics share a transaction"
    mixed = replace(both, sink=[delta("/d"), topic("b"), delta("/e"), topic("f")])
    assert mixed.written_sinks == [(delta("/d"),), (topic("b"), topic("f")), (delta("/e"),)]
    assert replace(both, on_failure=DeadLetters()).checkpoint_paths == ["/c"]


def test_the_cluster_is_the_commands_then_the_pipelines_then_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", "environment:1")
    plain = Pipeline("p", source=topic("a"), sink=topic("b"))
    named = Pipeline("p", source=topic("a"), sink=topic("b"), bootstrap_servers="pipeline:1")
    assert named.servers("command:1") == "command:1"
    assert named.servers() == "pipeline:1"
    assert plain.servers() == "environment:1"
    monkeypatch.delenv("TIDELOG_BOOTSTRAP_SERVERS")
    assert plain.servers() == "127.0.0.1:9092"


def test_a_checkpoint_is_named_after_its_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", "/var/checkpoints")
    assert Pipeline("p", source=topic("a"), sink=topic("b")).checkpoint_path == "/var/checkpoints/p"


def test_a_pipeline_reads_from_the_beginning_and_committed_records_by_default() -> None:
    options = source_options(topic("orders"), Connection("h:1"), None)
    assert options == {
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "orders",
    }
    assert "startingOffsets" not in source_options(topic("orders", startingTimestamp=1), Connection("h:1"), None)
    assert (
        source_options(topic("orders", startingoffsets="latest"), Connection("h:1"), None)["startingoffsets"]
        == "latest"
    )


def test_the_ladders_topics_are_read_with_the_source() -> None:
    assert source_options(topic("orders"), Connection("h:1"), LADDER)["subscribe"] == "orders,orders.retry.1"
    pattern = source_options(Topic(pattern="ord.*s$"), Connection("h:1"), LADDER)["subscribePattern"]
    assert pattern == r"(?:ord.*s$)|^orders\.retry\.1$"


def test_the_ladders_source_gets_delay_and_place() -> None:
    options = ladder_options(LADDER, "/checkpoint")
    assert options["ladderDelays"] == '{"orders.retry.1": 500}'
    assert options["ladderParked"] == "orders.retry.parked"
    assert options["ladderHint"] == str(hint_for("/checkpoint").path)


def test_parked_rows_count_as_due_until_the_driver_says_otherwise(tmp_path: Path) -> None:
    hint = ParkedTopicHint(tmp_path / "hint")
    assert hint.is_due()
    hint.put(is_due=False)
    assert not hint.is_due()
    hint.put(is_due=True)
    assert hint.is_due()
