"""The three delivery guarantees of the sink. A delivery is pickled to the tasks when a write is planned.

    ExactlyOnce    one transaction a batch, filled by tasks, ended by the driver
    AtLeastOnce    tasks write as they come, as Spark's own connector does
    SmallOutput    tasks send their rows to the driver, which writes them in one transaction, wherever they belong

The docstring of the package explains the first one.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.spark.sink.clients import PRODUCERS, producer_of
from tidelog.spark.sink.errors import SinkError, attempt_refused, partition_taken
from tidelog.spark.sink.gathering import (
    encode_batches,
    gather,
    has_gathered,
    open_gathered,
    remove_gathered,
    spill,
    spill_directory,
)
from tidelog.spark.sink.messages import TaskFacts, Written, check_parts, current_task, fingerprint_of, transaction_of
from tidelog.spark.sink.participant import TransactionParticipant
from tidelog.spark.sink.row_fingerprint import RowFingerprint, combined
from tidelog.spark.sink.settings import AT_LEAST_ONCE, EXACTLY_ONCE, SinkSettings
from tidelog.spark.sink.task import RowWriter, WrittenRows, fingerprint_batch
from tidelog.spark.sink.transaction import OpenTransaction

Messages = Sequence[WriterCommitMessage | None]

_ANYWHERE: Final = 1 << 16


class Delivery(Protocol):
    """What the two kinds of writers ask for."""

    def begin(self) -> None:
        """On the driver, when the write is planned; may be called again."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """In a task."""

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """On the driver, when all tasks are done. `batch_id` is None for a batch write."""

    def abort(self, messages: Messages) -> None:
        """On the driver, when a task has failed."""


def make_delivery(settings: SinkSettings, columns: Sequence[str]) -> Delivery:
    """The delivery for the option `delivery`."""
    if settings.delivery == EXACTLY_ONCE:
        return ExactlyOnce(settings, columns)
    if settings.delivery == AT_LEAST_ONCE:
        return AtLeastOnce(settings, columns)
    return SmallOutput(settings, columns)


class ExactlyOnce:
    """One transaction a batch. The planned object knows it; the one that commits a stream learns it from messages.

    Rows with a column `partition` were placed, by `place_rows` or by the user: tasks write them, and those without key,
    which are free to go elsewhere. All others may belong to the partitions of other tasks: the driver writes them.
    """

    def __init__(self, settings: SinkSettings, columns: Sequence[str]) -> None:
        self._settings = settings
        self._columns = columns
        self._gathers = "key" in columns and "partition" not in columns
        self._transaction: OpenTransaction | None = None
        self._takes_fingerprints = False

    def begin(self) -> None:
        """Open the transaction, once."""
        if self._transaction is None:
            self._takes_fingerprints = not self._settings.can_read_plans()
            self._transaction = TransactionParticipant(self._settings).begin()

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write rows in the transaction. When that fails, the whole batch has failed, and is aborted at once."""
        assert self._transaction is not None, "the write was planned"
        task = _task(self._settings)
        participant = TransactionParticipant(self._settings, self._transaction)
        with participant.explaining(is_task=True):
            # Only batches of queries are compared with what was committed before.
            takes_fingerprint = self._takes_fingerprints and task.query_id is not None
            if self._gathers:
                taken = gather(batches, self._columns)
                directory = spill_directory(self._settings, task)
                if taken.is_all or directory is not None:
                    rows, spilled, fingerprint = spill(
                        taken, directory, self._settings.topic, takes_fingerprint=takes_fingerprint
                    )
                    return Written(task, self._transaction, (), rows, spilled, fingerprint)
                batches = taken.all_batches()
            if task.attempt > 0:
                raise attempt_refused(task.attempt, task.partition_id)
            written = self._write(participant, task, batches, takes_fingerprint=takes_fingerprint)
            return Written(task, self._transaction, written.partitions, fingerprint=written.fingerprint)

    def _write(
        self,
        participant: TransactionParticipant,
        task: TaskFacts,
        batches: Iterator[pa.RecordBatch],
        *,
        takes_fingerprint: bool,
    ) -> WrittenRows:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return WrittenRows((), RowFingerprint() if takes_fingerprint else None)
        handle = participant.transaction.handle

        def claim(partitions: set[TopicPartition]) -> None:
            # Two tasks at the same time are found out by the driver. This finds an earlier attempt that Spark does not
            # count as one, because it belonged to an earlier attempt of the stage.
            taken = sorted(participant.cluster.partitions_in_transaction(handle) & partitions)
            if taken:
                raise partition_taken(*taken[0], "another task, or by an earlier attempt of this one")
            participant.cluster.add_to_transaction(handle, partitions)

        producer = producer_of(self._settings, handle)
        with _dropping(producer):
            writer = RowWriter(
                self._settings,
                self._columns,
                producer,
                # All tasks of a batch see the same epoch, and the next batch another one.
                spread=task.partition_id + handle.producer_epoch,
                claim=claim,
                takes_fingerprint=takes_fingerprint,
            )
            return writer.write(_again(first, batches))

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """End the transaction, with the number of the batch in it, unless that was committed before."""
        transaction = self._transaction or transaction_of(messages)
        if transaction is None:
            raise SinkError("no task has reported the transaction that it wrote in")
        participant = TransactionParticipant(self._settings, transaction)
        with participant.explaining():
            parts = check_parts(messages, batch_id)
            written = {where for part in parts for where, _ in part.partitions}
            participant.check_open(written)
            task, fingerprint = parts[0].task, fingerprint_of(parts)
            if participant.is_committed(task, fingerprint):
                participant.undo(has_rows=bool(written))
            else:
                gathered = [part for part in parts if has_gathered(part)]
                if gathered:
                    self._write_gathered(participant, gathered, written)
                participant.seal(task, has_rows=bool(written or gathered), rows=fingerprint)
        remove_gathered(self._settings, parts)

    def _write_gathered(
        self, participant: TransactionParticipant, parts: Sequence[Written], taken: set[TopicPartition]
    ) -> None:
        """Write what tasks left to the driver, beside the partitions `taken` that other tasks have written to."""
        handle = participant.transaction.handle

        def claim(partitions: set[TopicPartition]) -> None:
            if partitions & taken:
                raise partition_taken(*min(partitions & taken), "a task with many rows, and by another with few")
            participant.cluster.add_to_transaction(handle, partitions)

        producer = producer_of(self._settings, handle)
        with _dropping(producer):
            writer = RowWriter(self._settings, self._columns, producer, spread=handle.producer_epoch, claim=claim)
            writer.write(batch for part in parts for batch in open_gathered(part))

    def abort(self, messages: Messages) -> None:
        """Abort the transaction. Raises nothing, so that the original error is shown."""
        transaction = self._transaction or transaction_of(messages)
        if transaction is not None:
            with suppress(Exception):
                TransactionParticipant(self._settings, transaction).give_up()
        remove_gathered(self._settings, [each for each in messages if isinstance(each, Written)])


