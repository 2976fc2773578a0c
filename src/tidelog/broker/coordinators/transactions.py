"""Transactions: the coordinator whose keys are transactional ids, in `__transaction_state`, and the markers it orders.

Requests take the way of every coordinator (`broker.coordinators.edge`). Markers that a shard orders are written here,
and what became of each is reported back.

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
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.broker.coordinators.edge import CoordinatorEdge, EdgeParts
from tidelog.broker.coordinators.replies import Eventual, Reply
from tidelog.broker.topology.internal_topics import TRANSACTIONS
from tidelog.metadata.features import TRANSACTION_VERSION
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey

if TYPE_CHECKING:
    from tidelog.broker.configuration.features import ClusterFeatures
    from tidelog.broker.coordinators.markers import MarkerWriter
    from tidelog.broker.topology.topology import Topology
    from tidelog.coordination import CoordinatorRuntime, Decision, ProducerEpoch
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

    def __init__(
        self,
        parts: EdgeParts,
        topology: Topology,
        markers: MarkerWriter,
        features: ClusterFeatures,
        reach: Callable[[str], None],
    ) -> None:
        """`reach` is called with the name of every place at which the crash tests end the process."""
        self.reach = reach
        self.edge = CoordinatorEdge(TRANSACTIONS, parts, self._new_runtime)
        self._parts = parts
        self._wake = parts.wake
        self._topology = topology
        self._markers = markers
        self._features = features
        self._held: dict[str, _Held | None] = {}
        """Transactions whose markers are under way, and the answers that wait for them."""
        self._is_stopped = False

    def _new_runtime(self, edge: CoordinatorEdge[TransactionShard]) -> CoordinatorRuntime[TransactionShard]:
        from tidelog.coordination import CoordinatorRuntime

        return CoordinatorRuntime(self._new_shard, edge.append, edge.await_commit, self._parts.clock, self._parts.timer)

    def _new_shard(self, partition: int) -> TransactionShard:
        from tidelog.transactions import TransactionSettings, TransactionShard

        config = self._parts.settings.config
        settings = TransactionSettings(
            id_expiration_ms=config.transactional_id_expiration_ms,
            abort_timed_out_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
        return TransactionShard(
            partition,
            self._parts.replica_manager.partition(TRANSACTIONS.name, partition).leader_epoch,
            settings,
            self._next_producer_id,
            self._send_markers,
            self._on_completed,
            lambda: self._features.level(TRANSACTION_VERSION),
        )

    def _next_producer_id(self) -> int:
        """InitProducerId waits until there is one; the end of a transaction, which seldom needs one, is retried."""
        producer_ids = self._topology.producer_ids
        if not producer_ids.has_id:
            producer_ids.prefetch()
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is there yet")
        return producer_ids.next_id()

    # --- requests ---

    def call(self, step: str, transactional_id: str, operation: Operation, shape: Callable[[Any], T]) -> Eventual[T]:
        """Decide `operation(shard, now_ms)` for a transactional id. `shape` makes the response of reply or ApiError."""
        reply = Reply(shape)
        reply.has_effect_pending = step == "end"  # readers see the outcome with the markers, not with the decision

        def respond(outcome: Any) -> None:
            self.reach(f"{step}-committed")
            if step == "end" and not isinstance(outcome, ApiError) and transactional_id in self._held:
                self._hold(transactional_id, lambda: reply(outcome))
            else:
                reply(outcome)

        try:
            _check(transactional_id)
        except ApiError as error:
            reply(error)
        else:
            self.edge.execute(transactional_id, operation, respond)
            if not reply.is_there:
                self.reach(f"{step}-staged")
        return reply.result()

    def verify(
        self,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        respond: Verified,
        *,
        adds: bool = False,
    ) -> None:
        """Ask the coordinator whether partitions are part of a transaction (KIP-890); `respond` gets a code for each.

        With `adds` they become part of it, if they are not. A coordinator on this broker answers at once, unless the
        commit of its records is awaited: a partition that the next coordinator might not know must not be written to.
        """
        from tidelog.coordination import Decision
        from tidelog.transactions.transaction import EPOCH_BUMPS_FROM

        def answer(outcome: dict[PartitionKey, ErrorCode] | ErrorCode | ApiError) -> None:
            code = outcome.code if isinstance(outcome, ApiError) else outcome
            respond(code if isinstance(code, dict) else dict.fromkeys(partitions, code))

        def operation(shard: TransactionShard, now_ms: int) -> Decision[Any]:
            if adds:
                return shard.add_partitions(transactional_id, producer, partitions, now_ms, EPOCH_BUMPS_FROM)
            return Decision(shard.verify(transactional_id, producer, partitions))

        try:
            self.shard_of(transactional_id)
        except ApiError as error:
            answer(error)
            return
        self.edge.execute(transactional_id, operation, answer)

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """The shard, for reading; raises ApiError if this broker does not have it."""
        _check(transactional_id)
        return self.edge.shard_of(transactional_id)

    # --- markers ---

    def _send_markers(self, order: MarkerOrder) -> None:
        """Write markers from the next turn of the loop on: the shard that orders them is in the middle of something."""
        self.reach("before-markers")
        self._held.setdefault(order.transactional_id, None)
        asyncio.get_running_loop().call_soon(self._write_markers, order, 0)

    def _write_markers(self, order: MarkerOrder, start: int) -> None:
        from tidelog.coordination import ProducerEpoch

        if self._is_stopped:
            return
        producer = ProducerEpoch(order.producer_id, order.producer_epoch)
        for partition in order.partitions[start : start + _MARKERS_AT_ONCE_MAX]:
            report = self._reporter(order, partition)
            if self._topology.settle_marker(order, partition, report):
                continue
            self._markers.write(*partition, producer, order.coordinator_epoch, order.is_commit, order.protocol, report)
            self.reach("marker-staged")
        following = start + _MARKERS_AT_ONCE_MAX
        if following < len(order.partitions):
            asyncio.get_running_loop().call_soon(self._write_markers, order, following)
        self._wake()  # timers of refused markers are seen to at the end of the turn

    def _reporter(self, order: MarkerOrder, partition: PartitionKey) -> Callable[[ErrorCode], None]:
        def report(code: ErrorCode) -> None:
            self.reach("marker-written")
            if partition == order.partitions[-1]:
                self.reach("before-completion")
            if code is not ErrorCode.NONE:
                self._release(order.transactional_id)  # it may take long now
            edge = self.edge
            edge.runtime.execute(
                edge.partition_of(order.transactional_id),
                lambda shard, now_ms: shard.on_marker(order, partition, code, now_ms),
                None,
            )

        return report

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

    def stop(self) -> None:
        """Complete every waiting request; decided transactions are completed after the next start."""
        self._is_stopped = True
        for transactional_id in list(self._held):
            self._release(transactional_id)
        self.edge.stop()


def _check(transactional_id: str) -> None:
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
