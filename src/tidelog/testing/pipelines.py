"""For tests of pipelines: records in, rows out, failed rows and their reasons.

    from tidelog.testing.pipelines import run_rows

    result = run_rows(pipeline, [{"id": 1, "amount": 5.0}, {"id": 2, "amount": -1.0}, "not JSON"])
    assert [row["id"] for row in result.values] == [1]
    assert [failed.message for failed in result.failed][0] == "negative amount"

`run_rows` applies the steps, without a broker; `run_on_broker` runs the pipeline with its topics, sinks and policy on a
broker in this process; `assert_golden` compares rows with a file. A session of Spark is started once for the process.
"""

import difflib
import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.client import ConsumerRecord
    from tidelog.spark.pipeline.definition.pipeline import Pipeline

UPDATE_VARIABLE: Final = "TIDELOG_UPDATE_GOLDEN"
"""Set it to 1 and `assert_golden` writes its files instead of comparing with them."""

_SETTINGS: Final = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
}
_COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
_TIMESTAMP: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the source topic. A key or a value that is neither bytes nor text is written as JSON."""

    value: Any
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: datetime = _TIMESTAMP
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A row that a step rejected: the value of its record, and why. `retry` is None where only a broker knows."""

    value: bytes | None
    key: bytes | None
    type: str
    message: str
    retry: bool | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a pipeline made of its records. `rows` have the columns that the sink gets, in the order of the records."""

    rows: list[dict[str, Any]]
    failed: list[FailedRow] = field(default_factory=list)

    @property
    def values(self) -> list[Any]:
        """The column `value` of each row, parsed as JSON: what a topic gets."""
        return [None if row["value"] is None else json.loads(row["value"]) for row in self.rows]


def session() -> "SparkSession":
    """The session of this process, started with settings for small data if there is none."""
    from tidelog.spark import spark_session

    return spark_session("tests", master="local[1]", settings=_SETTINGS, local_checkpoints=True)


def run_rows(
    pipeline: "Pipeline",
    records: Sequence[Any],
    *,
    tables: Mapping[str, "Sequence[Mapping[str, Any]] | DataFrame"] | None = None,
    spark: "SparkSession | None" = None,
) -> Result:
    """Apply the steps of `pipeline` to records (values, or `Record`s): no broker, no sink, one attempt for each row.

    `tables` has the rows of each table that the pipeline joins with.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    from tidelog.spark.pipeline.applying.chain import run_steps
    from tidelog.spark.pipeline.definition.endpoints import Delta, Iceberg
    from tidelog.spark.pipeline.definition.pipeline import topic_sinks
    from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
    from tidelog.spark.pipeline.failing.routing import ladder_of
    from tidelog.spark.pipeline.running.columns import output_rows, restore

    spark = spark or session()
    rows = _source_rows(spark, pipeline, records)
    ladder = ladder_of(pipeline)
    original = F.struct("key", "value").alias("_source")
    rows = rows.select("*", original)
    if ladder is not None:
        rows = restore(rows, ladder, pipeline.name, show_headers=_shows_headers(pipeline))
    opened = {name: _table(spark, given) for name, given in (tables or {}).items()}
    applied = run_steps(pipeline.steps, rows, opened, lambda made: made.localCheckpoint(), keep=None)
    made = applied.rows.localCheckpoint()
    if ERROR not in made.columns:
        made = made.withColumn(ERROR, F.lit(None).cast("struct<type: string, message: string, retry: boolean>"))
    well = made.where(F.col(ERROR).isNull())
    sinks = pipeline.sinks
    topics = topic_sinks(pipeline)
    if topics and len(topics) == len(sinks):
        well = output_rows(well, topics)
    elif len(sinks) == 1 and isinstance(sinks[0], Delta | Iceberg) and sinks[0].columns:
        well = well.select(*sinks[0].columns)
    left_out = (RECORD, ERROR, "_source")
    failures = [each for each in (made.where(F.col(ERROR).isNotNull()), *applied.set_aside) if ERROR in each.columns]
    return Result(
        [_plain(row) for row in well.drop(*left_out).collect()],
        [failed for each in failures for failed in _failed_rows(each)],
    )


