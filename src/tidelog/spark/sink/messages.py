"""The reports of tasks to the driver about their part of a batch, and the checks before the commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from tidelog.client.types import TopicPartition
from tidelog.spark.sink.errors import SinkError, partition_taken
from tidelog.spark.sink.row_fingerprint import RowFingerprint, combined
from tidelog.spark.sink.transaction import OpenTransaction


class TaskFacts(NamedTuple):
    """What a task knows of itself. The last three are None outside of a stream."""

    partition_id: int
    attempt: int
    query_id: str | None
    batch_id: int | None
    run_id: str | None


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task has written its rows; `partitions` are those it wrote to, and how many rows each got."""

    task: TaskFacts
    transaction: OpenTransaction | None
    partitions: tuple[tuple[TopicPartition, int], ...] = ()
    rows: bytes | None = None
    """The rows themselves, as an Arrow stream, when it is the driver that writes them."""
    spilled: str | None = None
    """The file with these rows, where they are too many for a message."""
    fingerprint: RowFingerprint | None = None
    """What the rows are, where the offsets they were made of cannot be read from the checkpoint."""

    @property
    def row_count(self) -> int:
        """How many rows were written."""
        return sum(count for _, count in self.partitions)


def current_task() -> TaskFacts:
    """The task that runs in this worker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "write is called in tasks"
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return TaskFacts(
        context.partitionId(),
        context.attemptNumber(),
        context.getLocalProperty("sql.streaming.queryId"),
        None if batch_id is None else int(batch_id),
        context.getLocalProperty("spark.jobGroup.id"),
    )


def transaction_of(messages: Sequence[WriterCommitMessage | None]) -> OpenTransaction | None:
    """The transaction that tasks wrote in, if any of them reported it."""
    return next((each.transaction for each in messages if isinstance(each, Written)), None)


def fingerprint_of(parts: Sequence[Written]) -> RowFingerprint | None:
    """The fingerprint of a batch, from those of its parts; None if the tasks took none."""
    found = [part.fingerprint for part in parts if part.fingerprint is not None]
    return combined(found) if len(found) == len(parts) else None


def check_parts(messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> list[Written]:
    """The parts of a batch, in the order of tasks. Raises SinkError unless they can be committed together."""
    parts = [each for each in messages if isinstance(each, Written)]
    if len(parts) != len(messages):
        raise SinkError(f"{len(messages) - len(parts)} of {len(messages)} tasks did not report what they wrote")
    first = parts[0]
    for part in parts[1:]:
        if part.transaction != first.transaction or part.task.query_id != first.task.query_id:
            raise SinkError("one batch has tasks of different runs; start the query again")
    if batch_id is not None:
        _check_batch(first.task, batch_id)
    _check_disjoint(parts)
    return sorted(parts, key=lambda part: part.task.partition_id)


def _check_batch(task: TaskFacts, batch_id: int) -> None:
    if task.query_id is None or task.batch_id is None:
        raise SinkError(
            "Spark did not pass the query and batch ids to the tasks, so a repeated batch could not "
            "be recognised: set delivery=at-least-once"
        )
    if task.batch_id != batch_id:
        raise SinkError(f"tasks wrote batch {task.batch_id}, but Spark commits batch {batch_id}")


def _check_disjoint(parts: Sequence[Written]) -> None:
    owners: dict[TopicPartition, int] = {}
    for part in parts:
        for where, _ in part.partitions:
            owner = owners.setdefault(where, part.task.partition_id)
            if owner != part.task.partition_id:
                raise partition_taken(*where, f"the tasks {owner} and {part.task.partition_id}")
