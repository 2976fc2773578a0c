"""The coordinator beside a naive model: producers come and go, partitions lose markers, coordinators die.

The model knows nothing of records, timers or markers. It has the rules of the protocol as one would tell them, and the
outcome of each transaction, which must be the same in every partition and must never change once it was acknowledged.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from tests.property.effort import examples
from tests.unit.transactions.world import World
from tidelog.coordination import ProducerEpoch
from tidelog.transactions import MarkerOrder, TransactionSettings
from tidelog.wire.errors import ErrorCode
from tidelog.wire.partitions import PartitionKey

IDS = ("x", "y")
PARTITIONS: tuple[PartitionKey, ...] = (("a", 0), ("a", 1), ("__consumer_offsets", 7))
TIMEOUT_MS = 25_000

ids = st.sampled_from(IDS)
partitions = st.sets(st.sampled_from(PARTITIONS), min_size=1)


class ModelTransaction:
    """One transaction, from its first partition on."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.partitions: set[PartitionKey] = set()
        self.outcome: bool | None = None
        self.markers: dict[PartitionKey, bool] = {}
        self.reported: set[PartitionKey] = set()

    @property
    def is_over(self) -> bool:
        """The coordinator of today has heard of every marker."""
        return self.outcome is not None and self.reported >= self.partitions


class ModelProducer:
    """Who has a transactional id."""

    def __init__(self, producer: ProducerEpoch) -> None:
        self.producer = producer
        self.earlier_epoch = -1
        self.transaction: ModelTransaction | None = None

    @property
    def is_open(self) -> bool:
        return self.transaction is not None and self.transaction.outcome is None

    @property
    def is_ending(self) -> bool:
        return self.transaction is not None and self.transaction.outcome is not None and not self.transaction.is_over

    def fence(self) -> None:
        """Abort what is open, under an epoch that no producer has."""
        assert self.transaction is not None
        self.transaction.outcome = False
        self.producer = self.producer._replace(producer_epoch=self.producer.producer_epoch + 1)
        self.earlier_epoch = -1


