"""Mistakes in a pipeline's definition, found before Spark starts. Pure: checks that need the cluster are in `cluster`.

Each check is a function from the pipeline to problems; `check` runs them all, and a user sees every mistake at once.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Final, NamedTuple

from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.durations import DurationError, milliseconds
from tidelog.config.names import advice_about
from tidelog.metadata.topic_names import check_topic_name
from tidelog.spark.delegation import TOKEN_SETTINGS
from tidelog.spark.pipeline.checks.expectations import expectation_problems
from tidelog.spark.pipeline.checks.kinds import wrong_kinds
from tidelog.spark.pipeline.checks.lake import lake_problems
from tidelog.spark.pipeline.checks.option_names import SOURCE_OPTIONS, sink_problems, source_problems, table_problems
from tidelog.spark.pipeline.checks.refusals import refused, traits_of
from tidelog.spark.pipeline.checks.schemas import debezium_problems, schema_problems
from tidelog.spark.pipeline.definition.endpoints import (
    Changes,
    Delta,
    EachBatch,
    Files,
    Iceberg,
    Refreshed,
    SqlTable,
    Topic,
    table_source,
)
from tidelog.spark.pipeline.definition.pipeline import Pipeline, topic_sinks
from tidelog.spark.pipeline.definition.policy import RetryLadder
from tidelog.spark.pipeline.definition.schema_steps import PackSchema, ParseSchema
from tidelog.spark.pipeline.definition.steps import (
    OWN_STEPS,
    BatchStep,
    Expect,
    PackJson,
    ParseDebezium,
    ParseJson,
    RowStep,
    name_of,
)
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of
from tidelog.wire.errors import ApiError

OUTPUT_MODES: Final = ("append", "update", "complete")
_COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|([^\s:,`]+))[^,]*(?:,|$)")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_STARTS: Final = ("earliest", "latest")
_START_OPTIONS: Final = frozenset(name.lower() for name in SOURCE_OPTIONS if name.startswith("starting"))
LEFT_OUT: Final = frozenset({"value", "topic", "partition", "offset", "timestamp", "timestampType"})
"""A record's own columns: `pack_json()` omits them unless columns are named."""
_TABLE_LIBRARIES: Final = {
    Delta: ("delta", "deltalake", "delta"),
    Iceberg: ("iceberg", "pyiceberg", "iceberg"),
}
_FILE_FORMATS: Final = frozenset({"parquet", "json", "csv", "text", "orc", "avro"})


class Problem(NamedTuple):
    """A mistake and its setting. A pipeline with warnings still runs."""

    setting: str
    message: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.setting}: {self.message}"


Problems = Iterator[Problem]


def check(pipeline: Pipeline) -> list[Problem]:
    """Every mistake that can be found without the cluster."""
    wrong = [Problem(setting, message) for setting, message in wrong_kinds(pipeline)]
    return wrong or [problem for looks_at in _CHECKS for problem in looks_at(pipeline)]


def _name(pipeline: Pipeline) -> Problems:
    name = pipeline.name
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or not name.strip("."):
        yield Problem("name", f"{name!r} must be 1 to 128 ASCII letters, digits, '.', '_' or '-', not dots alone")


def _source(pipeline: Pipeline) -> Problems:
    source = pipeline.source
    if isinstance(source, Topic):
        yield from _source_topics(source)
    elif isinstance(source, Files):
        if source.format in _FILE_FORMATS and source.schema is None and source.format != "text":
            yield Problem("source", f"{source} needs a schema to be read as a stream: schema='id long, …'")
    elif not isinstance(source, Delta | Iceberg):
        yield Problem("source", f"{source!r} is not a source: use topic(…), delta(…), iceberg(…) or spark_format(…)")


def _source_topics(source: Topic) -> Problems:
    for name, given in {"where": source.where, "key": source.key, "value": source.value}.items():
        if given is not None:
            yield Problem("source", f"topic(…, {name}={given!r}) is for sinks: use a step instead")
    if bool(source.names) == (source.pattern is not None):
        yield Problem("source", "name topics, topic('a', 'b'), or a pattern, topic(pattern='a.*'), and not both")
    for name in source.names:
        yield from _topic_name("source", name)
    if source.pattern is not None:
        try:
            re.compile(source.pattern)
        except re.error as error:
            yield Problem("source", f"pattern {source.pattern!r} is not a regular expression: {error}")
    for sentence in source_problems(source):
        yield Problem("source", sentence)


