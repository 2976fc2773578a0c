"""Order by key, batch by batch: evaluated rows in, rows with a verdict out, and the state of blocked keys beside them.

All rows are evaluated before anything is decided, also those that turn out to have to wait; that costs a computation
and nothing else, since steps only compute. The decisions are made on the driver by `ordering.settle`, from the keys,
places and failures of rows in trouble; values stay where they are.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidelog.spark.pipeline.definition.steps import ERROR, RECORD
from tidelog.spark.pipeline.failing.ordering import (
    SEQUENCE,
    VERDICT,
    Seen,
    Settled,
    Verdict,
    Waiting,
    any_head_parked,
    apply_changes,
    key_of,
    settle,
    skip_heads,
)
from tidelog.spark.pipeline.failing.parked_rows import ParkedRows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tidelog.spark.pipeline.failing.routing import Ladder

LOG: Final = logging.getLogger("tidelog.pipeline")

PLACE: Final = ("read_topic", "read_partition", "read_offset")
_VERDICTS: Final = pa.schema(
    {
        "read_topic": pa.string(),
        "read_partition": pa.int32(),
        "read_offset": pa.int64(),
        VERDICT: pa.string(),
        SEQUENCE: pa.int64(),
    }
)

LoadKeys = Callable[[], tuple[dict[bytes, Waiting], list[str]]]


class OrderKeeper:
    """Keeps the blocked keys of one query. Not shared between threads: batches run one after another."""

    def __init__(self, pipeline: str, ladder: "Ladder", load: LoadKeys, parked: ParkedRows | None = None) -> None:
        self._pipeline = pipeline
        self._ladder = ladder
        self._load = load
        self._parked = parked
        self._keys: dict[bytes, Waiting] | None = None
        self._is_first = True
        self._next: dict[bytes, Waiting] = {}
        self._changed: list[bytes] = []
        self._gone: set[bytes] = set()

    def due_rows(self, spark: "SparkSession") -> "DataFrame | None":
        """The parked rows that are due, as they are in their topic."""
        if self._parked is None:
            return None
        rows, self._gone = self._parked.due(spark, self._known_keys())
        return rows

    def decide(self, rows: "DataFrame") -> tuple["DataFrame", "DataFrame | None"]:
        """`rows` with a verdict each, and the changes to the topic of blocked keys, if there are any."""
        skipped = skip_heads(self._known_keys(), self._gone)
        keys = apply_changes(self._known_keys(), skipped)
        seen = self._rows_in_trouble(rows, keys)
        settled, changes = settle(seen, keys)
        changes = {**skipped, **changes}
        self._next = apply_changes(keys, changes)
        self._changed = list(changes)
        spark = rows.sparkSession
        values = [None if each is None else each.encode() for each in changes.values()]
        names = [key_of(self._pipeline, key) for key in changes]
        changed = pa.table({"key": pa.array(names, pa.binary()), "value": pa.array(values, pa.binary())})
        return _with_verdicts(rows, settled), spark.createDataFrame(changed) if changes else None

    def committed(self) -> None:
        """The batch is in its topics.

        The first batch of a run may have been there before, from a run that died after its commit: then it was not
        written again, and what is in the topic counts, not what was decided now.
        """
        changed = None if self._is_first else self._changed
        self._keys = None if self._is_first else self._next
        self._is_first = False
        if self._parked is not None:
            self._parked.settled(self._known_keys(), changed)

    @property
    def is_any_waiting(self) -> bool:
        """Whether a key has rows that wait."""
        return bool(self._known_keys())

    @property
    def is_parked_due(self) -> bool:
        """Whether the parked topic has a row whose turn it is."""
        return any_head_parked(self._known_keys())

    def _known_keys(self) -> dict[bytes, Waiting]:
        if self._keys is None:
            self._keys, warnings = self._load()
            for warning in warnings:
                LOG.warning("%s", warning)
        return self._keys

    def _rows_in_trouble(self, rows: "DataFrame", keys: dict[bytes, Waiting]) -> list[Seen]:
        """Rows that failed or have waited, and all rows of their keys and of blocked keys."""
        key = F.col(f"{RECORD}.key")
        waited = F.col(f"{RECORD}.sequence").isNotNull()
        troubled = rows.where((F.col(ERROR).isNotNull() | waited) & key.isNotNull()).select(key.alias("key")).distinct()
        found = {bytes(row["key"]) for row in troubled.collect()} | keys.keys()
        if not found:
            return []
        wanted = rows.sparkSession.createDataFrame(pa.table({"key": pa.array(found, pa.binary())}))
        facts = rows.select(
            key.alias("key"),
            *[F.col(f"{RECORD}.{name}").alias(name) for name in PLACE],
            F.col(f"{RECORD}.sequence").alias("sequence"),
            F.col(ERROR).isNotNull().alias("has_failed"),
            self._is_dead().alias("is_dead"),
        )
        of_keys = facts.join(F.broadcast(wanted), "key", "left_semi")
        # Several rows may come of one record: it fails if one of them does.
        by_record = of_keys.groupBy("key", *PLACE, "sequence").agg(
            F.max("has_failed").alias("has_failed"), F.max("is_dead").alias("is_dead")
        )
        return [
            Seen(
                bytes(row["key"]),
                (row["read_topic"], row["read_partition"], row["read_offset"]),
                row["sequence"],
                row["has_failed"],
                row["is_dead"],
                row["read_topic"] == self._ladder.parked_topic,
            )
            for row in by_record.collect()
        ]

    def _is_dead(self) -> "Column":
        last = F.col(f"{RECORD}.attempts") + 1 >= self._ladder.attempts_max
        return F.col(ERROR).isNotNull() & (last | ~F.coalesce(F.col(f"{ERROR}.retry"), F.lit(True)))


def _with_verdicts(rows: "DataFrame", settled: dict[tuple[str, int, int], Settled]) -> "DataFrame":
    """A row that was not in trouble goes out; one without a key fails on its own."""
    alone = F.when(F.col(ERROR).isNull(), Verdict.EMIT.value).otherwise(Verdict.RETRY.value)
    if not settled:
        return rows.withColumns({VERDICT: alone, SEQUENCE: F.lit(None).cast("long")})
    verdict_rows = [(*place, each.verdict.value, each.sequence) for place, each in settled.items()]
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*verdict_rows, strict=True), _VERDICTS, strict=True)
    ]
    verdicts = rows.sparkSession.createDataFrame(pa.Table.from_arrays(columns, schema=_VERDICTS))
    placed = rows.withColumns({name: F.col(f"{RECORD}.{name}") for name in PLACE})
    joined = placed.join(F.broadcast(verdicts), list(PLACE), "left")
    return joined.withColumn(VERDICT, F.coalesce(F.col(VERDICT), alone)).drop(*PLACE)
