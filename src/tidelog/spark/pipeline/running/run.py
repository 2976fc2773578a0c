"""Starts a pipeline's queries and waits for them."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, Final

from tidelog.client.durations import milliseconds
from tidelog.spark.internals import context_of, is_java_gone
from tidelog.spark.pipeline.checks.definition import check
from tidelog.spark.pipeline.definition.endpoints import Topic, texts
from tidelog.spark.pipeline.definition.expectations import Counts, counts_in
from tidelog.spark.pipeline.definition.loading import MODULE_PREFIX
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError
from tidelog.spark.pipeline.running.batch_counts import BatchCounts
from tidelog.spark.pipeline.running.batch_cut import cut_planned_batch, note_failure
from tidelog.spark.pipeline.running.checkpoints import is_local
from tidelog.spark.pipeline.running.job_properties import job_properties
from tidelog.spark.pipeline.running.notes import forget_death, note_death
from tidelog.spark.pipeline.running.restarts import RESTARTS_DEFAULT, RestartPolicy
from tidelog.spark.pipeline.running.supervision import Supervisor
from tidelog.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tidelog.spark.source.progress import QueryProgress

POLL_S: Final = 0.02
PATIENCE_S: Final = 30.0


class JavaEnded(RuntimeError):  # noqa: N818 - reads as what it says
    """The process of Spark's driver is gone, and with it all queries."""


@dataclass(slots=True)
class Running:
    """The queries of one pipeline."""

    pipeline: Pipeline
    queries: "list[StreamingQuery]"
    counts: BatchCounts = field(default_factory=BatchCounts)

    @property
    def names(self) -> list[str]:
        """The names of the queries."""
        return [query.name for query in self.queries]

    @property
    def is_active(self) -> bool:
        """Whether any query still runs."""
        return any(query.isActive for query in self.queries)

    @property
    def position(self) -> object:
        """The last completed batch of each query."""
        return [_last_batch(query) for query in self.queries]

    def failure(self) -> Exception | None:
        """Why a query ended, if one failed. The next start needs to know of batches that took too long."""
        if is_java_gone():
            return JavaEnded("the JVM of Spark's driver has ended: it was killed, perhaps because memory was short")
        for query in self.queries:
            failure = query.exception()
            if failure is not None:
                for checkpoint in self.pipeline.checkpoint_paths:
                    note_failure(checkpoint, str(failure))
                    note_death(checkpoint, str(failure))
                return failure
        return None

    def rule_counts(self, progress: "QueryProgress") -> Counts:
        """What expectations found in a batch. All queries read the same rows, so those of the first are counted."""
        if progress.name != self.names[0]:
            return {}
        return counts_in(progress.observed) or self.counts.take(progress.batch_id)

    def late_progress(self) -> "list[QueryProgress]":
        """The micro-batches that Spark still remembers, oldest first."""
        from tidelog.spark.source.progress import read_progress

        return [read_progress(json.loads(progress.json)) for query in self.queries for progress in query.recentProgress]

    def wait(self, asked_to_stop: Event, is_over: Callable[[], bool] | None = None) -> bool:
        """Wait until all queries have ended, `is_over` holds or a stop is requested; then stop what still runs.

        Returns whether a stop was requested. Raises the error of a failed query.
        """
        waiting = Supervisor([self.pipeline], lambda _: self, RestartPolicy(0), is_over=lambda _: is_over)
        return waiting.run(asked_to_stop)

    def stop(self, patience_s: float = PATIENCE_S) -> None:
        """Stop what still runs, between two batches if one ends within `patience_s`."""
        deadline = time.monotonic() + patience_s
        for query in self.queries:
            batch_id = _last_batch(query)
            while query.isActive and time.monotonic() < deadline:
                if not query.status["isTriggerActive"] or _last_batch(query) != batch_id:
                    break
                time.sleep(POLL_S)
            if query.isActive:
                query.stop()


def _last_batch(query: "StreamingQuery") -> object:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]


def run_pipeline(
    pipeline: Pipeline, *, once: bool = False, bootstrap_servers: str | None = None, restarts: int = RESTARTS_DEFAULT
) -> None:
    """Run until stopped by a signal, or until what is there now is done; restart it if it fails."""
    spark = _submitted(pipeline) or spark_session(
        pipeline.name,
        settings=session_settings([pipeline], None),
        local_checkpoints=has_local_checkpoints([pipeline]),
    )
    servers = pipeline.servers(bootstrap_servers)

    def begin(each: Pipeline) -> Running:
        return start(each, spark, servers=servers, once=once)

    with stop_on_signals() as asked_to_stop:
        Supervisor([pipeline], begin, RestartPolicy(restarts)).run(asked_to_stop)


