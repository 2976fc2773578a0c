"""Clients that never stop: producers of three kinds, readers and a group, each writing down what it sees.

They are the clients of `tidelog.client`. An error does not end them: they write it down, wait a moment and go on with a
new producer or consumer, as a supervised application would. `stop` lets them finish what they are at.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tidelog.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    ClientError,
    ConsumerRecord,
    DeadlinePassed,
    NewTopic,
    TopicPartition,
)
from tidelog.testing.simulation.history import History, Outcome, Reader, Send, Transaction, Verdict
from tidelog.testing.simulation.processes import Process
from tidelog.wire.errors import ApiError

TOPIC: Final = "events"
TRANSACTIONS_TOPIC: Final = "orders"
PARTITIONS: Final = 2

_PAUSE_SECONDS: Final = 0.5
_FAST: Final = {
    "request.timeout.ms": 3_000,
    "delivery.timeout.ms": 12_000,
    "max.block.ms": 12_000,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "metadata.max.age.ms": 3_000,
    "bootstrap.timeout.ms": 15_000,
}
_FAST_CONSUMER: Final = {
    "request.timeout.ms": 4_000,
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 1_500,
    "fetch.max.wait.ms": 1_500,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "metadata.max.age.ms": 3_000,
    "bootstrap.timeout.ms": 15_000,
    "auto.offset.reset": "earliest",
}


class Workload:
    """The clients of one simulation."""

    def __init__(self, history: History, bootstrap_servers: str, chance: random.Random, replicas: int) -> None:
        self.history = history
        self.is_stopping = False
        self.counts: dict[str, int] = {}
        self._servers = bootstrap_servers
        self._random = chance
        self._tasks: list[asyncio.Task[None]] = []
        self._owned: dict[tuple[str, int], dict[int, str]] = {}
        """Who owned a partition in a generation of the group."""
        self.violations: list[str] = []
        self._replicas = replicas
        self._extra: list[str] = []
        """Topics that are there for the sake of being created, grown and deleted."""
        self._extra_topics = 0

    def start(self, new_client: Callable[[], Process]) -> None:
        """Give each client a host of its own."""
        work: list[Callable[[], Coroutine[Any, Any, None]]] = [
            lambda: self._keep(lambda: self._produce("idempotent", acks="all", idempotent=True)),
            lambda: self._keep(lambda: self._produce("plain", acks="all", idempotent=False)),
            lambda: self._keep(lambda: self._produce("leader-only", acks="1", idempotent=False)),
            lambda: self._keep(lambda: self._transact("tx-0")),
            lambda: self._keep(lambda: self._read_all("reader", TOPIC, "read_uncommitted")),
            lambda: self._keep(lambda: self._read_all("committed-reader", TRANSACTIONS_TOPIC, "read_committed")),
            lambda: self._keep(lambda: self._join_group("member-0")),
            lambda: self._keep(lambda: self._join_group("member-1")),
            lambda: self._keep(self._administrate),
        ]
        for each in work:
            self._tasks.append(new_client().run(each()))

    def stop(self) -> None:
        self.is_stopping = True

    @property
    def is_done(self) -> bool:
        return all(task.done() for task in self._tasks)

    def errors(self) -> list[str]:
        """What ended a client that should never end."""
        return [
            f"{task.exception()!r}" for task in self._tasks if task.done() and not task.cancelled() and task.exception()
        ]

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    async def _keep(self, life: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while not self.is_stopping:
            try:
                await life()
            except (ClientError, ApiError, DeadlinePassed) as error:
                self.count(f"client error {type(error).__name__}")
                await asyncio.sleep(_PAUSE_SECONDS)

    # --- producers ---

    async def _produce(self, name: str, *, acks: str, idempotent: bool) -> None:
        settings = {**_FAST, "bootstrap.servers": self._servers, "acks": acks, "enable.idempotence": idempotent}
        async with AsyncProducer(settings) as producer:
            while not self.is_stopping:
                for _ in range(self._random.randrange(1, 5)):
                    value = self._new_value(name)
                    send = self.history.send(value, acks_all=acks == "all", idempotent=idempotent)
                    await self._send_one(producer, TOPIC, self._random.randrange(PARTITIONS), value, send)
                await asyncio.sleep(self._random.uniform(0.05, 1.5))

    async def _send_one(self, producer: AsyncProducer, topic: str, partition: int, value: bytes, send: Send) -> None:
        try:
            where = await producer.send_and_wait(topic, value, partition=partition)
        except (ClientError, ApiError):
            self.count("sends without an acknowledgement")
            raise
        send.acknowledged((topic, partition), where.offset)
        self.count("acknowledged sends")

    def _new_value(self, name: str) -> bytes:
        self.count("sends")
        return f"{name}-{self.counts['sends']}".encode()

    # --- transactions ---

    async def _transact(self, transactional_id: str) -> None:
        settings = {
            **_FAST,
            "bootstrap.servers": self._servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 10_000,
        }
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            while not self.is_stopping:
                await self._one_transaction(producer)
                await asyncio.sleep(self._random.uniform(0.05, 2.0))

    async def _one_transaction(self, producer: AsyncProducer) -> None:
        transaction = Transaction()
        await producer.begin()
        sends = []
        for _ in range(self._random.randrange(1, 6)):
            value = self._new_value("transactional")
            send = self.history.send(value, transaction=transaction)
            partition = self._random.randrange(PARTITIONS)
            sends.append((send, partition))
            await self._send_one(producer, TRANSACTIONS_TOPIC, partition, value, send)
            # An acknowledged record of a transaction counts once the transaction is committed.
            send.outcome = Outcome.UNKNOWN
        if self._random.random() < 0.25:
            await producer.abort()
            transaction.verdict = Verdict.ABORTED
            self.count("transactions aborted")
            return
        await producer.commit()
        transaction.verdict = Verdict.COMMITTED
        self.count("transactions committed")

    # --- administration ---

    async def _administrate(self) -> None:
        settings = {
            "bootstrap.servers": self._servers,
            "request.timeout.ms": 4_000,
            "default.api.timeout.ms": 8_000,
            "bootstrap.timeout.ms": 15_000,
        }
        async with AsyncAdmin(settings) as admin:
            while not self.is_stopping:
                await asyncio.sleep(self._random.uniform(0.5, 3.0))
                name = self._random.choice(sorted(self._operations))
                await self._operations[name](admin)
                self.count(name)

    @property
    def _operations(self) -> dict[str, Callable[[AsyncAdmin], Coroutine[Any, Any, object]]]:
        return {
            "topics created": self._create_topic,
            "topics deleted": self._delete_topic,
            "topics grown": self._grow_topic,
            "partitions moved": self._reassign,
            "leaders elected": self._elect,
        }

    async def _create_topic(self, admin: AsyncAdmin) -> None:
        self._extra_topics += 1
        name = f"extra-{self._extra_topics}"
        await admin.create_topics([NewTopic(name, self._random.randrange(1, 4), self._replicas)])
        self._extra.append(name)

    async def _delete_topic(self, admin: AsyncAdmin) -> None:
        if self._extra:
            await admin.delete_topics([self._extra.pop(self._random.randrange(len(self._extra)))])

    async def _grow_topic(self, admin: AsyncAdmin) -> None:
        if self._extra:
            name = self._random.choice(self._extra)
            described = (await admin.describe_topics([name]))[name]
            await admin.create_partitions({name: len(described.partitions) + 1})

    async def _reassign(self, admin: AsyncAdmin) -> None:
        """Another order of the replicas, and so another preferred leader."""
        where = TopicPartition(self._random.choice((TOPIC, TRANSACTIONS_TOPIC)), self._random.randrange(PARTITIONS))
        described = (await admin.describe_topics([where.topic]))[where.topic]
        replicas = list(described.partitions[where.partition].replicas)
        self._random.shuffle(replicas)
        await admin.alter_partition_reassignments({where: replicas})

    async def _elect(self, admin: AsyncAdmin) -> None:
        await admin.elect_leaders([TopicPartition(TOPIC, index) for index in range(PARTITIONS)])

    # --- readers ---

    async def _read_all(self, name: str, topic: str, isolation: str) -> None:
        settings = {**_FAST_CONSUMER, "bootstrap.servers": self._servers, "isolation.level": isolation}
        reader = self.history.reader(name, is_committed_only=isolation == "read_committed")
        async with AsyncConsumer(settings) as consumer:
            await consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
            while not self.is_stopping:
                for record in await consumer.poll(timeout_s=1):
                    _note(reader, record)
                    self.count("reads")

    async def _join_group(self, name: str) -> None:
        settings = {
            **_FAST_CONSUMER,
            "bootstrap.servers": self._servers,
            "group.id": "group",
            "enable.auto.commit": False,
        }
        async with AsyncConsumer(settings) as consumer:
            await consumer.subscribe([TOPIC])
            ends_at = asyncio.get_running_loop().time() + self._random.uniform(3, 20)
            while not self.is_stopping and asyncio.get_running_loop().time() < ends_at:
                records = await consumer.poll(timeout_s=1)
                self._check_ownership(name, consumer)
                for _ in records:
                    self.count("reads of the group")
                if records:
                    await self._commit(consumer)

    async def _commit(self, consumer: AsyncConsumer) -> None:
        try:
            await consumer.commit(timeout_s=5)
            self.count("commits")
        except (ClientError, ApiError):
            self.count("commits that failed")

    def _check_ownership(self, name: str, consumer: AsyncConsumer) -> None:
        generation = consumer.group_metadata.generation_id
        if generation < 0:
            return
        for topic, partition in sorted(consumer.assignment):
            owners = self._owned.setdefault((topic, partition), {})
            owner = owners.setdefault(generation, name)
            if owner != name:
                self.violations.append(
                    f"two owners: {topic}-{partition} belongs to {owner} and {name} in generation {generation}"
                )


def _note(reader: Reader, record: ConsumerRecord[Any, Any]) -> None:
    reader.saw((record.topic, record.partition), record.offset, record.value or b"")


async def read_everything(servers: str, history: History) -> None:
    """At the end, when all is well: every record, twice, with and without those of open and aborted transactions."""
    for reader, isolation in ((history.final, "read_uncommitted"), (history.final_committed, "read_committed")):
        settings = {**_FAST_CONSUMER, "bootstrap.servers": servers, "isolation.level": isolation}
        async with AsyncConsumer(settings) as consumer:
            places = [TopicPartition(topic, n) for topic in (TOPIC, TRANSACTIONS_TOPIC) for n in range(PARTITIONS)]
            await consumer.assign(places)
            ends = await consumer.end_offsets(*places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                for record in await consumer.poll(timeout_s=1):
                    _note(reader, record)
