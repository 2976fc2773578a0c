"""Rows of one key in order, over micro-batches: which parked rows a batch gets, and which of its rows wait again."""

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.client.cluster import Cluster
from tidelog.spark.pipeline.applying.chain import Materialize
from tidelog.spark.pipeline.definition.steps import RECORD
from tidelog.spark.pipeline.failing.ordering import VERDICT, Verdict
from tidelog.spark.pipeline.failing.own_topics import read_keys
from tidelog.spark.pipeline.failing.parked_rows import ParkedRows
from tidelog.spark.pipeline.failing.routing import Ladder
from tidelog.spark.pipeline.failing.settling import PLACE, OrderKeeper
from tidelog.spark.pipeline.running.columns import no_headers, route
from tidelog.spark.pipeline.running.parked_hint import ParkedTopicHint, hint_for
from tidelog.spark.pipeline.running.sinks import AGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.spark.pipeline.running.computing import Computation

_LEFT_OUT: Final = "_left_out"


class BatchOrder:
    """The order of one query's rows. Not shared between threads: batches run one by one."""

    def __init__(self, computation: "Computation", ladder: Ladder, keeper: OrderKeeper, hint: ParkedTopicHint) -> None:
        self._computation = computation
        self._ladder = ladder
        self._keeper = keeper
        self._hint = hint
        self._batch: DataFrame | None = None
        """The batch that is being computed, if any rows of its query wait."""
        self._note_due()

    def with_due(self, batch: "DataFrame", materialize: Materialize) -> "DataFrame":
        """A batch and the parked rows that are due with it."""
        self._batch = None
        if not self._keeper.is_any_waiting:
            return batch
        due = self._keeper.due_rows(batch.sparkSession)
        if due is not None:
            batch = batch.unionByName(self._computation.restored(due))
        # Read once: Spark counts the rows of a batch by how often it reads them.
        self._batch = materialize(batch)
        return self._batch

    def routed(self, results: "DataFrame", materialize: Materialize) -> "DataFrame":
        """What topics get of the results of a batch: with their age, and with the state of keys that changed."""
        kept = materialize(results).withColumn(_LEFT_OUT, F.lit(False))
        if self._batch is not None:
            kept = materialize(_with_left_out(kept, self._batch))
        decided, changed = self._keeper.decide(kept)
        may_go = F.col(VERDICT) == Verdict.EMIT.value
        goes_out = may_go & ~F.col(_LEFT_OUT)
        # Several rows may have come of one record; it waits once.
        leaves = ~may_go & (F.col(VERDICT) != Verdict.STAY.value)
        placed = decided.where(leaves).withColumns({name: F.col(f"{RECORD}.{name}") for name in PLACE})
        waiting = placed.dropDuplicates(list(PLACE)).drop(*PLACE)
        going = decided.where(goes_out).unionByName(waiting).drop(_LEFT_OUT)
        rows = route(going, self._ladder, self._computation.pipeline.name)
        rows = rows.withColumn(AGE, self._age()).drop(RECORD)
        if changed is None:
            return rows
        state = changed.select(
            "key",
            "value",
            no_headers().alias("headers"),
            F.lit(None).cast(rows.schema["partition"].dataType).alias("partition"),
        ).withColumn("topic", F.lit(self._ladder.keys_topic))
        return rows.unionByName(state, allowMissingColumns=True)

    def committed(self) -> None:
        """All sinks have the batch."""
        self._keeper.committed()
        self._note_due()

    def _note_due(self) -> None:
        self._hint.put(is_due=self._keeper.is_parked_due)

    def _age(self) -> Any:
        return F.struct(
            # Rows of one key are parked side by side, so that they can be read as one range.
            F.when(F.col("topic").isin(self._ladder.parked_topic), F.col(f"{RECORD}.key")),
            F.col(f"{RECORD}.sequence").isNull(),
            F.col(f"{RECORD}.sequence"),
            F.col(f"{RECORD}.read_topic"),
            F.col(f"{RECORD}.read_partition"),
            F.col(f"{RECORD}.read_offset"),
        )


def open_order(computation: "Computation", checkpoint: str) -> BatchOrder | None:
    """The order of a pipeline's rows; None if its policy does not keep it."""
    ladder, name = computation.ladder, computation.pipeline.name
    if ladder is None or ladder.parked_topic is None or ladder.keys_topic is None:
        return None
    keys_topic, connection = ladder.keys_topic, computation.connection

    def load() -> Any:
        with Cluster(connection.client()) as cluster:
            return read_keys(cluster, keys_topic, name)

    fails_on_loss = computation.source_option("failOnDataLoss", "true").lower() == "true"
    parked = ParkedRows(name, ladder.parked_topic, connection, fails_on_loss=fails_on_loss)
    return BatchOrder(computation, ladder, OrderKeeper(name, ladder, load, parked), hint_for(checkpoint))


def _with_left_out(evaluated: "DataFrame", batch: "DataFrame") -> "DataFrame":
    """`evaluated`, and with it the records that had waited and of which the steps now make no row.

    The next of their key would wait for them for ever.
    """

    def placed(rows: "DataFrame") -> "DataFrame":
        return rows.select(RECORD, *[F.col(f"{RECORD}.{name}").alias(name) for name in PLACE])

    waited = placed(batch.where(F.col(f"{RECORD}.sequence").isNotNull()))
    gone = waited.join(placed(evaluated).drop(RECORD), list(PLACE), "left_anti").select(RECORD)
    return evaluated.unionByName(gone.withColumn(_LEFT_OUT, F.lit(True)), allowMissingColumns=True)
