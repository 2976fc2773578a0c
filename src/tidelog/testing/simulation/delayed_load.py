"""Producers of delayed records beside the clients of a simulation: plain, idempotent and transactional ones.

Most records are due within seconds, so that brokers fail, leaders change and clocks jump while they wait. The history
of the clients has them like any other record, but for the offset, which the producer cannot know. Some are due in an
hour: those must wait until the end and never be read. Everything random comes from a stream of its own, which leaves
the other clients' as it was.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from tidelog.client import AsyncProducer
from tidelog.replication.partition import Partition
from tidelog.testing.simulation.delayed_state import DELAYED_TOPIC
from tidelog.testing.simulation.history import Outcome, Reader, Transaction, Verdict
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.testing.simulation.simulation import Simulation
from tidelog.testing.simulation.workload import PARTITIONS, Life, Workload

EXPECTED_DELAYED_WORK: Final = (
    "delayed records acknowledged",
    "delayed records that wait for an hour",
    "transactions with delayed records aborted",
    "transactions with delayed records committed",
)
"""What these clients do in every run of many seeds."""

_TRANSACTIONAL: Final = {"transactional.id": "tx-delayed", "transaction.timeout.ms": 10_000}
_DELAY_MS_MAX: Final = 3_000
_FAR_MS: Final = 3_600_000


class _Far:
    """A record that is due after the end, and the transaction that it is in."""

    def __init__(self, value: bytes, transaction: Transaction | None, *, is_idempotent: bool) -> None:
        self.value = value
        self.transaction = transaction
        self.is_idempotent = is_idempotent
        self.is_acknowledged = False

    @property
    def verdict(self) -> Verdict:
        if self.transaction is not None:
            return self.transaction.verdict
        return Verdict.COMMITTED if self.is_acknowledged else Verdict.OPEN


class DelayedLoad:
    """The producers, and what must wait at the end."""

    def __init__(
        self, workload: Workload, chance: random.Random, wall_ms: Callable[[], int], *, is_compacted: bool
    ) -> None:
        """Without a key of its own a duplicate would be compacted away: `is_compacted` leaves out what makes some."""
        self._workload = workload
        self._is_compacted = is_compacted
        self._random = chance
        self._wall_ms = wall_ms
        self._far: list[_Far] = []

    def lives(self) -> Iterator[Life]:
        yield lambda: self._produce("delayed plain", idempotent=self._is_compacted)
        yield lambda: self._produce("delayed idempotent", idempotent=True)
        yield self._transact
        yield lambda: self._workload.read_all("delayed-reader", DELAYED_TOPIC, "read_committed")

    async def _produce(self, name: str, *, idempotent: bool) -> None:
        settings = self._workload.producer_settings | {"acks": "all", "enable.idempotence": idempotent}
        async with AsyncProducer(settings) as producer:
            while not self._workload.is_stopping:
                for _ in range(self._random.randrange(1, 4)):
                    await self._send(producer, name, idempotent=idempotent)
                await asyncio.sleep(self._random.uniform(0.2, 2.0))

    async def _transact(self) -> None:
        settings = self._workload.producer_settings | _TRANSACTIONAL
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            while not self._workload.is_stopping:
                transaction = Transaction()
                await producer.begin()
                for _ in range(self._random.randrange(1, 4)):
                    await self._send(producer, "delayed transactional", transaction=transaction)
                if self._random.random() < 0.25:
                    await producer.abort()
                    transaction.verdict = Verdict.ABORTED
                    self._workload.count("transactions with delayed records aborted")
                else:
                    await producer.commit()
                    transaction.verdict = Verdict.COMMITTED
                    self._workload.count("transactions with delayed records committed")
                await asyncio.sleep(self._random.uniform(0.2, 2.0))

    async def _send(
        self, producer: AsyncProducer, name: str, *, idempotent: bool = True, transaction: Transaction | None = None
    ) -> None:
        value = self._workload.new_value(name)
        partition = self._random.randrange(PARTITIONS)
        is_far = self._random.random() < 0.1
        header = self._header(_FAR_MS if is_far else self._random.randrange(10, _DELAY_MS_MAX))
        far = _Far(value, transaction, is_idempotent=idempotent)
        # The history asks nothing of a record that may be anywhere: `anomalies` does.
        sent = self._workload.history.send(value, idempotent=idempotent, transaction=None if is_far else transaction)
        if is_far:
            self._far.append(far)
        # A key of its own: compaction removes changes of delayed records, and no record.
        await producer.send_and_wait(DELAYED_TOPIC, value, key=value, partition=partition, headers=[header])
        if is_far:
            far.is_acknowledged = True
            self._workload.count("delayed records that wait for an hour")
            return
        sent.acknowledged((DELAYED_TOPIC, partition), -1)
        if transaction is not None:
            sent.outcome = Outcome.UNKNOWN
        self._workload.count("delayed records acknowledged")

    def _header(self, delay_ms: int) -> tuple[str, bytes]:
        if self._random.random() < 0.5:
            return "tidelog-delay", b"%d" % delay_ms
        return "tidelog-deliver-at", b"%d" % (self._wall_ms() + delay_ms)

    # --- at the end ---

    def undelivered(self, brokers: list[BrokerProcess]) -> Iterator[str]:
        """Partitions with records that are due soon and were not delivered yet."""
        for broker, partition in _leaders(brokers):
            followed = broker.node.delayed.find(partition.topic, partition.index)
            due_ms = None if followed is None else followed.next_due_ms()
            if due_ms is not None and due_ms < broker.clock.wall_ms() + _FAR_MS // 2:
                yield f"{partition.topic}-{partition.index} has delayed records on {broker.name}"

    def anomalies(self, cluster: Simulation, *, is_switched: bool) -> list[str]:
        """What is wrong with the records that are due after the end.

        They wait, but for those that a leader received while `tidelog.delay.enable` was off.
        """
        waiting = Counter(
            value
            for _, partition in _leaders(cluster.brokers)
            for value in cluster.invariants.waiting_values(partition)
        )
        visible = _values(self._workload.history.final)
        committed = _values(self._workload.history.final_committed)
        found = []
        for far in self._far:
            count = waiting[far.value] + visible[far.value]
            if visible[far.value] and not is_switched:
                found.append(f"early: {far.value!r} is due in an hour")
            elif far.verdict is Verdict.COMMITTED and far.is_acknowledged and not count:
                found.append(f"lost write: {far.value!r} was acknowledged and does not wait")
            elif far.verdict is Verdict.ABORTED and waiting[far.value] + committed[far.value]:
                found.append(f"aborted read: {far.value!r} of an aborted transaction waits or is there")
            elif count > 1 and far.is_idempotent:
                found.append(f"duplicate: {far.value!r} waits or is there {count} times")
        return found


def _values(reader: Reader) -> Counter[bytes]:
    return Counter(read.value for place, reads in reader.reads.items() if place[0] == DELAYED_TOPIC for read in reads)


def _leaders(brokers: list[BrokerProcess]) -> Iterator[tuple[BrokerProcess, Partition]]:
    for broker in brokers:
        for partition in broker.partitions():
            if partition.topic == DELAYED_TOPIC and partition.is_leader:
                yield broker, partition
