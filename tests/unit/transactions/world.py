"""One shard of transactions in its runtime, with a log that commits and markers that are written on request.

The log is kept, so that a coordinator can be lost at any moment and another be loaded from what it left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.coordination.fakes import FakeLog
from tidelog.coordination import CoordinatorRuntime, Decision, ProducerEpoch
from tidelog.timing import ManualClock, Timer
from tidelog.transactions import MarkerOrder, Transaction, TransactionSettings, TransactionShard
from tidelog.transactions.transaction import EPOCH_BUMPS_FROM
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import PartitionKey

ID = "orders"
A: PartitionKey = ("a", 0)
B: PartitionKey = ("b", 1)
C: PartitionKey = ("c", 2)


class World:
    """A coordinator, the log under it and the partitions around it."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = FakeLog()
        self.log.commits_at_once = True
        self.orders: list[MarkerOrder] = []
        self.completed: list[Transaction] = []
        self.coordinator_epoch = 0
        self.next_producer_id = 1000
        self.level = 0
        """Of transaction.version."""
        self.runtime: CoordinatorRuntime[TransactionShard]
        self.load()

    def load(self) -> None:
        """Lose the coordinator, if there is one, and load another from the log."""
        self.orders.clear()
        self.timer = Timer(self.clock.monotonic_ms())
        self.runtime = CoordinatorRuntime(
            self._new_shard, self.log.append, self.log.await_commit, self.clock, self.timer
        )
        self.runtime.load(0, self.log.batches)

    def fail_over(self) -> None:
        """The same on another broker: it leads in a later epoch."""
        self.coordinator_epoch += 1
        self.load()

    def _new_shard(self, partition: int) -> TransactionShard:
        return TransactionShard(
            partition,
            self.coordinator_epoch,
            self.settings,
            self._new_producer_id,
            self.orders.append,
            self.completed.append,
            lambda: self.level,
        )

    def _new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    @property
    def shard(self) -> TransactionShard:
        return self.runtime.shard(0)

    def transaction(self, transactional_id: str = ID) -> Transaction:
        found = self.shard.get(transactional_id)
        assert found is not None
        return found

    def state(self, transactional_id: str = ID) -> str:
        return self.transaction(transactional_id).state.value

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timer.advance(self.clock.monotonic_ms())

    # --- requests ---

    def send(self, operation: Callable[[TransactionShard, int], Decision[Any]]) -> list[Any]:
        """Make a request; what is returned fills when the answer comes."""
        replies: list[Any] = []
        self.runtime.execute(0, operation, replies.append)
        return replies

    def ask(self, operation: Callable[[TransactionShard, int], Decision[Any]]) -> Any:
        """Make a request that is answered at once; an error is returned as its code."""
        (reply,) = self.send(operation)
        return reply.code if isinstance(reply, ApiError) else reply

    def init(
        self, transactional_id: str = ID, *, timeout_ms: int = 60_000, expected: ProducerEpoch | None = None
    ) -> Any:
        return self.ask(lambda shard, now_ms: shard.initialize(transactional_id, timeout_ms, expected, now_ms))

    def add(self, producer: ProducerEpoch, *partitions: PartitionKey, transactional_id: str = ID) -> Any:
        return self.ask(lambda shard, now_ms: shard.add_partitions(transactional_id, producer, partitions, now_ms))

    def end(self, producer: ProducerEpoch, is_commit: bool = True, *, transactional_id: str = ID) -> Any:
        """End it in the older protocol, in which the producer keeps its epoch."""
        reply = self.ask(lambda shard, now_ms: shard.end(transactional_id, producer, is_commit, now_ms))
        return ErrorCode.NONE if reply == producer else reply

    def end_and_bump(self, producer: ProducerEpoch, is_commit: bool = True) -> Any:
        """End it in version 2 of the protocol; the reply is what the producer goes on with."""
        return self.ask(lambda shard, now_ms: shard.end(ID, producer, is_commit, now_ms, EPOCH_BUMPS_FROM))

    def add_by_writing(self, producer: ProducerEpoch, *partitions: PartitionKey) -> Any:
        return self.ask(lambda shard, now_ms: shard.add_partitions(ID, producer, partitions, now_ms, EPOCH_BUMPS_FROM))

    # --- markers ---

    def take_order(self) -> MarkerOrder:
        (order,) = self.orders
        self.orders.clear()
        return order

    def report(self, order: MarkerOrder, partition: PartitionKey, code: ErrorCode = ErrorCode.NONE) -> None:
        self.runtime.execute(0, lambda shard, now_ms: shard.on_marker(order, partition, code, now_ms), None)

    def write_markers(self) -> None:
        """Let every marker that is ordered be written."""
        while self.orders:
            order = self.orders.pop(0)
            for partition in order.partitions:
                self.report(order, partition)

    def begun(self, *partitions: PartitionKey, timeout_ms: int = 60_000) -> ProducerEpoch:
        """A producer with an open transaction."""
        producer = self.init(timeout_ms=timeout_ms)
        assert isinstance(producer, ProducerEpoch)
        assert self.add(producer, *(partitions or (A,))) is ErrorCode.NONE
        return producer
