"""`spark.readStream.format("tidelog")`: Spark's names for what `stream_plan` decides and `task_reader` does.

Spark keeps one of these in a process beside the driver for the whole life of a query, and pickles others, which never
speak to the cluster, into the tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.spark.options import OptionError
from tidelog.spark.sentences import plainly
from tidelog.spark.source.cluster_view import ClusterView, View
from tidelog.spark.source.columns import make_projection
from tidelog.spark.source.data_loss import LOG
from tidelog.spark.source.group_offsets import GroupOffsets
from tidelog.spark.source.offsets import from_json
from tidelog.spark.source.record_sizes import sample_bytes_per_offset
from tidelog.spark.source.settings import load_stream_settings
from tidelog.spark.source.stream_plan import StreamPlan
from tidelog.spark.source.task_reader import RangePartition, read_partition


class _Driver:
    """What exists beside the driver only."""

    def __init__(self, reader: "StreamReader") -> None:
        settings = reader._settings
        for note in settings.notes:
            LOG.warning("%s", note)
        view = ClusterView(settings)
        planned = reader._view_for_planning(view)
        self.plan = StreamPlan(settings, planned, lambda starts: sample_bytes_per_offset(view.cluster, starts))
        group_id = settings.commit_group_id
        self.group = None if group_id is None else GroupOffsets(lambda: view.cluster, group_id)
        self.view = view


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as a stream."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._projection = make_projection(schema)
        self._settings = load_stream_settings(options)
        self._driver: _Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Connections stay here, and so does what a task must not know."""
        return {**self.__dict__, "_driver": None, "_settings": self._settings.for_tasks()}

    def _view_for_planning(self, view: ClusterView) -> View:
        """The plan's view of the cluster; a subclass may hide records."""
        return view

    @property
    def _here(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(self)
        return self._driver

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        return self._here.plan.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit that Spark hands back to `latestOffset`. It can carry but one; all of them are in the settings."""
        limits = self._settings.admission
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next micro-batch."""
        return self._here.plan.latest(start, is_unlimited=isinstance(limit, ReadAllAvailable))

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix where this run ends."""
        self._here.plan.freeze()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """How far the topics reach; lag is reckoned from it."""
        return self._here.plan.report()

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task for each range of offsets."""
        ranges = self._here.plan.ranges(start, end)
        security = self._settings.task.client.task_security() if ranges else ()
        return [RangePartition(each, security) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_partition(partition, self._settings.task, self._projection)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark is done with everything before `end`."""
        group = self._here.group
        if group is not None:
            group.commit(from_json(end))

    def stop(self) -> None:
        """Close the connections. Spark may end the process without calling this."""
        if self._driver is not None:
            self._driver.view.close()
            self._driver = None


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream with invalid options. It raises the error at the first call.

    If the constructor raised it, Spark would replace it by an error about a missing reader.
    """

    def __init__(self, refusal: OptionError) -> None:
        self._refusal = refusal

    @plainly()
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Asked for first, with every trigger but one."""
        raise self._refusal

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Asked for first with Trigger.AvailableNow."""
        raise self._refusal

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Of a new query."""
        raise self._refusal

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Of a query that goes on."""
        del start, limit
        raise self._refusal

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Of a query that repeats a batch."""
        del start, end
        raise self._refusal

    @plainly()
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Never comes so far."""
        del partition
        raise self._refusal
