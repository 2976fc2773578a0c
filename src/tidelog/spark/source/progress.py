"""Progress of a streaming query: rates, lag and state size, from Spark's report after each micro-batch.

    listener = ProgressListener()
    spark.streams.addListener(listener)
    ...
    listener.latest("enrich").lag_records

Spark calls the listener in a thread of its own; every method may be called from any other. Lag is what the source knew
to be there when the batch was planned and had not read by its end: the records of `latestOffset` after `endOffset`.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

HISTORY_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One micro-batch of one query."""

    name: str
    """The query's name; its id if it has none."""
    batch_id: int
    input_rows: int
    input_rows_per_second: float
    processed_rows_per_second: float
    lag_records: int | None
    """None if no source says how much there is."""
    batch_ms: int
    state_rows: int
    state_bytes: int
    timestamp_ms: int
    """When the batch was triggered."""
    late_rows: int = 0
    """Rows (of an aggregate: groups) that Spark dropped because they were behind the watermark."""
    observed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What `DataFrame.observe` has counted, by name and column."""


class ProgressListener(StreamingQueryListener):
    """Keeps the last micro-batches of every query of a session.

    `on_progress` is called for each, in Spark's thread: it should be quick, and what it raises is lost in Spark's log.
    """

    def __init__(
        self, on_progress: Callable[[QueryProgress], None] | None = None, *, history_max: int = HISTORY_MAX
    ) -> None:
        self._on_progress = on_progress
        self._history_max = history_max
        self._lock = Lock()
        self._by_id: dict[str, deque[QueryProgress]] = {}
        self._ids: dict[str, str] = {}
        self._errors: dict[str, str] = {}

    def latest(self, query: str) -> QueryProgress | None:
        """The last micro-batch of a query, by name or id; None before the first."""
        kept = self.history(query)
        return kept[-1] if kept else None

    def history(self, query: str) -> tuple[QueryProgress, ...]:
        """The micro-batches of a query that are kept, oldest first."""
        with self._lock:
            return tuple(self._by_id.get(self._ids.get(query, query), ()))

    def error(self, query: str) -> str | None:
        """What a query ended with, if it failed."""
        with self._lock:
            return self._errors.get(self._ids.get(query, query))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """A query has begun, perhaps once more: a name stands for the one that came last."""
        query_id = str(event.id)
        with self._lock:
            self._errors.pop(query_id, None)
            if event.name:
                self._ids[event.name] = query_id

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A micro-batch is done."""
        report = json.loads(event.progress.json)
        progress = read_progress(report)
        query_id = str(report["id"])
        with self._lock:
            self._by_id.setdefault(query_id, deque(maxlen=self._history_max)).append(progress)
            if report.get("name"):
                self._ids[report["name"]] = query_id
        if self._on_progress is not None:
            self._on_progress(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to do: the last micro-batch stays the latest."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """A query has ended; its history stays."""
        if event.exception is not None:
            with self._lock:
                self._errors[str(event.id)] = event.exception


def read_progress(report: Mapping[str, Any]) -> QueryProgress:
    """What Spark's progress JSON says. Whatever it lacks counts as nothing."""
    durations = report.get("durationMs") or {}
    operators = report.get("stateOperators") or ()
    return QueryProgress(
        name=str(report.get("name") or report.get("id")),
        batch_id=int(report.get("batchId") or 0),
        input_rows=int(report.get("numInputRows") or 0),
        input_rows_per_second=_rate(report.get("inputRowsPerSecond")),
        processed_rows_per_second=_rate(report.get("processedRowsPerSecond")),
        lag_records=lag_of(report.get("sources") or ()),
        batch_ms=int(report.get("batchDuration") or durations.get("triggerExecution") or 0),
        state_rows=sum(int(each.get("numRowsTotal") or 0) for each in operators),
        state_bytes=sum(int(each.get("memoryUsedBytes") or 0) for each in operators),
        timestamp_ms=_milliseconds(report.get("timestamp")),
        late_rows=sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators),
        observed=report.get("observedMetrics") or {},
    )


def lag_of(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Unread records of all sources that report them; None if none does."""
    lag = None
    for source in sources:
        latest = partition_offsets(source.get("latestOffset"))
        if latest is None:
            continue
        reached = partition_offsets(source.get("endOffset")) or {}
        lag = (lag or 0) + sum(max(0, offset - reached.get(where, 0)) for where, offset in latest.items())
    return lag


def partition_offsets(offset: object) -> dict[tuple[str, int], int] | None:
    """The numbers in `{"topic": {"0": 23}}`, given as text or parsed; None if it is nothing of the kind.

    Other entries are ignored: the first offset of a query also holds its start.
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if not isinstance(offset, Mapping):
        return None
    return {
        (str(topic), int(partition)): number
        for topic, numbers in offset.items()
        if isinstance(numbers, Mapping)
        for partition, number in numbers.items()
        if str(partition).isdecimal() and isinstance(number, int)
    }


def _rate(number: object) -> float:
    """Spark leaves rates out where there is no time to divide by, or writes them as NaN or Infinity."""
    rate = float(number) if isinstance(number, int | float) else 0.0
    return rate if 0.0 <= rate < float("inf") else 0.0


def _milliseconds(timestamp: object) -> int:
    if not isinstance(timestamp, str):
        return 0
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
