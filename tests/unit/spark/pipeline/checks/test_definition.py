"""Mistakes in a definition, each named with its value and its setting."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.pipeline import (
    DeadLetters,
    Pipeline,
    RetryLadder,
    delta,
    each_batch,
    fail_when,
    pack_avro,
    pack_json,
    parquet,
    parse_avro,
    parse_debezium,
    parse_json,
    refreshed,
    row_step,
    topic,
)
from tidelog.spark.pipeline.checks import definition
from tidelog.spark.pipeline.checks.cluster import check_cluster
from tidelog.spark.pipeline.checks.definition import check, column_names
from tidelog.spark.pipeline.checks.survey import PartitionSpan, Survey


def _problems(**changes: Any) -> list[str]:
    return [str(problem) for problem in check(_pipeline(**changes))]


def _pipeline(**changes: Any) -> Pipeline:
    name = changes.pop("name", "orders")
    return Pipeline(name, **{"source": topic("orders"), "sink": topic("clean"), **changes})


def _with_customers(orders: Any, customers: Any) -> Any:
    return orders, customers


def _takes_nothing() -> None: ...


def test_a_sound_pipeline_has_no_problems() -> None:
    assert not _problems(
        steps=[parse_json("id long"), fail_when("id < 0", "negative"), _with_customers, pack_json(key="id")],
        tables={"customers": parquet("/data/customers")},
        on_failure=RetryLadder(delays=["10s", "1m"], dead_letters="orders.dlq", keep_order_by_key=True),
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "a b"}, "name: 'a b' must be 1 to 128"),
        ({"name": ".."}, "name: '..' must be 1 to 128"),
        ({"source": topic()}, "source: name topics"),
        ({"source": topic("a", pattern="b")}, "source: name topics"),
        ({"source": topic(pattern="(")}, "source: pattern '(' is not a regular expression"),
        ({"source": topic("no spaces")}, "source: topic 'no spaces'"),
        ({"source": topic("orders", startingOffset="earliest")}, "did you mean 'startingOffsets'?"),
        ({"source": topic("orders", maxOffsetsPerTrigger="many")}, "it must be a whole number"),
        ({"source": topic("orders", startingOffsets="begin")}, "it must be earliest, latest or JSON"),
        ({"sink": topic("clean", delivery="maybe")}, "option 'delivery' is 'maybe'"),
        ({"source": topic(cast(Any, ["a", "b"]))}, "source: ['a', 'b'] is not a topic name"),
        ({"sink": topic(cast(Any, 5))}, "sink: 5 is not a topic name"),
        ({"steps": _takes_nothing}, "steps: it must be a list of functions"),
        ({"steps": None}, "steps: it must be a list of functions"),
        ({"steps": [row_step(cast(Any, 5))(cast(Any, _with_customers))]}, "steps[1]: the schema 5 must be a text"),
        ({"tables": {"customers": "x"}, "steps": [_with_customers]}, "tables[customers]: 'x' is not a source"),
        (
            {"tables": {"customers": topic("c", startingOffsets="latest")}, "steps": [_with_customers]},
            "tables[customers]: option 'startingOffsets' is latest",
        ),
        ({"tables": {"t": topic("c", failOnDataLos=True)}}, "did you mean 'failOnDataLoss'?"),
        ({"settings": ["spark.x"]}, "settings: it must be a dict"),
        ({"checkpoint": 5}, "checkpoint: 5 is not a path"),
        ({"bootstrap_servers": ["a:1"]}, "bootstrap_servers: ['a:1'] must be a text"),
        ({"on_failure": "retry"}, "on_failure: 'retry' is not a policy"),
        ({"on_failure": DeadLetters}, "is not a policy: use RetryLadder(…) or DeadLetters(…)"),
        ({"on_failure": DeadLetters(cast(Any, topic("d")))}, "on_failure.topic: Topic("),
        ({"on_failure": RetryLadder(delays="10s")}, "on_failure.delays: it must be a list like ['10s', '1m']"),
        ({"on_failure": RetryLadder(retention="5")}, "on_failure.retention: '5' is not a duration"),
        ({"on_failure": RetryLadder(delays=["1h"], retention="1h")}, "'1h' must be longer than the longest delay"),
        ({"on_failure": RetryLadder(attempts=cast(Any, "3"))}, "on_failure.attempts: '3' is not a whole number"),
        ({"on_failure": RetryLadder(delays=["99999999d"])}, "is more than a hundred years"),
        (
            {"steps": [parse_json("id long, timestamp long"), pack_json(key="id")]},
            "steps[2]: pack_json() omits timestamp, which records have too: name the columns",
        ),
        ({"source": topic("orders", subscribe="x")}, "option 'subscribe' cannot be set here"),
        ({"source": topic("orders", endingOffsets="latest")}, "a stream has no end"),
        ({"source": "orders"}, "source: 'orders' is not a source"),
        ({"source": parquet("/in")}, "parquet /in needs a schema"),
        ({"sink": []}, "sink: no sink is given"),
        ({"sink": topic("orders")}, "sink: topic 'orders' is also the source"),
        ({"sink": topic("a", "b")}, "a sink is one topic"),
        ({"sink": [topic("a"), topic("b", options={"kafka.acks": "1"})]}, "sink: all topics are written in one"),
        ({"source": topic("a", where="id > 1")}, "source: topic(…, where='id > 1') is for sinks"),
        ({"streams": {"paid": delta("/d")}}, "streams[paid]: delta /d cannot be read as a stream"),
        ({"streams": {"paid": topic("no spaces")}}, "streams[paid]: topic 'no spaces'"),
        ({"streams": {"a": topic("a")}, "tables": {"a": topic("a")}}, "streams[a]: 'a' is in `tables` too"),
        ({"streams": [topic("a")]}, "streams: it must be a dict"),
        ({"tables": {"a": refreshed(parquet("/a"), every="soon")}}, "tables[a].every: 'soon' is not a duration"),
        (
            {"tables": {"a": refreshed(parquet("/a"), every="1m")}, "sink": parquet("/b")},
            "sink: parquet /b cannot be written exactly once with a refreshed table",
        ),
        ({"steps": [parse_avro()]}, "steps[1]: parse_avro(value) needs schema=…"),
        ({"steps": [parse_avro(registry="http://r")]}, "steps[1]: parse_avro(value) needs subject=…"),
        ({"steps": [parse_avro("no.avsc")]}, "steps[1]: schema file 'no.avsc' does not exist"),
        ({"steps": [pack_avro(schema={}, subject="topic")]}, "steps[1]: subject='topic' must be one of topic_name"),
        ({"steps": [pack_avro(schema={}, registry="localhost")]}, "steps[1]: registry 'localhost' is not a URL"),
        ({"steps": [parse_debezium()]}, "steps[1]: parse_debezium needs the table's columns"),
        ({"steps": [parse_debezium(registry="http://r")]}, "steps[1]: parse_debezium needs topic=…"),
        ({"sink": topic("clean", acks="all")}, "option 'acks' is unknown"),
        (
            {"sink": topic("clean", options={"kafka.sasl.jaas.config": "secret"})},
            "sink: option 'kafka.sasl.jaas.config' cannot be set here: all topics of a pipeline are reached with the",
        ),
        ({"source": topic("orders", commandConfig="c")}, "use the pipeline's command_config, or --command-config"),
        (
            {"client_settings": {"ssl.truststore.locaton": "/ca.pem"}},
            "'ssl.truststore.locaton' is not a setting of Kafka's clients; did you mean 'ssl.truststore.location'?",
        ),
        ({"client_settings": {"acks": "all"}, "command_config": "c"}, "command_config names a file with client"),
        ({"client_settings": "secret"}, "client_settings: it must be a dict"),
        ({"sink": each_batch(cast(Any, "print"))}, "it must be a function"),
        ({"source": topic(pattern="o.*"), "sink": topic("out")}, "'out' matches the source's pattern"),
        ({"steps": ["parse"]}, "steps[1]: 'parse' is not a function"),
        ({"steps": [_takes_nothing]}, "steps[1]: _takes_nothing() takes no rows"),
        ({"steps": [_with_customers]}, "has the parameter 'customers', which is not in `tables` (none)"),
        ({"trigger": "often"}, "trigger: 'often' is not a duration"),
        ({"output_mode": "replace"}, "output_mode: 'replace' must be one of append, update, complete"),
        ({"checkpoint": " "}, "checkpoint: it is empty"),
        ({"settings": {"spark.speculation": "true"}}, "spark.speculation=true would write rows twice"),
        ({"settings": {"driver.memory": "1g"}}, "'driver.memory' is not a Spark setting"),
        ({"on_failure": RetryLadder(delays=["soon"])}, "on_failure.delays[1]: 'soon' is not a duration"),
        ({"on_failure": RetryLadder(attempts=0)}, "on_failure.attempts: 0 must be at least 1"),
        ({"on_failure": RetryLadder(delays=[], attempts=2)}, "on_failure.delays: no delays"),
        ({"on_failure": DeadLetters("orders")}, "on_failure.dead_letters: topic 'orders' is also the source"),
        ({"on_failure": DeadLetters("clean")}, "on_failure.dead_letters: topic 'clean' is also the sink"),
        ({"on_failure": RetryLadder(dead_letters="orders.retry.1")}, "'orders.retry.1' is also a retry topic"),
        ({"on_failure": DeadLetters(), "output_mode": "update"}, "on_failure needs output_mode='append'"),
        ({"on_failure": DeadLetters(), "sink": parquet("/out")}, "cannot be written exactly once with on_failure"),
        (
            {"on_failure": RetryLadder(keep_order_by_key=True), "sink": delta("/out")},
            "keep_order_by_key needs a topic as the sink",
        ),
        (
            {"source": topic(pattern="orders.*"), "on_failure": RetryLadder(topic="orders")},
            "matches the source's pattern",
        ),
        (
            {"source": parquet("/in", schema="id long"), "on_failure": RetryLadder()},
            "parquet /in has no records",
        ),
        (
            {"source": topic("orders", startingTimestamp=1), "on_failure": DeadLetters()},
            "option 'startingTimestamp' cannot be used with on_failure",
        ),
        ({"source": parquet("/in", schema="id long, `a b` string")}, "needs a column `value`, not only a b, id"),
    ],
)
def test_a_mistake_is_named_with_its_setting_and_value(changes: dict[str, Any], expected: str) -> None:
    assert any(expected in problem for problem in _problems(**changes)), _problems(**changes)


def test_all_mistakes_are_reported_at_once() -> None:
    assert len(_problems(name="", trigger="x", output_mode="y")) == 3


def test_a_table_that_no_step_uses_is_a_warning() -> None:
    (problem,) = check(_pipeline(tables={"customers": parquet("/data")}))
    assert problem.is_warning


def test_delays_that_are_never_used_are_a_warning() -> None:
    (problem,) = check(_pipeline(on_failure=RetryLadder(delays=["1s", "2s"], attempts=2)))
    assert problem.is_warning
    assert "the last 1 of 2 are never used" in problem.message


def test_the_value_column_may_come_of_a_step() -> None:
    @row_step("value string")
    def write(row: dict[str, Any]) -> dict[str, Any]:
        return {"value": str(row["id"])}

    assert not _problems(source=parquet("/in", schema="id long"), steps=[write])
    assert not _problems(source=parquet("/in", schema="id long"), steps=[pack_json()])
    assert not _problems(source=parquet("/in", schema="id long"), steps=[lambda rows: rows])


def test_names_of_columns_are_found_beside_their_types() -> None:
    schema = "id long, tags array<struct<a: int, b: map<string, int>>>, price decimal(10, 2), `a b`: string NOT NULL"
    assert column_names(schema) == {"id", "tags", "price", "a b"}


@given(st.text())
def test_any_text_may_be_asked_for_columns(text: str) -> None:
    assert isinstance(column_names(text), set)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_any_names_are_judged_and_never_raise(name: str, source: str, sink: str) -> None:
    policy = RetryLadder(delays=[name], dead_letters=sink, topic=source)
    for problem in check(Pipeline(name, source=topic(source, pattern=sink), sink=topic(sink), on_failure=policy)):
        assert problem.setting


def test_topics_that_the_cluster_does_not_have_are_reported() -> None:
    pipeline = _pipeline(on_failure=DeadLetters())
    found = check_cluster(pipeline, Survey(("orders",), {"clean": {0: PartitionSpan(0, 0)}}))
    assert [str(each) for each in found] == [
        "source: topic 'orders' does not exist: tidelog topic create orders",
        "on_failure: topic 'orders.dlq' will be created by the first run",
    ]
    assert [each.is_warning for each in found] == [False, True]


def test_a_library_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definition, "find_spec", lambda _: None)
    found = check(Pipeline("p", source=topic("a"), sink=[topic("b"), delta("/lake")]))
    assert "sink: delta(…) needs the library deltalake: pip install 'tidelog[delta]'" in map(str, found)
