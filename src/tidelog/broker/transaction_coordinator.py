"""The transaction coordinator's edge: between handlers, the cores of `transactions` and `coordination`, and the logs.

Handlers call it with an operation for a transactional id; it finds the shard, lets the runtime decide, and gives the
reply now or as a future. Markers that a shard orders are written here, and what became of each is reported back. The
cores are imported at their first use: a broker without transactions starts sooner.

EndTxn could be answered when the outcome is committed to the log. Its answer is held back for a moment, until the
markers are written, too: a producer that began its next transaction before would get CONCURRENT_TRANSACTIONS, and
clients wait for 20 ms and more before they retry.

Places where a crash can be asked for (see `reach`), `STEP` being init, partitions, end or offsets:

    STEP-staged        the request is decided, its records are not written
    STEP-committed     they are committed, the response is not sent
    before-markers     the outcome is committed, no marker is written
    marker-staged      a marker is decided and not written
    marker-written     a marker is written; with more than one partition, the others may not be
    before-completion  every marker is written, the coordinator's log does not have it
    complete           the completion is committed
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.broker.coordinators import Reply, ShardLoader
from tidelog.broker.internal_topics import internal_overrides
from tidelog.metadata.image import TRANSACTIONS_TOPIC
from tidelog.timing import Timer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.coordination import CoordinatorRuntime, Decision, ProducerEpoch
    from tidelog.replication.partition import Partition
    from tidelog.transactions import MarkerOrder, Transaction, TransactionShard

_MARKERS_AT_ONCE_MAX: Final = 500
"""So many markers are staged before other work gets its turn."""
_COMPLETION_WAIT_S: Final = 0.05
"""How long the answer to EndTxn waits for the markers, which nearly always takes less than a millisecond."""

T = TypeVar("T")
Operation = Callable[["TransactionShard", int], "Decision[Any]"]
Verified = Callable[[dict["PartitionKey", ErrorCode]], None]


class _Held(NamedTuple):
    """An answer that waits for the completion, and its deadline."""

    answer: Callable[[], None]
    timer: asyncio.TimerHandle


class TransactionCoordinator:
    """The transactional ids whose partitions of `__transaction_state` this broker leads."""

    def __init__(self, node: Node, timer: Timer, reach: Callable[[str], None]) -> None:
        """`reach` is called with the name of every place at which the crash tests end the process."""
        self.reach = reach
        self._node = node
        self._timer = timer
        self._built: tuple[CoordinatorRuntime[TransactionShard], ShardLoader] | None = None
        self._held: dict[str, _Held | None] = {}
        """Transactions whose markers are under way, and the answers that wait for them."""
        self._is_stopped = False

    @property
    def runtime(self) -> CoordinatorRuntime[TransactionShard]:
        return self._parts()[0]

    def _parts(self) -> tuple[CoordinatorRuntime[TransactionShard], ShardLoader]:
        """Runtime and loader, made at their first use."""
        if self._built is None:
            from tidelog.coordination import CoordinatorRuntime

            runtime = CoordinatorRuntime(
                self._new_shard, self._append, self._await_commit, self._node.clock, self._timer
            )
            buffer_bytes = self._node.config.transaction_state_log_load_buffer_size
            self._built = runtime, ShardLoader(self._node, runtime, buffer_bytes)
        return self._built

    def _new_shard(self, partition: int) -> TransactionShard:
        from tidelog.transactions import TransactionSettings, TransactionShard

        config = self._node.config
        settings = TransactionSettings(
            id_expiration_ms=config.transactional_id_expiration_ms,
            abort_timed_out_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
        return TransactionShard(
            partition,
            self._node.replica_manager.partition(TRANSACTIONS_TOPIC, partition).leader_epoch,
            settings,
            self._node.producer_ids.next_id,
            self._send_markers,
            self._on_completed,
        )

    def _append(self, partition: int, batch: bytearray, on_committed: Callable[[ErrorCode, int], None]) -> int:
        return self._node.replica_manager.append(TRANSACTIONS_TOPIC, partition, batch, on_committed)

    def _await_commit(self, partition: int, on_committed: Callable[[ErrorCode, int], None]) -> None:
        self._node.replica_manager.await_commit(TRANSACTIONS_TOPIC, partition, on_committed)

    # --- where transactional ids are ---

    def partition_of(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that keeps a transactional id."""
        from tidelog.coordination import partition_for

        topic = self._node.image.topic(TRANSACTIONS_TOPIC)
        count = self._node.config.transaction_state_log_num_partitions if topic is None else len(topic.partitions)
        return partition_for(transactional_id, count)

    async def create_topic(self) -> None:
        """Make `__transaction_state`, at its first use. Raises ApiError."""
        config = self._node.config
        factor = min(config.transaction_state_log_replication_factor, len(self._node.image.broker_ids()))
        await self._node.topic_changes.create_internal(
            TRANSACTIONS_TOPIC,
            config.transaction_state_log_num_partitions,
            factor,
            internal_overrides(TRANSACTIONS_TOPIC, config, factor),
        )

    def find(self, transactional_id: str) -> int:
        """The id of the broker that coordinates a transactional id. Raises ApiError, also while there is no topic."""
        topic = self._node.image.topic(TRANSACTIONS_TOPIC)
        if topic is None or self._is_stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not available")
        leader_id = topic.partitions[self.partition_of(transactional_id)].leader_id
        if leader_id < 0:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {transactional_id} has no leader")
        return leader_id

    # --- requests ---

    def call(self, step: str, transactional_id: str, operation: Operation, shape: Callable[[Any], T]) -> T:
        """Decide `operation(shard, now_ms)` for a transactional id. `shape` makes the response of reply or ApiError.

        Returns the response, or a future of it (which the annotation leaves out, as handlers return either).
        """
        reply = Reply(shape)
        reply.has_effect_pending = step == "end"  # readers see the outcome with the markers, not with the decision
        if self._is_stopped:
            reply(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is shutting down"))
        elif not transactional_id:
            reply(ApiError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty"))
        else:

            def respond(outcome: Any) -> None:
                self.reach(f"{step}-committed")
                if step == "end" and outcome is ErrorCode.NONE and transactional_id in self._held:
                    self._hold(transactional_id, lambda: reply(outcome))
                else:
                    reply(outcome)

            self.runtime.execute(self.partition_of(transactional_id), operation, respond)
            if not reply.is_there:
                self.reach(f"{step}-staged")
        result: T = reply.result()
        return result

    def verify(
        self,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        respond: Verified,
    ) -> None:
        """Ask the coordinator whether partitions are part of a transaction (KIP-890); `respond` gets a code for each.

        A coordinator on this broker answers at once, unless the commit of its records is awaited: a partition that
        the next coordinator might not know must not be written to.
        """
        from tidelog.coordination import Decision

        def answer(outcome: dict[PartitionKey, ErrorCode] | ApiError) -> None:
            respond(dict.fromkeys(partitions, outcome.code) if isinstance(outcome, ApiError) else outcome)

        try:
            self.shard_of(transactional_id)
        except ApiError as error:
            answer(error)
            return
        self.runtime.execute(
            self.partition_of(transactional_id),
            lambda shard, _now_ms: Decision(shard.verify(transactional_id, producer, partitions)),
            answer,
        )

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """The shard, for reading; raises ApiError if this broker does not have it."""
        if self._is_stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is shutting down")
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
        return self.runtime.shard(self.partition_of(transactional_id))

    def shards(self) -> Iterator[TransactionShard]:
        """All that are loaded."""
        for partition in [] if self._built is None else self.runtime.active_partitions():
            yield self.runtime.shard(partition)

    @property
    def has_loads(self) -> bool:
        return self._built is not None and bool(self.runtime.loading_partitions())

    # --- markers ---

    def _send_markers(self, order: MarkerOrder) -> None:
        """Write markers from the next turn of the loop on: the shard that orders them is in the middle of something."""
        self.reach("before-markers")
        self._held.setdefault(order.transactional_id, None)
        asyncio.get_running_loop().call_soon(self._write_markers, order, 0)

    def _write_markers(self, order: MarkerOrder, start: int) -> None:
        from tidelog.broker.transaction_markers import write_marker
        from tidelog.coordination import ProducerEpoch

        if self._is_stopped:
            return
        producer = ProducerEpoch(order.producer_id, order.producer_epoch)
        for partition in order.partitions[start : start + _MARKERS_AT_ONCE_MAX]:
            report = self._reporter(order, partition)
            if self._is_settled_otherwise(order, partition, report):
                continue
            write_marker(self._node, *partition, producer, order.coordinator_epoch, order.is_commit, report)
            self.reach("marker-staged")
        following = start + _MARKERS_AT_ONCE_MAX
        if following < len(order.partitions):
            asyncio.get_running_loop().call_soon(self._write_markers, order, following)
        self._node.socket_server.wake()  # timers of refused markers are seen to at the end of the turn

    def _reporter(self, order: MarkerOrder, partition: PartitionKey) -> Callable[[ErrorCode], None]:
        def report(code: ErrorCode) -> None:
            self.reach("marker-written")
            if partition == order.partitions[-1]:
                self.reach("before-completion")
            if code is not ErrorCode.NONE:
                self._release(order.transactional_id)  # it may take long now
            self.runtime.execute(
                self.partition_of(order.transactional_id),
                lambda shard, now_ms: shard.on_marker(order, partition, code, now_ms),
                None,
            )

        return report

    def _is_settled_otherwise(
        self, order: MarkerOrder, partition: PartitionKey, report: Callable[[ErrorCode], None]
    ) -> bool:
        """Whether this broker does not write a marker itself: another one leads the partition, or it may be deleted."""
        member, hosted = self._node.member, self._node.image.partition(*partition)
        if member is None:
            if hosted is None:
                report(ErrorCode.NONE)  # deleted: it has no readers
            return hosted is None
        if hosted is None:
            member.transactions.look_up(partition, report)
            return True
        if hosted.leader_id < 0 or hosted.leader_id == self._node.broker_id:
            return False  # without a leader the partition itself says that it is not led here
        member.transactions.write_marker(hosted.leader_id, order, partition, report)
        return True

    def _on_completed(self, transaction: Transaction) -> None:
        self.reach("complete")
        self._release(transaction.transactional_id)

    # --- answers that are held back ---

    def _hold(self, transactional_id: str, answer: Callable[[], None]) -> None:
        """Answer when the transaction is complete, when a marker is refused, or when it takes too long."""
        self._release(transactional_id)
        timer = asyncio.get_running_loop().call_later(_COMPLETION_WAIT_S, self._release, transactional_id)
        self._held[transactional_id] = _Held(answer, timer)

    def _release(self, transactional_id: str) -> None:
        held = self._held.pop(transactional_id, None)
        if held is not None:
            held.timer.cancel()
            held.answer()

    # --- coming and going ---

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition from now on; if it is one of ours, its transactional ids are loaded."""
        if partition.topic == TRANSACTIONS_TOPIC:
            self._parts()[1].load(partition)

    def resign(self, topic: str, index: int) -> None:
        """This broker does not lead a partition any more; if it is one of ours, its transactional ids are unloaded."""
        if topic == TRANSACTIONS_TOPIC and self._built is not None:
            self.runtime.unload(index)

    def stop(self) -> None:
        """Complete every waiting request; decided transactions are completed after the next start."""
        self._is_stopped = True
        for transactional_id in list(self._held):
            self._release(transactional_id)
        if self._built is not None:
            runtime, loader = self._built
            loader.stop()
            runtime.unload_all()
