"""Older records through a pipeline into its sinks, beside the running query: part by part, each part once.

A part is a batch with a number, read by offsets and written as a micro-batch is: the sinks know the backfill by an id
of its own and skip a part that they have. So a backfill may be killed and started again at any time. Rows that
fail go where the pipeline's policy sends them; the running query retries them.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.cluster import Cluster
from tidelog.client.types import TopicPartition
from tidelog.spark.pipeline.checks.survey import survey
from tidelog.spark.pipeline.definition.endpoints import Files, Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError
from tidelog.spark.pipeline.failing.routing import ladder_of
from tidelog.spark.pipeline.failing.source_options import READ_DEFAULTS
from tidelog.spark.pipeline.running.backfill_plan import BackfillPlan, BackfillState, Bound, Ranges, new_plan
from tidelog.spark.pipeline.running.checkpoints import local_path
from tidelog.spark.pipeline.running.job_properties import job_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIRECTORY: Final = "backfills"
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"

WriteRows = Callable[["DataFrame", int], Any]


def why_no_backfill(pipeline: Pipeline) -> str | None:
    """Why a pipeline cannot be backfilled; None if it can."""
    if not isinstance(pipeline.source, Topic):
        return f"the source is {pipeline.source}: only topics and their segment files have offsets to read again"
    if pipeline.streams:
        return "it joins streams, whose state only the running query has"
    if pipeline.output_mode != "append":
        return f"output_mode={pipeline.output_mode!r} needs the state of the running query"
    if any(isinstance(sink, Files) for sink in pipeline.sinks):
        return "files cannot be written exactly once beside a running query: use delta(…), iceberg(…) or a topic"
    ladder = ladder_of(pipeline)
    if ladder is not None and ladder.keeps_order:
        return "keep_order_by_key=True: older records cannot be put in order before those of the running query"
    return None


def state_of(pipeline: Pipeline, name: str) -> BackfillState:
    """Where a backfill of this name keeps its plan. Raises PipelineError if the checkpoint is not local."""
    place = local_path(pipeline.checkpoint_path)
    if place is None:
        raise PipelineError(f"a backfill keeps its plan beside the checkpoint, which is not local: {place}")
    return BackfillState(Path(place) / DIRECTORY / name)


def cluster_ranges(pipeline: Pipeline, cluster: Cluster, start: Bound, end: Bound) -> Ranges:
    """The offsets that a cluster has between two bounds."""
    found: dict[str, dict[int, tuple[int, int]]] = {}
    seen = survey(pipeline, cluster)
    for topic in seen.source_topics:
        partitions = [TopicPartition(topic, each) for each in seen.there.get(topic, {})]
        firsts = _offsets(cluster, partitions, start, EARLIEST)
        ends = _offsets(cluster, partitions, end, LATEST)
        for where in partitions:
            span = seen.there[topic][where.partition]
            first = max(span.first, firsts[where])
            found.setdefault(topic, {})[where.partition] = (first, max(first, min(span.end, ends[where])))
    return found


def _offsets(
    cluster: Cluster, partitions: list[TopicPartition], bound: Bound, otherwise: int
) -> dict[TopicPartition, int]:
    if bound.offset is not None:
        return dict.fromkeys(partitions, bound.offset)
    asked = otherwise if bound.time_ms is None else bound.time_ms
    answers = cluster.list_offsets(dict.fromkeys(partitions, asked), read_committed=True)
    missing = [where for where, place in answers.items() if place.offset < 0]
    # No record is that young: the end of the partition.
    ends = cluster.list_offsets(dict.fromkeys(missing, LATEST), read_committed=True) if missing else {}
    return {where: ends[where].offset if where in ends else place.offset for where, place in answers.items()}


def file_ranges(spark: "SparkSession", pipeline: Pipeline, path: str, start: Bound, end: Bound) -> Ranges:
    """The offsets that segment files have between two bounds."""
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

    assert isinstance(pipeline.source, Topic), "checked before"
    options = _chosen(pipeline.source) | {"path": path, "startingOffsetsByTimestampStrategy": "latest"}
    if start.time_ms is not None:
        options["startingTimestamp"] = str(start.time_ms)
    if end.time_ms is not None:
        options["endingTimestamp"] = str(end.time_ms)
    rows = spark.read.format("tidelog").options(**options).schema("topic string, partition int, offset long").load()
    spans = rows.groupBy("topic", "partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for row in spans.collect():
        first = row["first"] if start.offset is None else max(row["first"], start.offset)
        after = row["last"] + 1 if end.offset is None else min(row["last"] + 1, end.offset)
        found.setdefault(row["topic"], {})[row["partition"]] = (first, max(first, after))
    return found


class Backfill:
    """One backfill of a pipeline, from a cluster or, with `path`, from segment files."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: "SparkSession",
        servers: str | None,
        state: BackfillState,
        path: str | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._connection = pipeline.connection(servers)
        self._state = state
        self._path = path

    def plan(self, asked: Mapping[str, str | None], start: Bound, end: Bound, batch_offsets: int) -> BackfillPlan:
        """The plan of the first start, or a new one, which is kept."""
        kept = self._state.plan(asked)
        if kept is not None:
            return kept
        if self._path is not None:
            ranges = file_ranges(self._spark, self._pipeline, self._path, start, end)
        else:
            with Cluster(self._connection.client()) as cluster:
                ranges = cluster_ranges(self._pipeline, cluster, start, end)
        plan = new_plan(asked, ranges, batch_offsets)
        self._state.keep(plan)
        return plan

    def run(self, plan: BackfillPlan, advance: Callable[[int], None], is_stopped: Callable[[], bool]) -> bool:
        """Write the parts that are left; whether all are written now."""
        done = self._state.done
        advance(sum(plan.size(number) for number in range(done)))
        write = self._writer()
        for number in range(done, plan.parts):
            if is_stopped():
                return False
            with job_properties(self._spark, {_QUERY: plan.query_id, _BATCH: str(number)}):
                write(self._rows(plan.part(number)), number)
            self._state.keep_done(number + 1)
            advance(plan.size(number))
        return True

    def _rows(self, part: Ranges) -> "DataFrame":
        def offsets(which: int) -> str:
            ends = {
                topic: {str(partition): bounds[which] for partition, bounds in partitions.items()}
                for topic, partitions in part.items()
            }
            return json.dumps(ends)

        options = {
            **READ_DEFAULTS,
            "assign": json.dumps({topic: sorted(partitions) for topic, partitions in part.items()}),
            "startingOffsets": offsets(0),
            "endingOffsets": offsets(1),
            "includeHeaders": "true",
        }
        where = self._connection.options() if self._path is None else {"path": self._path}
        return self._spark.read.format("tidelog").options(**{**options, **where}).load()

    def _writer(self) -> WriteRows:
        from tidelog.spark.pipeline.running.computing import prepare
        from tidelog.spark.pipeline.running.engine import BatchEngine
        from tidelog.spark.pipeline.running.staged import StagedRows

        computation = prepare(self._pipeline, self._connection)
        staged = None if computation.ladder is None else StagedRows(str(self._state.directory))
        # A part that is read again is the same part, even where its steps return something else each time.
        more = {"onRepeatedBatch": "skip"} if computation.ladder is None else {}
        engine = BatchEngine(computation, self._pipeline.sinks, self._spark, staged=staged, more=more)
        return lambda records, number: engine.process(computation.restored(records), number)


def _chosen(source: Topic) -> dict[str, str]:
    if source.pattern is not None:
        return {"subscribePattern": source.pattern}
    return {"subscribe": ",".join(source.names)}
