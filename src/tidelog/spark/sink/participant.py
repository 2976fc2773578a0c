"""One part in the transaction of a batch, as driver or task: how it begins, what it must hold, how it ends."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Final

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.client.types import TopicPartition
from tidelog.spark.sink.checkpoint import has_lost_commits
from tidelog.spark.sink.clients import cluster_of, new_cluster, producer_of
from tidelog.spark.sink.committed_batches import CommittedBatch, CommittedBatches
from tidelog.spark.sink.errors import (
    PartitionTaken,
    SinkError,
    checkpoint_is_another,
    explained,
    rows_are_others,
    state_is_lost,
)
from tidelog.spark.sink.messages import TaskFacts
from tidelog.spark.sink.row_fingerprint import RowFingerprint
from tidelog.spark.sink.settings import SinkSettings
from tidelog.spark.sink.transaction import OpenTransaction, begin, longest_timeout_ms
from tidelog.wire.errors import ApiError

_GIVE_UP_MS: Final = 5000


class TransactionParticipant:
    """Takes part in one transaction."""

    def __init__(self, settings: SinkSettings, transaction: OpenTransaction | None = None) -> None:
        self._settings = settings
        self._kafka = settings.producer_settings()
        self._transaction = transaction
        self._known_batches: CommittedBatches | None = None
        self._transactional_id = (
            transaction.handle.transactional_id
            if transaction is not None
            else settings.transactional_id or f"tidelog-sink-{uuid.uuid4().hex}"
        )

    @property
    def cluster(self) -> Cluster:
        """The cluster, reached at the first use."""
        return cluster_of(self._settings)

    @property
    def transaction(self) -> OpenTransaction:
        """The transaction, which was begun."""
        assert self._transaction is not None
        return self._transaction

    def begin(self) -> OpenTransaction:
        """Open it."""
        timeout_ms = self._kafka.transaction_timeout_ms
        try:
            timeout_ms = self._timeout_ms()
            self._transaction = begin(self.cluster, self._transactional_id, timeout_ms)
        except (ApiError, ClientError) as error:
            raise explained(error, self._transactional_id, timeout_ms, 0) from error
        return self._transaction

    def _timeout_ms(self) -> int:
        """How long the transaction may stay open: as long as the brokers allow, unless the options say otherwise."""
        if self._settings.has_timeout:
            return self._kafka.transaction_timeout_ms
        return longest_timeout_ms(self.cluster, self._settings.bootstrap_servers, self._kafka.transaction_timeout_ms)

    @contextmanager
    def explaining(self, *, is_task: bool = False) -> Iterator[None]:
        """An error in this block ends the transaction, and is raised in terms of Spark."""
        try:
            yield
        except Exception as error:
            if is_task and isinstance(error, PartitionTaken):
                # Raised first, ended then: what ends the transaction makes the other tasks fail, and the error that
                # Spark shows would be theirs, which does not name the cause.
                Thread(target=_fence_quietly, args=(self._settings, self.transaction), daemon=True).start()
                raise
            open_ms = self.transaction.open_ms()
            with suppress(Exception):
                self.give_up()
            raise explained(error, self._transactional_id, self.transaction.timeout_ms, open_ms) from error

    def give_up(self) -> None:
        """Abort the transaction and fence its tasks.

        With a short timeout: the error must be shown soon, and the next run aborts the transaction anyway.
        """
        patience_ms = min(self._kafka.max_block_ms, _GIVE_UP_MS)
        handle, timeout_ms, _ = self.transaction
        self.cluster.fence_transaction(handle, timeout_ms, max_block_ms=patience_ms)

    def check_open(self, written: set[TopicPartition]) -> None:
        """Raise unless everything that tasks wrote is in the open transaction.

        A task that fails aborts it. If Spark runs only that task again, the rows of all others are gone.
        """
        missing = written - self.cluster.partitions_in_transaction(self.transaction.handle) if written else None
        if missing:
            raise SinkError(
                f"the transaction of this batch was aborted while tasks wrote in it: {min(missing)} and others are not "
                "in it any more. The next start of the query repeats the batch"
            )

    def is_committed(self, task: TaskFacts, rows: RowFingerprint | None = None) -> bool:
        """Whether the batch of `task` was committed before. `rows` is what the batch has now."""
        batches = self._committed_batches(task)
        if batches is None or task.batch_id is None:
            return False
        last = batches.last_batch(self.transaction.timeout_ms)
        if last is None and has_lost_commits(self._settings.checkpoint, task.batch_id):
            raise state_is_lost(task.batch_id, self._settings.state_topic)
        if last is None or last.batch_id < task.batch_id:
            return False
        self._check_same(last, task.batch_id, task.run_id, rows)
        return True

    def _check_same(self, last: CommittedBatch, batch_id: int, run_id: str | None, rows: RowFingerprint | None) -> None:
        """Raise unless `last` is the current batch. Skipping another batch would lose its rows."""
        if last.batch_id > batch_id:
            raise checkpoint_is_another(batch_id, last.batch_id, self._settings.state_topic)
        if last.run_id is not None and last.run_id == run_id:
            raise SinkError(
                f"batch {batch_id} was already written in this run: if one foreachBatch function writes more "
                "than once to a topic, give each write its own transactionalId"
            )
        plan = self._settings.batch_plan(batch_id)
        if last.plan is not None and plan is not None:
            if last.plan != plan:
                raise checkpoint_is_another(batch_id, batch_id, self._settings.state_topic)
            return
        if last.transactional_id not in (None, self._transactional_id):
            raise checkpoint_is_another(batch_id, batch_id, self._settings.state_topic)
        if self._settings.skips_repeated or last.rows is None or rows is None:
            return
        if last.rows != str(rows):
            raise rows_are_others(batch_id, last.rows, str(rows), self._settings.state_topic)

    def undo(self, *, has_rows: bool) -> None:
        """Abort: the batch was committed before."""
        if has_rows:
            self.cluster.end_transaction(self.transaction.handle, is_commit=False)

    def seal(self, task: TaskFacts, *, has_rows: bool, rows: RowFingerprint | None = None) -> None:
        """Commit, with the number of the batch in the transaction."""
        handle = self.transaction.handle
        batches = self._committed_batches(task)
        if batches is not None and task.batch_id is not None:
            self.cluster.add_to_transaction(handle, [batches.where])
            plan = self._settings.batch_plan(task.batch_id)
            fingerprint = None if rows is None else str(rows)
            batch = CommittedBatch(task.batch_id, task.run_id, handle.transactional_id, plan, fingerprint)
            batches.add(producer_of(self._settings, handle), batch)
        elif not has_rows:
            return
        self.cluster.end_transaction(handle, is_commit=True)

    def _committed_batches(self, task: TaskFacts) -> CommittedBatches | None:
        """What the query that `task` belongs to has committed; None for a batch write outside of any."""
        if task.query_id is None:
            return None
        if self._known_batches is None:
            name = self._settings.sink_name
            self._known_batches = CommittedBatches(
                self.cluster,
                self._settings.bootstrap_servers,
                self._settings.state_topic,
                f"{task.query_id}/{name}" if name else task.query_id,
            )
        return self._known_batches


def _fence_quietly(settings: SinkSettings, transaction: OpenTransaction) -> None:
    """In a thread, with connections of its own."""
    with suppress(Exception), new_cluster(settings) as cluster:
        cluster.fence_transaction(transaction.handle, transaction.timeout_ms, max_block_ms=_GIVE_UP_MS)
