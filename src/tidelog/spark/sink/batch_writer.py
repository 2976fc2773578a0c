"""What Spark calls for `df.write`, also within `foreachBatch`: the planned writer is also the one that commits."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.spark.options import OptionError, Options
from tidelog.spark.sentences import plainly
from tidelog.spark.sink.deliveries import Delivery, make_delivery
from tidelog.spark.sink.rows import check_columns
from tidelog.spark.sink.settings import read_batch_settings
from tidelog.spark.worker import settle


class BatchWriter(DataSourceArrowWriter):
    """The writer of a DataFrame."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    @plainly()
    def __getstate__(self) -> dict[str, Any]:
        """Called when the write is planned."""
        self._delivery.begin()
        return self.__dict__

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        written = self._delivery.write(iterator)
        settle("write")
        return written

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        self._delivery.commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when a task has failed."""
        self._delivery.abort(messages)


def make_batch_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> BatchWriter:
    """The writer for `df.write`. A topic cannot be overwritten."""
    if overwrite:
        raise OptionError("mode 'overwrite' is not possible: records are only added to a topic. Use mode('append')")
    settings = read_batch_settings(Options(options)).for_tasks()
    return BatchWriter(make_delivery(settings, check_columns(schema, settings.topic)))