class SmallOutput:
    """The driver writes. Tasks may be repeated: their rows are used once."""

    def __init__(self, settings: SinkSettings, columns: Sequence[str]) -> None:
        self._settings = settings
        self._columns = columns
        self._takes_fingerprints = False

    def begin(self) -> None:
        """The transaction begins when the driver has all rows."""
        self._takes_fingerprints = not self._settings.can_read_plans()

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Collect the rows."""
        kept = [batch.select(list(self._columns)) for batch in batches if batch.num_rows]
        fingerprint = None
        if self._takes_fingerprints:
            fingerprint = combined(fingerprint_batch(batch, self._settings.topic) for batch in kept)
        rows = encode_batches(kept)
        return Written(_task(self._settings), None, rows=rows, fingerprint=fingerprint)

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """Write all rows and the number of the batch in one transaction, unless that was done before."""
        parts = check_parts(messages, batch_id)
        task = parts[0].task
        participant = TransactionParticipant(self._settings)
        participant.begin()
        with participant.explaining():
            fingerprint = fingerprint_of(parts)
            if participant.is_committed(task, fingerprint):
                return
            rows = [part.rows for part in parts if part.rows is not None]
            if rows:
                self._write(participant, rows)
            participant.seal(task, has_rows=bool(rows), rows=fingerprint)

    def _write(self, participant: TransactionParticipant, rows: Sequence[bytes]) -> None:
        handle = participant.transaction.handle
        producer = producer_of(self._settings, handle)
        with _dropping(producer):
            RowWriter(
                self._settings,
                self._columns,
                producer,
                spread=handle.producer_epoch,
                claim=lambda partitions: participant.cluster.add_to_transaction(handle, partitions),
            ).write(batch for each in rows for batch in pa.ipc.open_stream(each))

    def abort(self, messages: Messages) -> None:
        """Nothing was written."""


class AtLeastOnce:
    """Tasks write as they come; a task that runs again writes again."""

    def __init__(self, settings: SinkSettings, columns: Sequence[str]) -> None:
        self._settings = settings
        self._columns = columns

    def begin(self) -> None:
        """There is nothing to begin."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write rows, and return when all are stored."""
        producer = producer_of(self._settings, None)
        with _dropping(producer):
            writer = RowWriter(self._settings, self._columns, producer, spread=random.randrange(_ANYWHERE))
            return Written(current_task(), None, writer.write(batches).partitions)

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        """All is stored already."""

    def abort(self, messages: Messages) -> None:
        """What is stored stays."""


class _dropping:  # noqa: N801 - used as a statement
    """`with _dropping(producer)`: it is not used again if the block fails, for it may still have rows to send."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            PRODUCERS.drop(self._producer)


def _task(settings: SinkSettings) -> TaskFacts:
    """The current task. Jobs of Spark Connect do not belong to a query: the options name it and the batch there."""
    task = current_task()
    if settings.batch_number is None:
        return task
    return task._replace(query_id=settings.transactional_id, batch_id=settings.batch_number)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