def run_on_broker(
    pipeline: "Pipeline",
    records: Sequence[Any],
    *,
    spark: "SparkSession | None" = None,
    bootstrap_servers: str | None = None,
) -> Result:
    """Run `pipeline` over records on a broker in this process: topics, exactly-once sinks and policy included.

    The rows are those of the sink: records of a topic (`key`, `value`, `headers`, `topic`, `partition`) or rows of a
    table. Failed rows are those in the retry topics and among the dead letters. With `bootstrap_servers`, a broker that
    runs already is used, and its topics must be empty.
    """
    from tidelog.spark.pipeline.definition.endpoints import Topic
    from tidelog.spark.pipeline.failing.routing import ladder_of
    from tidelog.spark.pipeline.running.run import start
    from tidelog.testing.broker import Broker

    if not isinstance(pipeline.source, Topic) or not pipeline.source.names:
        raise ValueError(f"run_on_broker needs a pipeline whose source is topic('…'), not {pipeline.source}")
    spark = spark or session()
    with ExitStack() as stack:
        servers = bootstrap_servers or stack.enter_context(Broker()).bootstrap_servers
        checkpoint = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-test-"))
        prepared = replace(
            pipeline,
            checkpoint=checkpoint,
            bootstrap_servers=servers,
            command_config=None,
            client_settings={"security.protocol": "PLAINTEXT"},
        )
        _send(prepared, records, servers)
        start(prepared, spark, servers=servers, once=True).wait(Event())
        ladder = ladder_of(prepared)
        failed = [] if ladder is None else [*ladder.retry_topics, ladder.dead_letters]
        known = {*pipeline.source.names, *(() if ladder is None else ladder.own_topics)}
        return Result(
            [row for sink in prepared.sinks for row in _written(sink, servers, known)],
            [_letter(record) for topic in failed for record in _records(servers, topic)],
        )


