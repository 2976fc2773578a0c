"""`spark.read.format("tidelog").option("path", …)`: segment files read straight from disk, without a broker.

    files_options       which topics, from where to where
    files_layout        what lies in a log directory
    files_transactions  what read_committed may see of it
    files_plan          options → splits: a segment each, large segments cut at their offset index
    files_scan          batches of a file, in windows, checked
    files_decode        a split → Arrow batches

The driver plans, each task reads one split. A broker may be at work in the directory: what it appends after the plan
was made is not read, and its files are never written to. Everything in the files counts, also what lies above the high
watermark.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.source.columns import make_projection
from tidelog.spark.source.files_options import read_file_options

if TYPE_CHECKING:
    import pyarrow as pa


class SegmentFileReader(DataSourceReader):
    """Reads the files under `path`. Options are checked when it is made, files when it plans."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._options = read_file_options(options)
        self._projection = make_projection(schema)

    def partitions(self) -> list[InputPartition]:
        """A split for each segment, or more. Raises OptionError, or CorruptRecordError for damaged headers."""
        from tidelog.spark.source.files_plan import plan

        return list(plan(self._options))

    def read(self, partition: InputPartition | None) -> Iterator["pa.RecordBatch"]:
        """The records of one split, 10,000 a batch. Spark sends None where there is no split at all."""
        from tidelog.spark.source.files_decode import SegmentSplit, read_split

        if isinstance(partition, SegmentSplit):
            yield from read_split(partition, self._projection)
