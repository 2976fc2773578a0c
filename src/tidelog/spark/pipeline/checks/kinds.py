"""Settings of the wrong type: a function instead of a list, a number without a unit. Pure.

`definition` runs this check first; its other checks rely on correct types.
"""

import os
from collections.abc import Iterator, Mapping, Sequence

from tidelog.spark.pipeline.definition.endpoints import Delta, Files, Iceberg, Topic, table_source
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.definition.policy import DeadLetters, RetryLadder
from tidelog.spark.pipeline.definition.steps import BatchStep, ParseJson, RowStep

Wrong = Iterator[tuple[str, str]]
"""The setting and what is wrong with it."""


def wrong_kinds(pipeline: Pipeline) -> Wrong:
    """Every setting of the wrong type."""
    yield from _plain(pipeline)
    for number, step in enumerate(pipeline.steps if _is_list(pipeline.steps) else (), start=1):
        if isinstance(step, RowStep | BatchStep | ParseJson) and not isinstance(step.schema, str):
            yield f"steps[{number}]", f"the schema {step.schema!r} must be a text like 'id long, amount double'"
    yield from _topic_names("source", pipeline.source)
    for sink in pipeline.sinks:
        yield from _topic_names("sink", sink)
    yield from _tables(pipeline.tables)
    if not isinstance(pipeline.streams, Mapping):
        yield "streams", f"it must be a dict like {{'payments': topic('payments')}}, not {pipeline.streams!r}"
    yield from _policy(pipeline.on_failure)


def _plain(pipeline: Pipeline) -> Wrong:
    if not _is_list(pipeline.steps):
        yield "steps", f"it must be a list of functions: steps=[…], not {pipeline.steps!r}"
    if not isinstance(pipeline.settings, Mapping):
        yield "settings", f"it must be a dict like {{'spark.driver.memory': '2g'}}, not {pipeline.settings!r}"
    if not isinstance(pipeline.checkpoint, str | os.PathLike | None):
        yield "checkpoint", f"{pipeline.checkpoint!r} is not a path"
    if not isinstance(pipeline.client_settings, Mapping):
        yield "client_settings", "it must be a dict like {'security.protocol': 'SASL_SSL'}"
    if not isinstance(pipeline.command_config, str | os.PathLike | None):
        yield "command_config", f"{pipeline.command_config!r} is not a path"
    if not isinstance(pipeline.bootstrap_servers, str | None):
        yield "bootstrap_servers", f"{pipeline.bootstrap_servers!r} must be a text like 'host:9092,host:9092'"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _topic_names(setting: str, place: object) -> Wrong:
    for name in place.names if isinstance(place, Topic) else ():
        if not isinstance(name, str):
            yield setting, f"{name!r} is not a topic name: give topics as topic('a', 'b')"


def _tables(tables: object) -> Wrong:
    if not isinstance(tables, Mapping):
        yield "tables", f"it must be a dict like {{'customers': topic('customers')}}, not {tables!r}"
        return
    for name, table in tables.items():
        source = table_source(table)
        yield from _topic_names(f"tables[{name}]", source)
        if not isinstance(source, Topic | Files | Delta | Iceberg):
            message = f"{source!r} is not a source: use topic(…), delta(…), iceberg(…) or spark_format(…)"
            yield f"tables[{name}]", message


def _policy(policy: object) -> Wrong:
    if isinstance(policy, DeadLetters):
        yield from _name("on_failure.topic", policy.topic)
    elif isinstance(policy, RetryLadder):
        yield from _name("on_failure.topic", policy.topic)
        yield from _name("on_failure.dead_letters", policy.dead_letters)
        if not _is_list(policy.delays):
            yield "on_failure.delays", f"it must be a list like ['10s', '1m'], not {policy.delays!r}"
        if policy.attempts is not None and type(policy.attempts) is not int:
            yield "on_failure.attempts", f"{policy.attempts!r} is not a whole number"
    elif policy is not None:
        yield "on_failure", f"{policy!r} is not a policy: use RetryLadder(…) or DeadLetters(…)"


def _name(setting: str, name: object) -> Wrong:
    if not isinstance(name, str | None):
        yield setting, f"{name!r} is not a topic name: give it as text"
