"""Clients that never stop: producers of three kinds, readers and a group, each writing down what it sees.

They are the clients of `tidelog.client`. An error does not end them: they write it down, wait a moment and go on with a
new producer or consumer, as a supervised application would. `stop` lets them finish what they are at.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
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
from tidelog.testing.simulation.swarm import Swarm
from tidelog.wire.errors import ApiError

Life = Callable[[], Coroutine[Any, Any, None]]
"""What a client does, from its start to its end or its first error."""

TOPIC: Final = "events"
TRANSACTIONS_TOPIC: Final = "orders"
PARTITIONS: Final = 2

EXPECTED_WORK: Final = (
    "acknowledged sends",
    "commits of a group",
    "create a topic",
    "delete a topic",
    "elect leaders",
    "grow a topic",
    "move replicas",
    "read-process-write transactions",
    "reads",
    "reads of a group",
    "transactions aborted",
    "transactions committed",
)
"""What clients do in every run of many seeds, faults or not."""

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
    "fetch.max.wait.ms": 1_500,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "metadata.max.age.ms": 3_000,
    "bootstrap.timeout.ms": 15_000,
    "auto.offset.reset": "earliest",
}

CLASSIC: Final[dict[str, object]] = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 800}
"""With the newer protocol the broker decides about these."""
CONSUMER: Final[dict[str, object]] = {"group.protocol": "consumer"}
GROUPS: Final = {
    "classic group": ("group", CLASSIC),
    "consumer group": ("consumers", CONSUMER),
    "static members": ("static", CLASSIC),
    "static consumers": ("static-consumers", CONSUMER),
}
"""The groups by the kind of client: name and protocol."""
TRIMMED_TOPIC: Final = "trimmed"
"""Its segments are small and soon deleted: what was sent there may be gone at the end."""
TRIMMED_SETTINGS: Final = {"segment.bytes": "200", "retention.bytes": "400", "retention.ms": "1500"}
REMADE_TOPIC: Final = "again"
"""It is deleted and made again, by a client that does nothing else."""
_INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")


class Workload:
    """The clients of one simulation."""

    def __init__(self, history: History, bootstrap_servers: str, chance: random.Random, swarm: Swarm) -> None:
        self.history = history
        self.is_stopping = False
        self.counts: dict[str, int] = {}
        self._servers = bootstrap_servers
        self._random = chance
        self._swarm = swarm
        self._tasks: list[asyncio.Task[None]] = []
        self._owned: dict[tuple[str, str, int, int], str] = {}
        """The member that owned a partition in a generation of a group."""
        self.violations: list[str] = []
        self._extra: list[str] = []
        """Topics that are there for the sake of being created, grown, moved and deleted."""
        self._extra_topics = 0
        self._lives_of: dict[Process, tuple[Life, asyncio.Task[None]]] = {}
        self._extras: list[asyncio.Task[None]] = []
        """Writes that faults have asked for."""

    def start(self, new_client: Callable[[], Process]) -> None:
        """Give each client a host of its own."""
        for each in self._lives():
            self.add(each, new_client())

    def add(self, life: Life, client: Process) -> None:
        """Let one more client live, on a host of its own."""
        task = client.run(self._keep(life))
        self._lives_of[client] = life, task
        self._tasks.append(task)

    def replace(self, client: Process, seconds: float) -> None:
        """Kill a client, and let another one begin on its host after some seconds."""
        if client not in self._lives_of or not client.is_alive:
            return
        life, task = self._lives_of[client]
        self._tasks.remove(task)
        client.kill()
        self.count("clients killed")

        def begin() -> None:
            client.begin()
            self.add(life, client)

        client.world.after(seconds, begin)

    def burst(self, topic: str, partition: int, client: Process) -> None:
        """Write some records with acks=1 to a partition at once."""
        self._extras.append(client.run(self._burst(topic, partition)))

    async def _burst(self, topic: str, partition: int) -> None:
        settings = {**self.producer_settings, "acks": "1", "enable.idempotence": False, "delivery.timeout.ms": 3_000}
        with suppress(ClientError, ApiError, DeadlinePassed):
            async with AsyncProducer({**settings, "max.block.ms": 3_000}) as producer:
                for _ in range(self._random.randrange(1, 6)):
                    value = self.new_value("burst")
                    send = self.history.send(value, acks_all=False, idempotent=False)
                    await self._send_one(producer, topic, partition, value, send)

    @property
    def producer_settings(self) -> dict[str, object]:
        """What all producers have in common."""
        return {**_FAST, "bootstrap.servers": self._servers}

    def _lives(self) -> Iterator[Life]:
        kinds = self._swarm.clients
        yield lambda: self._produce("idempotent", acks="all", idempotent=True)
        yield lambda: self._transact("tx-0")
        yield lambda: self.read_all("committed-reader", TRANSACTIONS_TOPIC, "read_committed")
        yield self._administrate
        if "plain producer" in kinds:
            yield lambda: self._produce("plain", acks="all", idempotent=False)
        if "leader-only producer" in kinds:
            yield lambda: self._produce("leader-only", acks="1", idempotent=False)
        if "pipelining producer" in kinds:
            yield self._pipeline
        if "second transactional producer" in kinds:
            yield lambda: self._transact("tx-1")
        if "reader" in kinds:
            yield lambda: self.read_all("reader", TOPIC, "read_uncommitted")
        for kind, (group, protocol) in GROUPS.items():
            if kind in kinds:
                # Two members of the same instance id are one member that was replaced, and its zombie.
                is_static = kind.startswith("static")
                for number in range(3 if is_static else 2):
                    instance = f"{group}-{number % 2}" if is_static else None
                    yield partial(self._join_group, group, f"{group}-member-{number}", protocol, instance)
        if "rival transactional producers" in kinds:
            yield lambda: self._transact("tx-rival", is_rival=True)
            yield lambda: self._transact("tx-rival", is_rival=True)
        if "trimmed topic" in kinds:
            self.history.deleted_topics.add(TRIMMED_TOPIC)
            yield lambda: self._produce("trimmed", acks="all", idempotent=True, topic=TRIMMED_TOPIC)
            yield lambda: self._produce("trimmed leader-only", acks="1", idempotent=False, topic=TRIMMED_TOPIC)
        if "remade topic" in kinds:
            self.history.deleted_topics.add(REMADE_TOPIC)
            yield self._remake
        if "read-process-write" in kinds:
            yield self._process

    def stop(self) -> None:
        self.is_stopping = True

    @property
    def is_done(self) -> bool:
        return all(task.done() for task in (*self._tasks, *self._extras))

    def errors(self) -> list[str]:
        """What ended a client that should never end."""
        return [
            f"{task.exception()!r}" for task in self._tasks if task.done() and not task.cancelled() and task.exception()
        ]

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    async def _keep(self, life: Life) -> None:
        while not self.is_stopping:
            try:
                await life()
            except (ClientError, ApiError, DeadlinePassed) as error:
                self.count(f"client error {type(error).__name__}")
                await asyncio.sleep(_PAUSE_SECONDS)

    # --- producers ---

    async def _produce(self, name: str, *, acks: str, idempotent: bool, topic: str = TOPIC) -> None:
        settings = {**self.producer_settings, "acks": acks, "enable.idempotence": idempotent}
        self.count("producers")
        instance = f"{name} {self.counts['producers']}" if idempotent else None
        async with AsyncProducer(settings) as producer:
            while not self.is_stopping:
                for _ in range(self._random.randrange(1, 5)):
                    value = self.new_value(name)
                    acks_all = acks == "all"
                    send = self.history.send(value, acks_all=acks_all, idempotent=idempotent, producer=instance)
                    await self._send_one(producer, topic, self._random.randrange(PARTITIONS), value, send)
                await asyncio.sleep(self._random.uniform(0.05, 0.3 if topic == TRIMMED_TOPIC else 1.5))

    async def _pipeline(self) -> None:
        """Several requests are under way at a time, each with one batch."""
        settings = {**self.producer_settings, "acks": "all", "enable.idempotence": True, "batch.size": 1}
        self.count("producers")
        instance = f"pipelining {self.counts['producers']}"
        async with AsyncProducer(settings) as producer:
            while not self.is_stopping:
                partition = self._random.randrange(PARTITIONS)
                values = [self.new_value("pipelining") for _ in range(self._random.randrange(2, 9))]
                sends = [self.history.send(value, producer=instance) for value in values]
                results = await asyncio.gather(
                    *(
                        self._send_one(producer, TOPIC, partition, value, send)
                        for value, send in zip(values, sends, strict=True)
                    ),
                    return_exceptions=True,
                )
                for result in results:
                    if isinstance(result, BaseException):
                        raise result
                await asyncio.sleep(self._random.uniform(0.05, 0.8))

    async def _send_one(self, producer: AsyncProducer, topic: str, partition: int, value: bytes, send: Send) -> None:
        try:
            where = await producer.send_and_wait(topic, value, partition=partition)
        except (ClientError, ApiError):
            self.count("sends without an acknowledgement")
            raise
        send.acknowledged((topic, partition), where.offset)
        self.count("acknowledged sends")

    def new_value(self, name: str) -> bytes:
        self.count("sends")
        return f"{name}-{self.counts['sends']}".encode()

    # --- transactions ---

    async def _transact(self, transactional_id: str, *, is_rival: bool = False) -> None:
        """Rivals have one transactional id: each fences the other, and their transactions time out soon."""
        settings = {
            **self.producer_settings,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 2_000 if is_rival else 10_000,
        }
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + (self._random.uniform(0.5, 4.0) if is_rival else 1e9)
        async with AsyncProducer(settings) as producer:
            await producer.init_transactions()
            while not self.is_stopping and loop.time() < ends_at:
                await self._one_transaction(producer)
                await asyncio.sleep(self._random.uniform(0.05, 2.0))

    async def _one_transaction(self, producer: AsyncProducer) -> None:
        transaction = Transaction()
        await producer.begin()
        waits = self._random.random() < 0.6
        for _ in range(self._random.randrange(1, 6)):
            value = self.new_value("transactional")
            send = self.history.send(value, transaction=transaction)
            partition = self._random.randrange(PARTITIONS)
            if not waits:
                # The end of the transaction waits for it, and fails if it is lost.
                await producer.send(TRANSACTIONS_TOPIC, value, partition=partition)
                continue
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
                if await self._operations[name](admin):
                    self.count(name)

    @property
    def _operations(self) -> dict[str, Callable[[AsyncAdmin], Coroutine[Any, Any, bool]]]:
        return {
            "create a topic": self._create_topic,
            "delete a topic": self._delete_topic,
            "grow a topic": self._grow_topic,
            "move replicas": self._reassign,
            "elect leaders": self._elect,
        }

    async def _create_topic(self, admin: AsyncAdmin) -> bool:
        self._extra_topics += 1
        name = f"extra-{self._extra_topics}"
        await admin.create_topics([NewTopic(name, self._random.randrange(1, 4), self._swarm.replicas)])
        self._extra.append(name)
        return True

    async def _delete_topic(self, admin: AsyncAdmin) -> bool:
        if not self._extra:
            return False
        await admin.delete_topics([self._extra.pop(self._random.randrange(len(self._extra)))])
        return True

    async def _grow_topic(self, admin: AsyncAdmin) -> bool:
        if not self._extra:
            return False
        name = self._random.choice(self._extra)
        described = (await admin.describe_topics([name]))[name]
        await admin.create_partitions({name: len(described.partitions) + 1})
        return True

    async def _reassign(self, admin: AsyncAdmin) -> bool:
        """Other brokers, where there are more of them than replicas; another preferred leader in any case."""
        topic = self._random.choice((TOPIC, TRANSACTIONS_TOPIC, *_INTERNAL_TOPICS, *self._extra))
        described = (await admin.describe_topics([topic]))[topic]
        partition = self._random.choice(described.partitions)
        brokers = range(self._servers.count(",") + 1)
        replicas = self._random.sample(brokers, len(partition.replicas))
        await admin.alter_partition_reassignments({TopicPartition(topic, partition.partition): replicas})
        return True

    async def _elect(self, admin: AsyncAdmin) -> bool:
        topic = self._random.choice((TOPIC, TRANSACTIONS_TOPIC, *_INTERNAL_TOPICS))
        described = (await admin.describe_topics([topic]))[topic]
        await admin.elect_leaders([TopicPartition(topic, each.partition) for each in described.partitions])
        return True

    async def _remake(self) -> None:
        """A topic is made, led by one broker and another, deleted and made again, while a producer knows it."""
        settings: dict[str, Any] = {"bootstrap.servers": self._servers, "bootstrap.timeout.ms": 15_000}
        producing = {**self.producer_settings, "acks": "1", "enable.idempotence": False, "delivery.timeout.ms": 3_000}
        async with (
            AsyncAdmin({**settings, "request.timeout.ms": 4_000, "default.api.timeout.ms": 8_000}) as admin,
            AsyncProducer(producing) as producer,
        ):
            while not self.is_stopping:
                with suppress(ClientError, ApiError):
                    await admin.delete_topics([REMADE_TOPIC])
                await admin.create_topics([NewTopic(REMADE_TOPIC, 1, self._swarm.replicas)])
                for turn in range(3):
                    if turn:
                        await self._turn_leadership(admin)
                    with suppress(ClientError, ApiError):
                        await producer.send_and_wait(REMADE_TOPIC, b"%d" % turn, partition=0)
                self.count("topics made again")

    async def _turn_leadership(self, admin: AsyncAdmin) -> None:
        (partition,) = (await admin.describe_topics([REMADE_TOPIC]))[REMADE_TOPIC].partitions
        where = TopicPartition(REMADE_TOPIC, 0)
        replicas = list(partition.replicas)
        with suppress(ClientError, ApiError):
            await admin.alter_partition_reassignments({where: [*replicas[1:], replicas[0]]})
            await admin.elect_leaders([where])

    # --- readers ---

    async def read_all(self, name: str, topic: str, isolation: str) -> None:
        settings = {**_FAST_CONSUMER, "bootstrap.servers": self._servers, "isolation.level": isolation}
        reader = self.history.reader(name, is_committed_only=isolation == "read_committed")
        async with AsyncConsumer(settings) as consumer:
            await consumer.assign([TopicPartition(topic, index) for index in range(PARTITIONS)])
            while not self.is_stopping:
                for record in await consumer.poll(timeout_s=1):
                    _note(reader, record)
                    self.count("reads")

    async def _join_group(self, group: str, name: str, protocol: dict[str, object], instance: str | None) -> None:
        """Be a member for a while: members come and go, so that the group rebalances."""
        settings = {
            **_FAST_CONSUMER,
            **protocol,
            **({} if instance is None else {"group.instance.id": instance}),
            "bootstrap.servers": self._servers,
            "group.id": group,
            "enable.auto.commit": False,
        }
        async with AsyncConsumer(settings) as consumer:
            await consumer.subscribe([TOPIC])
            ends_at = asyncio.get_running_loop().time() + self._random.uniform(2, 12)
            while not self.is_stopping and asyncio.get_running_loop().time() < ends_at:
                was_lost = consumer.group_metadata.generation_id < 0
                records = await consumer.poll(timeout_s=1)
                if was_lost and consumer.group_metadata.generation_id < 0 and consumer.assignment:
                    owned = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(consumer.assignment))
                    self.violations.append(f"kept: {name} is no member of {group} and has {owned}")
                self._check_ownership(group, instance or name, consumer)
                self._note_all(group, name, records)
                if records:
                    await self._commit(consumer)

    def _note_all(self, group: str, name: str, records: Iterable[ConsumerRecord[Any, Any]]) -> None:
        """Each poll has a reader of its own: a partition that comes back is read again from what was committed."""
        reader = self.history.reader(name, group=group)
        for record in records:
            _note(reader, record)
            self.count("reads of a group")

    async def drain(self, kind: str) -> None:
        """At the end, when all is well: read what the members of a group have left, from what they have committed."""
        group, protocol = GROUPS[kind]
        places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        settings = {**_FAST_CONSUMER, **protocol, "bootstrap.servers": self._servers, "group.id": group}
        async with AsyncConsumer(settings) as consumer:
            ends = await consumer.end_offsets(*places)
            await consumer.subscribe([TOPIC])
            while not set(places) <= set(consumer.assignment) or any(
                [await consumer.position(place) < ends[place] for place in places]
            ):
                self._note_all(group, "the last member", await consumer.poll(timeout_s=1))

    async def _process(self) -> None:
        """Read, and write what was read with its offsets in one transaction."""
        consuming = {**_FAST_CONSUMER, **CLASSIC, "bootstrap.servers": self._servers, "group.id": "processors"}
        producing = {**self.producer_settings, "transactional.id": "tx-processor"}
        async with (
            AsyncProducer(producing) as producer,
            AsyncConsumer({**consuming, "enable.auto.commit": False, "isolation.level": "read_committed"}) as consumer,
        ):
            await producer.init_transactions()
            await consumer.subscribe([TOPIC])
            while not self.is_stopping:
                records = await consumer.poll(timeout_s=1)
                if records:
                    if not await self._process_batch(producer, consumer, records):
                        return
                    await asyncio.sleep(self._random.uniform(0.1, 1.0))

    async def _process_batch(self, producer: AsyncProducer, consumer: AsyncConsumer, records: Iterable[Any]) -> bool:
        """Whether it was committed. If not, the consumer is past what has to be read again."""
        transaction = Transaction()
        await producer.begin()
        offsets = {}
        for record in records:
            value = self.new_value("processed")
            send = self.history.send(value, transaction=transaction)
            send.source = record.topic, record.partition, record.offset
            await self._send_one(producer, TRANSACTIONS_TOPIC, record.partition, value, send)
            send.outcome = Outcome.UNKNOWN
            offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
        await producer.send_offsets_to_transaction(offsets, consumer.group_metadata)
        if self._random.random() < 0.2:
            await producer.abort()
            transaction.verdict = Verdict.ABORTED
            self.count("read-process-write transactions aborted")
            return False
        await producer.commit()
        transaction.verdict = Verdict.COMMITTED
        self.count("read-process-write transactions")
        return True

    async def unprocessed(self) -> list[str]:
        """At the end: records below the offsets of read-process-write that led to no committed record."""
        places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        settings = {**_FAST_CONSUMER, "bootstrap.servers": self._servers, "group.id": "processors"}
        async with AsyncConsumer(settings) as consumer:
            await consumer.assign(places)
            committed = await consumer.committed(*places)
        return self.history.unprocessed(
            {(place.topic, place.partition): found.offset for place, found in committed.items() if found}
        )

    async def _commit(self, consumer: AsyncConsumer) -> None:
        try:
            await consumer.commit(timeout_s=5)
            self.count("commits of a group")
        except (ClientError, ApiError):
            self.count("commits that failed")

    def _check_ownership(self, group: str, name: str, consumer: AsyncConsumer) -> None:
        generation = consumer.group_metadata.generation_id
        if generation < 0:
            return
        for topic, partition in sorted(consumer.assignment):
            owner = self._owned.setdefault((group, topic, partition, generation), name)
            if owner != name:
                where = f"{topic}-{partition} in generation {generation} of {group}"
                self.violations.append(f"two owners: {owner} and {name} have {where}")


def _note(reader: Reader, record: ConsumerRecord[Any, Any]) -> None:
    reader.saw((record.topic, record.partition), record.offset, record.value or b"")


async def read_everything(servers: str, history: History, topics: Sequence[str]) -> None:
    """At the end, when all is well: every record, twice, with and without those of open and aborted transactions."""
    for reader, isolation in ((history.final, "read_uncommitted"), (history.final_committed, "read_committed")):
        settings = {**_FAST_CONSUMER, "bootstrap.servers": servers, "isolation.level": isolation}
        async with AsyncConsumer(settings) as consumer:
            places = [TopicPartition(topic, n) for topic in topics for n in range(PARTITIONS)]
            await consumer.assign(places)
            ends = await consumer.end_offsets(*places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                for record in await consumer.poll(timeout_s=1):
                    _note(reader, record)
