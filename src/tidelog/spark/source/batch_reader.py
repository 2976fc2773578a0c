"""`spark.read.format("tidelog")`: offsets fixed when the query is planned, then read by its tasks.

Created by Spark for each query, in a process of the driver; `read` is pickled to the executors.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError
from tidelog.spark.sentences import plainly
from tidelog.spark.source.cluster_view import ClusterView, View
from tidelog.spark.source.columns import make_projection
from tidelog.spark.source.data_loss import LOG
from tidelog.spark.source.offsets import Offsets
from tidelog.spark.source.ranges import OffsetRange, split_ranges
from tidelog.spark.source.resolve import check_found, ending_offsets, starting_offsets
from tidelog.spark.source.settings import SourceSettings, load_batch_settings
from tidelog.spark.source.task_reader import RangePartition, read_partition


class BatchReader(DataSourceReader):
    """Reads what there is, between two limits."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._projection = make_projection(schema)
        self._settings = load_batch_settings(options)

    def __getstate__(self) -> dict[str, Any]:
        """Without what a task must not know."""
        return {**self.__dict__, "_settings": self._settings.for_tasks()}

    @plainly()
    def partitions(self) -> Sequence[InputPartition]:
        """One task for each range of offsets."""
        for note in self._settings.notes:
            LOG.warning("%s", note)
        view = ClusterView(self._settings)
        try:
            ranges = plan_batch(self._settings, view)
            security = self._settings.task.client.task_security()
            return [RangePartition(each, security) for each in ranges]
        finally:
            view.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return read_partition(partition, self._settings.task, self._projection)


def plan_batch(settings: SourceSettings, view: View) -> list[OffsetRange]:
    """The ranges of a batch query."""
    partitions = view.partitions()
    check_found(view)
    starts = starting_offsets(settings, view, partitions)
    ends = ending_offsets(settings, view, partitions)
    ranges = [_range(each, starts, ends) for each in partitions if each in starts and each in ends]
    return split_ranges(ranges, settings.min_partitions, settings.max_records_per_partition)


def _range(where: TopicPartition, starts: Offsets, ends: Offsets) -> OffsetRange:
    if ends[where] < starts[where]:
        raise OptionError(
            f"{where} would be read from offset {starts[where]} to {ends[where]}: the end is before the start"
        )
    return OffsetRange(*where, starts[where], ends[where])
