"""The sink without Spark: batches are planned, written by tasks and committed as Spark would do it, in one process."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from tidelog.spark.sink import deliveries
from tidelog.spark.sink.messages import TaskFacts
from tidelog.spark.sink.writers import StreamWriter, make_batch_writer, make_stream_writer

KINDS: dict[str, DataType] = {
    "key": StringType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
}


def rows_of(**columns: Sequence[Any]) -> pa.RecordBatch:
    """A batch of rows, as Spark hands it to a task."""
    kinds = {"key": pa.string(), "value": pa.binary(), "topic": pa.string(), "partition": pa.int32()}
    arrays = [pa.array(values, kinds[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


class Query:
    """A query with a checkpoint. A new object on the same checkpoint is the same query after a restart."""

    def __init__(
        self,
        servers: str,
        topic: str | None,
        *,
        checkpoint: str,
        query_id: str | None = None,
        run_id: str = "run-1",
        columns: Sequence[str] = ("value",),
        **options: str,
    ) -> None:
        self.query_id = query_id or f"query-of-{checkpoint}"
        self.run_id = run_id
        self._schema = StructType([StructField(name, KINDS[name]) for name in columns])
        self._options = {"kafka.bootstrap.servers": servers, "checkpointlocation": checkpoint}
        if topic is not None:
            self._options["topic"] = topic
        self._options.update({name.replace("__", ".").lower(): value for name, value in options.items()})

    def writer(self) -> StreamWriter:
        """As Spark makes them, one to plan and another to commit."""
        return make_stream_writer(self._schema, self._options, overwrite=False)

    def plan(self) -> bytes:
        """The pickled writer that tasks get; the transaction is open then."""
        planned = self.writer()
        pickle.dumps(planned)
        return pickle.dumps(planned)

    def write(
        self, planned: bytes, batch_id: int, tasks: Sequence[pa.RecordBatch], *, attempt: int = 0
    ) -> list[WriterCommitMessage | None]:
        """Run the tasks, one after the other."""
        return [self.run_task(planned, batch_id, index, rows, attempt=attempt) for index, rows in enumerate(tasks)]

    def run_task(
        self, planned: bytes, batch_id: int, index: int, rows: pa.RecordBatch, *, attempt: int = 0
    ) -> WriterCommitMessage:
        """Run one task."""
        with task_is(TaskFacts(index, attempt, self.query_id, batch_id, self.run_id)):
            message = pickle.loads(planned).write(iter([rows]))
        result: WriterCommitMessage = pickle.loads(pickle.dumps(message))
        return result

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit by a writer that knows nothing but the messages."""
        self.writer().commit(list(messages), batch_id)

    def run(self, batch_id: int, tasks: Sequence[pa.RecordBatch]) -> None:
        """A whole batch."""
        self.commit(self.write(self.plan(), batch_id, tasks), batch_id)


def write_batch(servers: str, topic: str, tasks: Sequence[pa.RecordBatch], **options: str) -> Any:
    """A batch write up to its commit: the writer, and the messages."""
    schema = StructType([StructField(name, KINDS[name]) for name in tasks[0].schema.names])
    given = {"kafka.bootstrap.servers": servers, "topic": topic, **options}
    planned = pickle.dumps(make_batch_writer(schema, given, overwrite=False))
    messages = []
    for index, rows in enumerate(tasks):
        with task_is(TaskFacts(index, 0, None, None, None)):
            messages.append(pickle.loads(planned).write(iter([rows])))
    return pickle.loads(planned), messages


@contextmanager
def task_is(facts: TaskFacts) -> Iterator[None]:
    """Let the sink believe that it runs in this task."""
    with patch.object(deliveries, "current_task", lambda: facts):
        yield