def _submitted(pipeline: Pipeline) -> "SparkSession | None":
    """The session that `spark-submit` prepares, on the master it was given; None if this is not run by it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(pipeline.name).config("spark.speculation", "false")
    for name, value in texts(pipeline.settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_settings(pipelines: Sequence[Pipeline], master: str | None) -> dict[str, str]:
    """The settings of Spark for a session that runs `pipelines`.

    On one machine a shuffle has as many parts as there are cores, not 200. Several pipelines share the cores fairly.
    Raises PipelineError if two of them need different values of one setting.
    """
    chosen = master or os.environ.get("SPARK_MASTER") or "local[*]"
    is_here = chosen.startswith("local") and not os.environ.get("SPARK_REMOTE")
    settings = {"spark.sql.shuffle.partitions": str(_cores(chosen))} if is_here else {}
    if len(pipelines) > 1:
        settings["spark.scheduler.mode"] = "FAIR"
    owners: dict[str, tuple[str, str]] = {}
    for pipeline in pipelines:
        for name, value in texts(pipeline.settings).items():
            owner, other = owners.setdefault(name, (pipeline.name, value))
            if other != value:
                raise PipelineError(
                    f"pipelines {owner!r} and {pipeline.name!r} cannot share a session: {name} is {other} and {value}"
                )
            settings[name] = value
    return settings


def has_local_checkpoints(pipelines: Sequence[Pipeline]) -> bool:
    """Whether all checkpoints are on a local disk, whatever Spark's default file system is."""
    return all(
        path.startswith("file:") or (is_local(path) and not os.environ.get("HADOOP_CONF_DIR"))
        for pipeline in pipelines
        for path in pipeline.checkpoint_paths
    )


def _cores(master: str) -> int:
    count = master.removeprefix("local").strip("[]").split(",")[0]
    return int(count) if count.isdigit() else os.cpu_count() or 1


@contextmanager
def stop_on_signals() -> Iterator[Event]:
    """An event that SIGINT and SIGTERM set, as long as the block runs."""
    asked = Event()
    if current_thread() is not main_thread():
        yield asked
        return
    kept = {each: signal.signal(each, lambda *_: asked.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


def start(pipeline: Pipeline, spark: "SparkSession", *, servers: str, once: bool = False) -> Running:
    """Start the queries. Raises PipelineError with every mistake in the definition."""
    from tidelog.spark.pipeline.running.queries import open_queries

    problems = [problem for problem in check(pipeline) if not problem.is_warning]
    if problems:
        raise PipelineError(f"pipeline {pipeline.name!r}: " + "; ".join(map(str, problems)))
    _send_files_along(spark)
    # Its jobs have a pool of their own: with fair scheduling a long batch of one pipeline does not delay the others.
    has_driver = context_of(spark) is not None
    with job_properties(spark, {"spark.scheduler.pool": pipeline.name}) if has_driver else nullcontext():
        pipeline = _with_cut_batches(pipeline)
        has_died = True in [forget_death(checkpoint) for checkpoint in pipeline.checkpoint_paths]
        counts = BatchCounts()
        connection = pipeline.connection(servers)
        queries = open_queries(pipeline, spark, connection, is_apart=has_died, counts=counts)
        return Running(pipeline, [_begin(each, pipeline, once) for each in queries], counts)


def _with_cut_batches(pipeline: Pipeline) -> Pipeline:
    """The pipeline with smaller batches, if one of it took too long when it ran last."""
    limits = [limit for path in pipeline.checkpoint_paths if (limit := cut_planned_batch(path)) is not None]
    if not limits or not isinstance(pipeline.source, Topic):
        return pipeline
    kept = {name: value for name, value in pipeline.source.options.items() if name.lower() != "maxoffsetspertrigger"}
    source = replace(pipeline.source, options={**kept, "maxOffsetsPerTrigger": str(min(limits))})
    return replace(pipeline, source=source)


def _send_files_along(spark: "SparkSession") -> None:
    """Executors cannot import a pipeline's file by name: its functions travel to them whole, and its neighbours too."""
    from pyspark import cloudpickle

    from tidelog.spark.pipeline.running.neighbours import send_neighbours

    send_neighbours(spark)
    for name, module in list(sys.modules.items()):
        if name.startswith(MODULE_PREFIX):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _begin(stream: "DataStreamWriter", pipeline: Pipeline, once: bool) -> "StreamingQuery":
    interval = f"{milliseconds(pipeline.trigger)} milliseconds"
    return (stream.trigger(availableNow=True) if once else stream.trigger(processingTime=interval)).start()