def _sinks(pipeline: Pipeline) -> Problems:
    if not pipeline.sinks:
        yield Problem("sink", "no sink is given: use topic(…), delta(…), iceberg(…), sql_table(…) or each_batch(…)")
    for sink in pipeline.sinks:
        if isinstance(sink, Topic):
            yield from _sink_topic(pipeline, sink)
        elif isinstance(sink, EachBatch):
            if not callable(sink.function):
                yield Problem("sink", f"each_batch({sink.function!r}): it must be a function (rows, batch_id)")
        elif isinstance(sink, Delta | Iceberg | SqlTable | Changes):
            yield from (Problem("sink", sentence) for sentence in lake_problems(sink))
        elif not isinstance(sink, Files):
            yield Problem("sink", f"{sink!r} is not a sink: use topic(…), delta(…), iceberg(…) or each_batch(…)")
    topics = topic_sinks(pipeline)
    if any(sink.options != topics[0].options for sink in topics):
        yield Problem("sink", "all topics are written in one transaction by one producer: give them the same options")


def _sink_topic(pipeline: Pipeline, sink: Topic) -> Problems:
    if sink.pattern is not None or len(sink.names) > 1:
        yield Problem("sink", f"{sink}: a sink is one topic; topic() without a name uses the column `to_topic`")
    for name in sink.names:
        yield from _topic_name("sink", name)
        if isinstance(pipeline.source, Topic) and name in pipeline.source.names:
            yield Problem("sink", f"topic {name!r} is also the source: the pipeline would read its own output")
        if _matches(pipeline.source, name):
            yield Problem("sink", f"topic {name!r} matches the source's pattern: the pipeline would read its output")
    for sentence in sink_problems(sink):
        yield Problem("sink", sentence)


def _steps(pipeline: Pipeline) -> Problems:
    used: set[str] = set()
    for number, step in enumerate(pipeline.steps, start=1):
        setting = f"steps[{number}]"
        if not callable(step):
            yield Problem(setting, f"{step!r} is not a function from DataFrame to DataFrame")
        elif isinstance(step, ParseSchema | PackSchema):
            yield from (Problem(setting, sentence) for sentence in schema_problems(step))
        elif isinstance(step, Expect):
            yield from (Problem(setting, sentence) for sentence in expectation_problems(step, pipeline))
        elif isinstance(step, ParseDebezium):
            yield from (Problem(setting, sentence) for sentence in debezium_problems(step))
        elif not isinstance(step, OWN_STEPS):
            wanted = tables_wanted(step)
            if wanted is None:
                yield Problem(setting, f"{name_of(step)}() takes no rows: its first parameter must be the DataFrame")
            for name in wanted or ():
                if name not in pipeline.tables and name not in pipeline.streams:
                    there = ", ".join([*pipeline.tables, *pipeline.streams]) or "none"
                    message = f"{name_of(step)}() has the parameter {name!r}, which is not in `tables` ({there})"
                    yield Problem(setting, message)
            used.update(wanted or ())
    for name, table in pipeline.tables.items():
        source = table_source(table)
        for sentence in table_problems(source) if isinstance(source, Topic) else ():
            yield Problem(f"tables[{name}]", sentence)
        if isinstance(table, Refreshed):
            yield from _refreshed(name, table)
        if name not in used:
            yield Problem("tables", f"{name!r} is not used: no step has a parameter of this name", is_warning=True)
    yield from _streams(pipeline, used)


def _refreshed(name: str, table: Refreshed) -> Problems:
    try:
        milliseconds(table.every)
    except DurationError as error:
        yield Problem(f"tables[{name}].every", str(error))


def _streams(pipeline: Pipeline, used: set[str]) -> Problems:
    for name, source in pipeline.streams.items():
        setting = f"streams[{name}]"
        if isinstance(source, Topic):
            yield from (Problem(setting, each.message) for each in _source_topics(source))
        elif not isinstance(source, Files):
            yield Problem(setting, f"{source} cannot be read as a stream: put it in `tables`")
        if name in pipeline.tables:
            yield Problem(setting, f"{name!r} is in `tables` too: give it another name")
        if name not in used:
            yield Problem(setting, f"{name!r} is not used: no step has a parameter of this name", is_warning=True)


def tables_wanted(step: Callable[..., object]) -> list[str] | None:
    """The names of the tables that a step takes; None if it takes no rows."""
    try:
        parameters = list(inspect.signature(step).parameters.values())
    except (TypeError, ValueError):
        return []
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if not positional:
        return [] if any(each.kind is each.VAR_POSITIONAL for each in parameters) else None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    others = [each for each in parameters if each is not positional[0] and each.kind in named]
    return [each.name for each in others if each.default is inspect.Parameter.empty]