class TransactionMachine(RuleBasedStateMachine):
    producers = Bundle("producers")
    orders = Bundle("orders")

    @initialize()
    def start(self) -> None:
        self.world = World(TransactionSettings(abort_timed_out_interval_ms=10_000))
        self.model: dict[str, ModelProducer] = {}
        self.acknowledged: list[tuple[ModelTransaction, bool]] = []
        self.coordinator_epochs: dict[tuple[int, PartitionKey], int] = {}

    def _compare(self, found: Any, expected: Any) -> None:
        assert found == expected, (found, expected)

    # --- producers ---

    @rule(target=producers, name=ids)
    def a_new_producer_starts(self, name: str) -> Any:
        reply = self.world.init(name, timeout_ms=TIMEOUT_MS)
        known = self.model.get(name)
        if known is not None and (known.is_open or known.is_ending):
            if known.is_open:
                known.fence()
            self._compare(reply, ErrorCode.CONCURRENT_TRANSACTIONS)
            return multiple()
        if known is None:
            self.model[name] = known = ModelProducer(ProducerEpoch(self.world.next_producer_id, 0))
        else:
            known.producer = known.producer._replace(producer_epoch=known.producer.producer_epoch + 1)
            known.earlier_epoch = -1
            known.transaction = None
        self._compare(reply, known.producer)
        return name, known.producer

    @rule(target=producers, holder=producers)
    def a_producer_asks_for_its_next_epoch(self, holder: tuple[str, ProducerEpoch]) -> Any:
        name, mine = holder
        reply = self.world.init(name, timeout_ms=TIMEOUT_MS, expected=mine)
        known = self.model[name]
        if known.is_open or known.is_ending:
            if known.is_open:
                known.fence()
            self._compare(reply, ErrorCode.CONCURRENT_TRANSACTIONS)
            return multiple()
        if mine == known.producer:
            known.earlier_epoch = mine.producer_epoch
            known.producer = mine._replace(producer_epoch=mine.producer_epoch + 1)
            known.transaction = None
        elif mine.producer_epoch != known.earlier_epoch:
            self._compare(reply, ErrorCode.PRODUCER_FENCED)
            return multiple()
        else:
            known.transaction = None
        self._compare(reply, known.producer)
        return name, known.producer

    @rule(holder=producers, wanted=partitions)
    def a_producer_adds_partitions(self, holder: tuple[str, ProducerEpoch], wanted: set[PartitionKey]) -> None:
        name, mine = holder
        reply = self.world.add(mine, *wanted, transactional_id=name)
        known = self.model[name]
        if mine != known.producer:
            self._compare(reply, ErrorCode.PRODUCER_FENCED)
        elif known.is_ending:
            self._compare(reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._compare(reply, ErrorCode.NONE)
            if not known.is_open:
                known.transaction = ModelTransaction(self.world.clock.wall_ms())
            assert known.transaction is not None
            known.transaction.partitions |= wanted

    @rule(holder=producers, is_commit=st.booleans(), is_refused=st.booleans())
    def a_producer_ends_its_transaction(
        self, holder: tuple[str, ProducerEpoch], is_commit: bool, is_refused: bool
    ) -> None:
        name, mine = holder
        known = self.model[name]
        will_decide = mine == known.producer and known.is_open
        if is_refused and will_decide:
            self.world.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        reply = self.world.end(mine, is_commit, transactional_id=name)
        self.world.log.refusal = None
        if mine != known.producer:
            self._compare(reply, ErrorCode.PRODUCER_FENCED)
        elif will_decide and is_refused:
            self._compare(reply, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif will_decide:
            self._compare(reply, ErrorCode.NONE)
            assert known.transaction is not None
            known.transaction.outcome = is_commit
        elif known.transaction is None or known.transaction.outcome is not is_commit:
            self._compare(reply, ErrorCode.INVALID_TXN_STATE)
        else:
            self._compare(reply, ErrorCode.CONCURRENT_TRANSACTIONS if known.is_ending else ErrorCode.NONE)
        if reply is ErrorCode.NONE and known.transaction is not None:
            self.acknowledged.append((known.transaction, is_commit))

    # --- markers ---

    @rule(target=orders)
    def markers_leave(self) -> Any:
        taken = [(order, partition) for order in self.world.orders for partition in order.partitions]
        self.world.orders.clear()
        return multiple(*taken)

    @rule(sent=consumes(orders), is_written=st.booleans())
    def a_marker_arrives(self, sent: tuple[MarkerOrder, PartitionKey], is_written: bool) -> None:
        order, partition = sent
        code = self._mark(order, partition) if is_written else ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.world.report(order, partition, code)

    def _mark(self, order: MarkerOrder, partition: PartitionKey) -> ErrorCode:
        """A partition takes a marker, unless it has one of a later coordinator: that would be from the past."""
        where = order.producer_id, partition
        if order.coordinator_epoch < self.coordinator_epochs.get(where, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.coordinator_epochs[where] = order.coordinator_epoch
        transaction = self.model[order.transactional_id].transaction
        if transaction is not None and partition in transaction.partitions and not transaction.is_over:
            assert transaction.outcome is order.is_commit, "a marker for what is still open, or the wrong one"
            transaction.markers[partition] = order.is_commit
            if order.coordinator_epoch == self.world.coordinator_epoch:
                transaction.reported.add(partition)
        return ErrorCode.NONE

    # --- accidents and time ---

    @rule()
    def the_coordinator_moves(self) -> None:
        self.world.fail_over()
        for known in self.model.values():
            known.earlier_epoch = -1  # it is not in the log
            if known.is_ending and known.transaction is not None:
                known.transaction.reported.clear()

    @rule(by_ms=st.integers(1, 30_000))
    def time_passes(self, by_ms: int) -> None:
        """Step by step, as the broker's timer is advanced; the model cares only that late transactions end."""
        for _ in range(0, by_ms, 1_000):
            self.world.advance(min(1_000, by_ms))
        now_ms = self.world.clock.wall_ms()
        for name, known in self.model.items():
            transaction = known.transaction
            if known.is_open and transaction is not None and self.world.state(name) == "PrepareAbort":
                assert transaction.began_ms + TIMEOUT_MS < now_ms, "aborted before its time"
                known.fence()
            elif known.is_open and transaction is not None:
                assert now_ms - transaction.began_ms <= TIMEOUT_MS + 11_000, "left open after its time"

    # --- what always holds ---

    @invariant()
    def states_agree(self) -> None:
        for name, known in getattr(self, "model", {}).items():
            found = self.world.transaction(name)
            assert found.producer == known.producer
            if known.is_open:
                assert known.transaction is not None
                assert (found.state.value, found.partitions) == ("Ongoing", known.transaction.partitions)
            elif known.is_ending:
                assert known.transaction is not None
                assert found.state.value == ("PrepareCommit" if known.transaction.outcome else "PrepareAbort")

    @invariant()
    def what_was_acknowledged_is_what_happens(self) -> None:
        for transaction, is_commit in getattr(self, "acknowledged", ()):
            assert transaction.outcome is is_commit
            assert set(transaction.markers.values()) <= {is_commit}

    def teardown(self) -> None:
        """Left alone, every decided transaction ends everywhere."""
        if not hasattr(self, "world"):
            return
        self.the_coordinator_moves()
        for _ in range(5):
            while self.world.orders:
                order = self.world.orders.pop(0)
                for partition in order.partitions:
                    self.world.report(order, partition, self._mark(order, partition))
            self.world.advance(1_000)
        for name, known in self.model.items():
            assert not known.is_ending
            assert not self.world.transaction(name).state.is_prepared


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(deadline=None, max_examples=examples(80), stateful_step_count=40)
