"""One micro-batch of a pipeline, or one part of a backfill: computed, kept if need be, and written to every sink.

`queries` says which pipelines hand their batches to `BatchEngine.process`. Every sink recognises a batch that it has by
the id of the query and the number of the batch.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.internals import observed_in, observed_in_batch, release
from tidelog.spark.pipeline.applying.chain import Materialize
from tidelog.spark.pipeline.definition.endpoints import Files, Sink, Topic
from tidelog.spark.pipeline.definition.expectations import counts_in, exceeded
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.definition.steps import expectations_of, has_limits
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.batch_counts import BatchCounts
from tidelog.spark.pipeline.running.batch_order import BatchOrder
from tidelog.spark.pipeline.running.computing import Computation
from tidelog.spark.pipeline.running.refreshing import has_refreshed
from tidelog.spark.pipeline.running.sinks import batch_function, topic_batches, topic_of
from tidelog.spark.pipeline.running.staged import StagedRows
from tidelog.spark.sink.settings import STREAM_OPTION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG: Final = logging.getLogger("tidelog.pipeline")


class BatchFailed(Exception):  # noqa: N818 - reads as what it says
    """A micro-batch failed; the message says why."""


class BatchRejected(BatchFailed):
    """A micro-batch failed because of the definition of the pipeline: repeated, it would fail again."""


class BatchEngine:
    """Processes each batch of one query.

    `is_computed` says that batches are results already, because the steps are part of the streaming plan. With `staged`
    results are kept until every sink has them. `more` are further options of the topics.
    """

    def __init__(
        self,
        computation: Computation,
        sinks: Sequence[Sink],
        spark: "SparkSession",
        *,
        is_computed: bool = False,
        staged: StagedRows | None = None,
        order: BatchOrder | None = None,
        counts: BatchCounts | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self._computation = computation
        self._open_tables = computation.table_opener()
        self._is_computed = is_computed
        self._staged = staged
        self._order = order
        self._expectations = expectations_of(computation.pipeline.steps)
        self._counts = counts
        self._others = [batch_function(sink, spark) for sink in sinks if not isinstance(sink, Topic | Files)]
        self._write_topics = self._topic_writer([sink for sink in sinks if isinstance(sink, Topic)], more or {})

    def process(self, batch: "DataFrame", batch_id: int) -> None:
        """Process one batch. Raises BatchFailed."""
        observed: dict[str, dict[str, Any]] = {}
        with _short_errors(), _materialized(observed) as materialize:

            def compute(rows: "DataFrame") -> "DataFrame":
                results = self._results(rows, materialize)
                if self._expectations and not self._is_computed:
                    results = materialize(results)
                    # Before anything is written or staged: a batch that is refused leaves nothing behind.
                    self._check(observed, batch_id)
                return results

            if self._staged is not None:
                # A plan with state must run in any case: else Spark would miss what the batch has made of the state.
                results = self._staged.rows(batch, batch_id, compute, must_run=self._is_computed)
            elif self._expectations and self._is_computed:
                # Each sink reads the rows, and Spark counts as often as it computes them.
                results = materialize(batch)
            else:
                results = compute(batch)
            if self._expectations and self._is_computed:
                self._check(observed_in_batch(batch, _query_id(batch)), batch_id)
            for write in self._others:
                write(self._computation.for_tables(results), batch_id)
            if self._write_topics is not None:
                self._write_topics(self._for_topics(results, materialize), batch_id)
        if self._order is not None:
            self._order.committed()

    def _check(self, observed: Mapping[str, Mapping[str, Any]], batch_id: int) -> None:
        """Note what the expectations have found in a batch. Raises PipelineError if too many rows of it fail."""
        counts = counts_in(observed)
        reason = exceeded(self._expectations, counts)
        if reason is not None:
            raise PipelineError(reason)
        if self._counts is not None and not self._is_computed:
            self._counts.note(batch_id, counts)

    def _results(self, batch: "DataFrame", materialize: Materialize) -> "DataFrame":
        if self._is_computed:
            return batch
        if self._order is not None:
            batch = self._order.with_due(batch, materialize)
        return self._computation.results(batch, self._open_tables(batch.sparkSession), materialize)

    def _for_topics(self, results: "DataFrame", materialize: Materialize) -> "DataFrame":
        if self._order is not None:
            return self._order.routed(results, materialize)
        return self._computation.for_topics(results)

    def _topic_writer(
        self, topics: Sequence[Topic], more: Mapping[str, str]
    ) -> "Callable[[DataFrame, int], Any] | None":
        computation = self._computation
        if not topics and computation.ladder is None:
            return None
        # A policy has topics of its own. Pipelines with refreshed tables have always written as if they had, too: under
        # another transactional id, the batch of an existing checkpoint would not be recognised when it is repeated.
        is_routed = computation.ladder is not None or has_refreshed(computation.pipeline)
        # A limit on failures may be added to a pipeline that a stream has written, and be removed again.
        is_of_stream = self._is_computed and not self._others and has_limits(computation.pipeline.steps)
        options = {**computation.options, **more, **({STREAM_OPTION: "true"} if is_of_stream else {})}
        return topic_batches(options, None if is_routed else topic_of(topics))


@contextmanager
def _short_errors() -> Iterator[None]:
    """Spark takes what `foreachBatch` raises apart with a regular expression that overflows on long texts."""
    try:
        yield
    except Exception as error:
        LOG.error("a batch failed", exc_info=error)
        # One with a cause reports a service, such as a registry, that may answer the next time.
        is_lasting = isinstance(error, PipelineError) and error.__cause__ is None
        raise (BatchRejected if is_lasting else BatchFailed)(in_a_sentence(error)) from None


def _query_id(batch: "DataFrame") -> str:
    return str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))


@contextmanager
def _materialized(observed: dict[str, dict[str, Any]]) -> Iterator[Materialize]:
    """A function that computes rows now and keeps them, as long as the block runs; what Spark counts is `observed`."""
    held: list[DataFrame] = []

    def materialize(rows: "DataFrame") -> "DataFrame":
        held.append(rows.localCheckpoint())
        observed.update(observed_in(rows))
        return held[-1]

    try:
        yield materialize
    finally:
        for rows in held:
            release(rows)