def _schedule(pipeline: Pipeline) -> Problems:
    try:
        milliseconds(pipeline.trigger)
    except DurationError as error:
        yield Problem("trigger", str(error))
    try:
        if pipeline.row_timeout is not None and milliseconds(pipeline.row_timeout) <= 0:
            yield Problem("row_timeout", "it must be longer than 0; None has no limit")
    except DurationError as error:
        yield Problem("row_timeout", str(error))
    if pipeline.output_mode not in OUTPUT_MODES:
        yield Problem("output_mode", f"{pipeline.output_mode!r} must be one of {', '.join(OUTPUT_MODES)}")
    if pipeline.checkpoint is not None and not str(pipeline.checkpoint).strip():
        yield Problem("checkpoint", "it is empty: set a directory, or omit it")
    for setting, value in pipeline.settings.items():
        if setting == "spark.speculation" and str(value).lower() == "true":
            yield Problem("settings", "spark.speculation=true would write rows twice: omit it")
        if not setting.startswith("spark."):
            yield Problem("settings", f"{setting!r} is not a Spark setting: its name must start with 'spark.'")


def _policy(pipeline: Pipeline) -> Problems:
    policy = pipeline.on_failure
    if policy is None:
        return
    if isinstance(policy, RetryLadder):
        yield from _ladder_numbers(policy)
    if isinstance(pipeline.source, Topic):
        yield from _policy_start(pipeline.source)
    try:
        ladder = ladder_of(pipeline)
    except DurationError:
        return
    if ladder is not None:
        yield from _ladder_topics(pipeline, ladder)


def _policy_start(source: Topic) -> Problems:
    for name, value in source.options.items():
        where = name.lower()
        if where in _START_OPTIONS and (where != "startingoffsets" or value.strip().lower() not in _STARTS):
            message = f"option {name!r} cannot be used with on_failure: use startingOffsets=earliest or latest"
            yield Problem("source", message)


def _not_together(pipeline: Pipeline) -> Problems:
    yield from (Problem(setting, reason) for setting, reason in refused(traits_of(pipeline)))


def _ladder_numbers(policy: RetryLadder) -> Problems:
    bad = [*_bad_delays(policy)]
    yield from bad or _ladder_retention(policy)
    if policy.attempts is not None and policy.attempts < 1:
        yield Problem("on_failure.attempts", f"{policy.attempts} must be at least 1: the first attempt counts")
    if policy.attempts is not None and policy.attempts > 1 and not policy.delays:
        yield Problem("on_failure.delays", f"no delays, but attempts={policy.attempts}: set at least one delay")
    if policy.attempts is not None and len(policy.delays) > max(0, policy.attempts - 1):
        unused = len(policy.delays) - max(0, policy.attempts - 1)
        message = f"the last {unused} of {len(policy.delays)} are never used with attempts={policy.attempts}"
        yield Problem("on_failure.delays", message, is_warning=True)


def _bad_delays(policy: RetryLadder) -> Problems:
    for number, delay in enumerate(policy.delays, start=1):
        try:
            milliseconds(delay)
        except DurationError as error:
            yield Problem(f"on_failure.delays[{number}]", str(error))


def _ladder_retention(policy: RetryLadder) -> Problems:
    if policy.retention is None:
        return
    try:
        retention_ms = milliseconds(policy.retention)
        longest_ms = max(map(milliseconds, policy.delays), default=0)
    except DurationError as error:
        yield Problem("on_failure.retention", str(error))
        return
    if retention_ms <= longest_ms:
        message = f"{policy.retention!r} must be longer than the longest delay: rows would be deleted while they wait"
        yield Problem("on_failure.retention", message)


def _ladder_topics(pipeline: Pipeline, ladder: Ladder) -> Problems:
    source = pipeline.source if isinstance(pipeline.source, Topic) else Topic()
    outputs = {name for sink in topic_sinks(pipeline) for name in sink.names}
    for name in ladder.own_topics:
        setting = "on_failure.dead_letters" if name == ladder.dead_letters else "on_failure.topic"
        yield from _topic_name(setting, name)
        if name in source.names:
            yield Problem(setting, f"topic {name!r} is also the source: failed rows would be read again at once")
        if name in outputs:
            yield Problem(setting, f"topic {name!r} is also the sink: failed rows would look like results")
        if _matches(source, name):
            yield Problem(
                setting, f"topic {name!r} matches the source's pattern {source.pattern!r}: set RetryLadder(topic=…)"
            )
    if ladder.dead_letters in ladder.read_back:
        message = f"topic {ladder.dead_letters!r} is also a retry topic: dead letters would be retried"
        yield Problem("on_failure.dead_letters", message)