def assert_golden(
    rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str], *, ordered: bool = False, update: bool = False
) -> None:
    """Compare rows with the file at `path`: a line of JSON for each, sorted unless `ordered`.

    With `update`, or TIDELOG_UPDATE_GOLDEN=1 in the environment, the file is written instead: look at its diff.
    """
    place = Path(path)
    lines = [json.dumps(_shown(row), ensure_ascii=False, sort_keys=True) for row in rows]
    found = "".join(f"{line}\n" for line in (lines if ordered else sorted(lines)))
    if update or os.environ.get(UPDATE_VARIABLE, "") not in ("", "0"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(found, encoding="utf-8")
        return
    if not place.exists():
        raise AssertionError(f"{place} does not exist: write it with {UPDATE_VARIABLE}=1")
    expected = place.read_text(encoding="utf-8")
    if found != expected:
        changes = difflib.unified_diff(
            expected.splitlines(), found.splitlines(), f"{place} (expected)", "rows (found)", lineterm="", n=2
        )
        text = "\n".join(changes)
        raise AssertionError(f"the rows differ from {place}; {UPDATE_VARIABLE}=1 accepts them\n{text}")


def _source_rows(spark: "SparkSession", pipeline: "Pipeline", records: Sequence[Any]) -> "DataFrame":
    from tidelog.spark.pipeline.definition.endpoints import Topic

    source = pipeline.source
    names = source.names if isinstance(source, Topic) else ()
    default = names[0] if names else "source"
    made = []
    for offset, given in enumerate(records):
        record = given if isinstance(given, Record) else Record(given)
        headers = [(name, _kept(value)) for name, value in record.headers] or None
        place = (record.topic or default, 0, offset, record.timestamp, 0, headers)
        made.append((_bytes(record.key), _bytes(record.value), *place))
    rows = spark.createDataFrame(made, _COLUMNS).coalesce(1)
    return rows if pipeline.on_failure is not None or _shows_headers(pipeline) else rows.drop("headers")


def _shows_headers(pipeline: "Pipeline") -> bool:
    options = getattr(pipeline.source, "options", {})
    return any(name.lower() == "includeheaders" and value == "true" for name, value in options.items())


def _table(spark: "SparkSession", given: "Sequence[Mapping[str, Any]] | DataFrame") -> "DataFrame":
    if isinstance(given, Sequence):
        return spark.createDataFrame([dict(row) for row in given])
    return given


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _plain(row: Any) -> dict[str, Any]:
    made = row.asDict(recursive=True)
    return {name: bytes(value) if isinstance(value, bytearray) else value for name, value in made.items()}


def _failed_rows(rows: "DataFrame") -> list[FailedRow]:
    from tidelog.spark.pipeline.definition.steps import ERROR, RECORD

    kept = next((name for name in ("_source", RECORD) if name in rows.columns), None)
    found = rows.select(ERROR, *([kept] if kept else [])).collect()
    made = []
    for row in found:
        record = row[kept] if kept else None
        value, key = (None, None) if record is None else (record["value"], record["key"])
        error = row[ERROR]
        made.append(FailedRow(_kept(value), _kept(key), error["type"], error["message"], error["retry"]))
    return made


def _kept(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _send(pipeline: "Pipeline", records: Sequence[Any], servers: str) -> None:
    from tidelog.client import Admin, NewTopic, Producer
    from tidelog.spark.pipeline.definition.pipeline import topic_sinks

    names = [*pipeline.source.names, *(name for sink in topic_sinks(pipeline) for name in sink.names)]  # type: ignore[union-attr]
    with Admin(bootstrap_servers=servers) as admin:
        there = {each.name for each in admin.list_topics()}
        # Records may be as old as the test wants them to be.
        keeping = {"retention.ms": "-1"}
        admin.create_topics([NewTopic(name, 1, configs=keeping) for name in dict.fromkeys(names) if name not in there])
    with Producer(bootstrap_servers=servers) as producer:
        for given in records:
            record = given if isinstance(given, Record) else Record(given)
            producer.send(
                record.topic or names[0],
                _bytes(record.value),
                _bytes(record.key),
                headers=list(record.headers),
                timestamp_ms=round(record.timestamp.timestamp() * 1000),
            )
        producer.flush()


def _written(sink: Any, servers: str, known: Collection[str]) -> list[dict[str, Any]]:
    """The rows in a sink. Of `topic()`, whose rows name their topics: all but internal ones and those in `known`."""
    from tidelog.spark.pipeline.definition.endpoints import Changes, Delta, Iceberg, SqlTable, Topic

    if isinstance(sink, Topic):
        return [
            {
                "key": record.key,
                "value": record.value,
                "headers": list(record.headers) or None,
                "topic": record.topic,
                "partition": record.partition,
            }
            for name in sink.names or _named_by_rows(servers, known)
            for record in _records(servers, name)
        ]
    table = sink.table if isinstance(sink, Changes) else sink
    if isinstance(table, SqlTable):
        from tidelog.spark.pipeline.lake.sql import SqlTarget

        return SqlTarget(table).rows()
    if not isinstance(table, Delta | Iceberg):
        return []
    from tidelog.spark.pipeline.lake.tables import open_table

    return [dict(row) for row in open_table(table).read().to_pylist()]


def _named_by_rows(servers: str, known: Collection[str]) -> list[str]:
    from tidelog.client import Admin

    with Admin(bootstrap_servers=servers) as admin:
        names = [each.name for each in admin.list_topics()]
    return sorted(name for name in names if name not in known and not name.startswith("__"))


def _records(servers: str, topic: str) -> "list[ConsumerRecord[bytes, bytes]]":
    from tidelog.client import TopicPartition
    from tidelog.client.aio.admin.types import LATEST
    from tidelog.client.cluster import Cluster

    with Cluster(bootstrap_servers=servers) as cluster:
        partitions = [TopicPartition(topic, each) for each in range(cluster.partition_count(topic))]
        ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
        reading = cluster.read(
            dict.fromkeys(partitions, 0), {each: place.offset for each, place in ends.items()}, read_committed=True
        )
        return sorted(reading, key=lambda each: (each.partition, each.offset))


def _letter(record: "ConsumerRecord[bytes, bytes]") -> FailedRow:
    from tidelog.client.retry.headers import decode

    trail = decode(record.headers)
    assert trail is not None, "the policy's topics have only failed rows"
    return FailedRow(_kept(record.value), _kept(record.key), trail.error_type, trail.error_message)


def _shown(value: Any) -> Any:
    """A value as JSON has it, readable where that is possible."""
    if isinstance(value, Mapping):
        return {str(name): _shown(each) for name, each in value.items()}
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return value
