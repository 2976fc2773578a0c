"""One micro-batch of a pipeline with a failure policy: evaluate, decide about each row, write all at once.

`running` hands `BatchEngine.process` to Spark's `foreachBatch`. Pipelines whose steps need nothing set aside do without
(`running` builds one plan of expressions for them); this is for the others: functions of DataFrames after steps that
can fail, and order by key.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.internals import release
from tidelog.spark.pipeline.definition.chain import Applied, run_steps
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.failing.guarded import ERROR_TYPE
from tidelog.spark.pipeline.failing.ordering import Verdict
from tidelog.spark.pipeline.failing.parked_hint import ParkedTopicHint
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.spark.pipeline.failing.settling import PLACE, OrderKeeper
from tidelog.spark.pipeline.running.columns import OUTPUT_COLUMNS, VERDICT, output_rows, route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG: Final = logging.getLogger("tidelog.pipeline")
_LEFT_OUT: Final = "_left_out"

WriteRows = Callable[["DataFrame", int], None]
OpenTables = Callable[["SparkSession"], Mapping[str, "DataFrame"]]
"""Tables are opened for each batch, in its own session."""


class BatchFailed(Exception):  # noqa: N818 - reads as what it says
    """A micro-batch failed; the message says why."""


@contextmanager
def short_errors() -> Iterator[None]:
    """Spark takes what `foreachBatch` raises apart with a regular expression that overflows on long texts."""
    try:
        yield
    except Exception as error:
        LOG.error("a batch failed", exc_info=error)
        raise BatchFailed(in_a_sentence(error)) from None


class BatchEngine:
    """Processes each micro-batch. `write` writes rows of the sink's columns to their topics, all or none."""

    def __init__(
        self,
        pipeline: Pipeline,
        ladder: Ladder,
        open_tables: OpenTables,
        write: WriteRows,
        order: OrderKeeper | None = None,
        hint: ParkedTopicHint | None = None,
        restore_parked: Callable[["DataFrame"], "DataFrame"] = lambda rows: rows,
    ) -> None:
        self._pipeline = pipeline
        self._ladder = ladder
        self._open_tables = open_tables
        self._write = write
        self._order = order
        self._hint = hint
        self._restore_parked = restore_parked

    def process(self, batch: "DataFrame", batch_id: int) -> None:
        """Process one micro-batch. Raises BatchFailed."""
        with short_errors():
            self._process(batch, batch_id)

    def _process(self, batch: "DataFrame", batch_id: int) -> None:
        held: list[DataFrame] = []

        def materialize(rows: "DataFrame") -> "DataFrame":
            held.append(rows.localCheckpoint())
            return held[-1]

        try:
            tables = self._open_tables(batch.sparkSession)
            if self._order is None:
                evaluated = evaluate(self._pipeline, batch, tables, materialize)
                self._write(route(evaluated, self._ladder, self._pipeline.name).drop(RECORD), batch_id)
            else:
                waits = self._order.is_any_waiting
                due = self._order.due_rows(batch.sparkSession) if waits else None
                if due is not None:
                    batch = batch.unionByName(self._restore_parked(due))
                if waits:
                    # Read once: Spark counts the rows of a batch by how often it reads them.
                    batch = materialize(batch)
                evaluated = evaluate(self._pipeline, batch, tables, materialize)
                kept = materialize(evaluated).withColumn(_LEFT_OUT, F.lit(False))
                if waits:
                    kept = materialize(_with_left_out(kept, batch))
                self._write(self._in_order(kept, self._order), batch_id)
        finally:
            for rows in held:
                release(rows)
        if self._order is not None:
            self._order.committed()
            if self._hint is not None:
                self._hint.put(is_due=self._order.is_parked_due)

    def _in_order(self, evaluated: "DataFrame", order: OrderKeeper) -> "DataFrame":
        decided, changed = order.decide(evaluated)
        may_go = F.col(VERDICT) == Verdict.EMIT.value
        goes_out = may_go & ~F.col(_LEFT_OUT)
        # Several rows may have come of one record; it waits once.
        leaves = ~may_go & (F.col(VERDICT) != Verdict.STAY.value)
        placed = decided.where(leaves).withColumns({name: F.col(f"{RECORD}.{name}") for name in PLACE})
        waiting = placed.dropDuplicates(list(PLACE)).drop(*PLACE)
        routed = route(decided.where(goes_out).unionByName(waiting).drop(_LEFT_OUT), self._ladder, self._pipeline.name)
        age = F.struct(
            # Rows of one key are parked side by side, so that they can be read as one range.
            F.when(F.col("topic").isin(self._ladder.parked_topic), F.col(f"{RECORD}.key")),
            F.col(f"{RECORD}.sequence").isNull(),
            F.col(f"{RECORD}.sequence"),
            F.col(f"{RECORD}.read_topic"),
            F.col(f"{RECORD}.read_partition"),
            F.col(f"{RECORD}.read_offset"),
        )
        rows = routed.withColumn("age", age).drop(RECORD)
        if changed is None:
            return rows
        state = changed.select(
            "key",
            "value",
            *[F.lit(None).cast(rows.schema[name].dataType).alias(name) for name in ("headers", "partition")],
        ).withColumn("topic", F.lit(self._ladder.keys_topic))
        return rows.unionByName(state, allowMissingColumns=True)


def _with_left_out(evaluated: "DataFrame", batch: "DataFrame") -> "DataFrame":
    """`evaluated`, and with it the records that had waited and of which the steps now make no row.

    The next of their key would wait for them for ever.
    """

    def placed(rows: "DataFrame") -> "DataFrame":
        return rows.select(RECORD, *[F.col(f"{RECORD}.{name}").alias(name) for name in PLACE])

    waited = placed(batch.where(F.col(f"{RECORD}.sequence").isNotNull()))
    gone = waited.join(placed(evaluated).drop(RECORD), list(PLACE), "left_anti").select(RECORD)
    return evaluated.unionByName(gone.withColumn(_LEFT_OUT, F.lit(True)), allowMissingColumns=True)


def evaluate(
    pipeline: Pipeline,
    rows: "DataFrame",
    tables: Mapping[str, "DataFrame"],
    materialize: Callable[["DataFrame"], "DataFrame"],
) -> "DataFrame":
    """`rows` after all steps: the sink's columns, `_record`, and `_error` where one failed."""
    applied = run_steps(pipeline.steps, rows, tables, materialize)
    _check_kept(pipeline, applied)
    result = applied.rows
    if ERROR not in result.columns:
        result = result.withColumn(ERROR, F.lit(None).cast(ERROR_TYPE))
    if RECORD not in result.columns:
        result = result.withColumn(RECORD, F.lit(None).cast(rows.schema[RECORD].dataType))
    evaluated = output_rows(result, topic_sinks(pipeline)).select(*OUTPUT_COLUMNS, RECORD, ERROR)
    for failed in applied.set_aside:
        evaluated = evaluated.unionByName(failed, allowMissingColumns=True)
    return evaluated


def _check_kept(pipeline: Pipeline, applied: Applied) -> None:
    keeps_order = getattr(pipeline.on_failure, "keep_order_by_key", False)
    if RECORD not in applied.rows.columns and (keeps_order or ERROR in applied.rows.columns):
        why = "to keep rows in order" if keeps_order else "to retry failed rows"
        raise PipelineError(f"the steps drop the column {RECORD!r}, which is needed {why}: select it too")