def _value_column(pipeline: Pipeline) -> Problems:
    """Check that the steps produce the column `value`, as far as that is known."""
    columns = _source_columns(pipeline)
    for step in pipeline.steps:
        if isinstance(step, PackJson | PackSchema):
            columns = {"key", "value"}
        elif not isinstance(step, OWN_STEPS):
            return
        elif isinstance(step, RowStep | BatchStep | ParseJson) and columns is not None:
            columns = columns | column_names(step.schema)
    if columns is not None and "value" not in columns:
        for sink in topic_sinks(pipeline):
            if sink.value is None:
                there = ", ".join(sorted(columns))
                message = f"{sink} needs a column `value`, not only {there}: end the steps with pack_json()"
                yield Problem("sink", message)


def _packed_columns(pipeline: Pipeline) -> Problems:
    """Columns that steps make and that `pack_json()` would leave out, because a record has some of that name too."""
    made: set[str] = set()
    for number, step in enumerate(pipeline.steps, start=1):
        if isinstance(step, RowStep | BatchStep | ParseJson):
            made |= column_names(step.schema) & LEFT_OUT
        elif isinstance(step, PackJson):
            if step.columns is None and made:
                message = f"pack_json() omits {', '.join(sorted(made))}, which records have too: name the columns"
                yield Problem(f"steps[{number}]", message)
            made = set()


def _source_columns(pipeline: Pipeline) -> set[str] | None:
    source = pipeline.source
    if isinstance(source, Topic):
        return {"key", *LEFT_OUT}
    if isinstance(source, Files) and source.schema is not None:
        return column_names(source.schema)
    return None


def column_names(schema: str) -> set[str]:
    """The names of the columns in `id long, tags array<struct<a: int>>`."""
    flat = schema
    while (inner := re.sub(r"<[^<>]*>|\([^()]*\)", "", flat)) != flat:
        flat = inner
    return {quoted or plain for quoted, plain in _COLUMN.findall(flat)}


def _topic_name(setting: str, name: str) -> Problems:
    try:
        check_topic_name(name)
    except ApiError as error:
        yield Problem(setting, f"topic {name!r}: {error.message}")


def _matches(source: object, name: str) -> bool:
    if not isinstance(source, Topic) or source.pattern is None:
        return False
    try:
        return re.search(source.pattern, name) is not None
    except re.error:
        return False


def _libraries(pipeline: Pipeline) -> Problems:
    places = {
        "source": [pipeline.source],
        "sink": pipeline.sinks,
        "tables": [table_source(each) for each in pipeline.tables.values()],
    }
    for setting, named in places.items():
        kinds = {type(_table_of(each)) for each in named}
        for kind, (function, library, extra) in _TABLE_LIBRARIES.items():
            if kind in kinds and find_spec(library) is None:
                yield Problem(setting, f"{function}(…) needs the library {library}: pip install 'tidelog[{extra}]'")
        databases = {each.database for each in map(_table_of, named) if isinstance(each, SqlTable)}
        if "postgresql" in databases and find_spec("psycopg") is None:
            yield Problem(setting, "sql_table('postgresql://…') needs psycopg: pip install 'tidelog[postgresql]'")


def _table_of(place: object) -> object:
    return place.table if isinstance(place, Changes) else place


def _client_settings(pipeline: Pipeline) -> Problems:
    """No message holds a value: it may be a password."""
    if pipeline.command_config is not None and pipeline.client_settings:
        yield Problem("client_settings", "command_config names a file with client settings: give one of the two")
    known = {**ConsumerSettings.settings, **ProducerSettings.settings, **AdminSettings.settings}
    for name in [*pipeline.client_settings]:
        if name in known or name in TOKEN_SETTINGS:
            continue
        advice = advice_about(str(name).removeprefix("kafka."), known, "{!r}")
        yield Problem("client_settings", f"{name!r} is not a setting of Kafka's clients{advice and f'; {advice}'}")


_CHECKS: Final = (
    _name,
    _libraries,
    _client_settings,
    _source,
    _sinks,
    _steps,
    _schedule,
    _policy,
    _not_together,
    _value_column,
    _packed_columns,
)
