"""What Spark calls to write: `StreamWriter` for `df.writeStream`, `BatchWriter` for `df.write`, also in `foreachBatch`.

For each micro-batch of a stream Spark makes a new writer in the worker that plans it, pickles it to the tasks, and
makes yet another one in the worker that commits. A writer does not know which of these it is; but only the planned one
is pickled, so the transaction begins there. Of a DataFrame that is written once, the planned writer also commits.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.spark.options import OptionError, Options
from tidelog.spark.sentences import plainly
from tidelog.spark.sink.deliveries import Delivery, make_delivery
from tidelog.spark.sink.rows import check_columns
from tidelog.spark.sink.settings import read_batch_settings, read_stream_settings
from tidelog.spark.worker import settle


class _Writer:
    """What both have in common. It stands before Spark's class, whose `write` it provides."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    @plainly()
    def __getstate__(self) -> dict[str, Any]:
        """Called when the write is planned: twice for a stream."""
        self._delivery.begin()
        return self.__dict__

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        written = self._delivery.write(iterator)
        settle("write")
        return written


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """The writer of a stream."""

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """On the driver, when all tasks of a batch are done."""
        self._delivery.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """On the driver, when a task of a batch has failed."""
        del batchId
        self._delivery.abort(messages)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """The writer of a DataFrame."""

    @plainly()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        self._delivery.commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when a task has failed."""
        self._delivery.abort(messages)


def make_stream_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> StreamWriter:
    """The writer for `df.writeStream`. Complete mode comes as `overwrite` and adds rows as the others do."""
    del overwrite
    settings = read_stream_settings(Options(options)).for_tasks()
    return StreamWriter(make_delivery(settings, check_columns(schema, settings.topic)))


def make_batch_writer(schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> BatchWriter:
    """The writer for `df.write`. A topic cannot be overwritten."""
    if overwrite:
        raise OptionError("mode 'overwrite' is not possible: records are only added to a topic. Use mode('append')")
    settings = read_batch_settings(Options(options)).for_tasks()
    return BatchWriter(make_delivery(settings, check_columns(schema, settings.topic)))
