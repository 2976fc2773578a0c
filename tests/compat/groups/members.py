"""Members of consumer groups with three clients that we did not write, each in a thread of its own.

A member polls, notes what it read, commits, and goes on until it is stopped; then it leaves its group in order. What
all members of a test have read is in one `Readings`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from tests.unit.present import present

with warnings.catch_warnings():
    # It reads its message definitions with a function that Python 3.11 deprecated and 3.13 brought back.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.errors
    from kafka.coordinator.assignors import cooperative_sticky, roundrobin
    from kafka.coordinator.assignors import range as range_assignor
    from kafka.coordinator.assignors.sticky import sticky_assignor

DEADLINE_S = 60.0
SESSION_MS = 10_000
"""Long enough for a machine with much else to do."""
SHORT_SESSION_MS = 1_500
HEARTBEAT_MS = 100
POLL_S = 0.05


def wait_until(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return as soon as `condition` holds; fail with `what` when it does not in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


class Readings:
    """Who read which value, and how often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[bytes, list[str]] = {}

    def add(self, reader: str, values: Iterable[bytes]) -> None:
        with self._lock:
            for value in values:
                self._readers.setdefault(value, []).append(reader)

    def values(self) -> set[bytes]:
        with self._lock:
            return set(self._readers)

    def by(self, reader: str) -> set[bytes]:
        with self._lock:
            return {value for value, readers in self._readers.items() if reader in readers}

    def repeated(self) -> int:
        """How many values were read more than once."""
        with self._lock:
            return sum(len(readers) > 1 for readers in self._readers.values())

    def wait_for(self, values: Iterable[bytes]) -> None:
        wanted = set(values)
        wait_until(lambda: wanted <= self.values(), f"reading {len(wanted)} values")


def wait_for_commits(servers: str, group: str, topic: str) -> None:
    """Return when the group has committed all that is in the topic: who comes later reads none of it again."""
    from confluent_kafka import Consumer, TopicPartition

    asking = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    try:
        numbers = asking.list_topics(topic, DEADLINE_S).topics[topic].partitions
        parts = [TopicPartition(topic, number) for number in numbers]
        ends = [asking.get_watermark_offsets(part, DEADLINE_S)[1] for part in parts]
        wait_until(
            lambda: [part.offset for part in asking.committed(parts, DEADLINE_S)] == ends, f"{group} commits {ends}"
        )
    finally:
        asking.close()


class Member(ABC):
    """One consumer in a group."""

    client: ClassVar[str]
    strategies: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        servers: str,
        group: str,
        topic: str,
        readings: Readings,
        name: str,
        *,
        strategy: str = "range",
        instance_id: str | None = None,
        session_ms: int = SESSION_MS,
        poll_interval_ms: int = 60_000,
        on_records: Callable[[], object] = lambda: None,
    ) -> None:
        self.servers = servers
        self.group = group
        self.topic = topic
        self.readings = readings
        self.name = name
        self.strategy = strategy
        self.instance_id = instance_id
        self.session_ms = session_ms
        self.poll_interval_ms = poll_interval_ms
        self.on_records = on_records
        self.assignment: frozenset[int] = frozenset()
        self.assignments: list[frozenset[int]] = []
        """Every assignment it had, without repetition."""
        self.uncommitted = False
        """It read something and no commit has succeeded since: a rebalance refuses commits while it lasts."""
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Member:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Leave the group."""
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"{self.name} does not stop"

    def _run(self) -> None:
        try:
            self.consume()
        except BaseException as error:
            self.error = error

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def note(self, partitions: Iterable[int]) -> None:
        now = frozenset(partitions)
        if now != self.assignment:
            self.assignment = now
            self.assignments.append(now)

    def read(self, values: Iterable[bytes]) -> None:
        values = list(values)
        self.uncommitted = self.uncommitted or bool(values)
        self.readings.add(self.name, values)
        if values:
            self.on_records()

    @abstractmethod
    def consume(self) -> None:
        """Subscribe, then poll, note and commit until `is_stopped`; close the client."""


class ConfluentMember(Member):
    """librdkafka."""

    client = "confluent-kafka"
    strategies: ClassVar[tuple[str, ...]] = ("range", "roundrobin", "cooperative-sticky")

    def settings(self) -> dict[str, object]:
        settings: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "client.id": self.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": self.poll_interval_ms,
            "partition.assignment.strategy": self.strategy,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        if self.instance_id is not None:
            settings["group.instance.id"] = self.instance_id
        return settings

    def consume(self) -> None:
        from confluent_kafka import Consumer, KafkaError, KafkaException

        passing = {
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TRANSPORT,
            KafkaError._MAX_POLL_EXCEEDED,
            # What a join under way is answered when the group changes its protocol, as in Kafka; librdkafka reports it
            # and joins again.
            KafkaError.REBALANCE_IN_PROGRESS,
        }
        consumer = Consumer(self.settings())
        consumer.subscribe([self.topic])
        try:
            while not self.is_stopped:
                messages = consumer.consume(500, POLL_S)
                errors = [error for message in messages if (error := message.error()) is not None]
                failed = [error for error in errors if error.code() not in passing]
                if failed:
                    raise KafkaException(failed[0])
                self.note(part.partition for part in consumer.assignment())
                values = [present(message.value()) for message in messages if message.error() is None]
                self.read(values)
                if self.uncommitted:
                    with contextlib.suppress(KafkaException):
                        consumer.commit(asynchronous=False)
                        self.uncommitted = False
        finally:
            consumer.close()


_KAFKA_PYTHON_STRATEGIES = {
    "range": range_assignor.RangePartitionAssignor,
    "roundrobin": roundrobin.RoundRobinPartitionAssignor,
    "sticky": sticky_assignor.StickyPartitionAssignor,
    "cooperative-sticky": cooperative_sticky.CooperativeStickyAssignor,
}


class KafkaPythonMember(Member):
    """kafka-python."""

    client = "kafka-python"
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def consume(self) -> None:
        consumer = kafka.KafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=self.group,
            client_id=self.name,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=self.poll_interval_ms,
            partition_assignment_strategy=[_KAFKA_PYTHON_STRATEGIES[self.strategy]],
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
        )
        try:
            while not self.is_stopped:
                # A poll that ends between SyncGroup and its reply loses the assignment in this client, so it gets time.
                records = consumer.poll(timeout_ms=300)
                self.note(part.partition for part in consumer.assignment())
                self.read(record.value for part in records.values() for record in part)
                if self.uncommitted:
                    with contextlib.suppress(kafka.errors.KafkaError):
                        consumer.commit()
                        self.uncommitted = False
        finally:
            consumer.close()


class AiokafkaMember(Member):
    """aiokafka."""

    client = "aiokafka"
    strategies = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from aiokafka.errors import KafkaError

        strategies = {
            "range": RangePartitionAssignor,
            "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.servers,
            group_id=self.group,
            client_id=self.name,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=self.poll_interval_ms,
            partition_assignment_strategy=[strategies[self.strategy]],
        )
        await consumer.start()
        try:
            while not self.is_stopped:
                records = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                self.note(part.partition for part in consumer.assignment())
                self.read(record.value for part in records.values() for record in part)
                if self.uncommitted:
                    with contextlib.suppress(KafkaError):
                        await consumer.commit()
                        self.uncommitted = False
        finally:
            await consumer.stop()


class TidelogMember(Member):
    """Our own consumer, to be mixed with the others."""

    client = "tidelog"
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def consume(self) -> None:
        from tidelog.client import Consumer
        from tidelog.client.errors import ClientError

        with Consumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            client_id=self.name,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=self.poll_interval_ms,
            partition_assignment_strategy=self.strategy,
            retry_backoff_ms=20,
        ) as consumer:
            consumer.subscribe([self.topic])
            while not self.is_stopped:
                records = consumer.poll(POLL_S)
                self.note(part.partition for part in consumer.assignment)
                self.read(record.value for record in records if record.value is not None)
                if self.uncommitted:
                    with contextlib.suppress(ClientError):
                        consumer.commit()
                        self.uncommitted = False


class ConsumerProtocolMember(ConfluentMember):
    """librdkafka with `group.protocol=consumer` (KIP-848): assignor and timeouts are the broker's business."""

    client = "confluent-kafka, consumer protocol"
    strategies = ("uniform", "range")

    def settings(self) -> dict[str, object]:
        settings = super().settings()
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
            del settings[name]
        return {**settings, "group.protocol": "consumer", "group.remote.assignor": self.strategy}


MEMBERS: tuple[type[Member], ...] = (ConfluentMember, KafkaPythonMember, AiokafkaMember)


@contextlib.contextmanager
def running(*members: Member) -> Iterator[None]:
    """Members that run inside the block and leave at its end; none of them may have failed."""
    for member in members:
        member.start()
    try:
        yield
    finally:
        for member in members:
            member._stop.set()
        for member in members:
            member.stop()
        for member in members:
            if member.error is not None:
                raise AssertionError(f"{member.name} failed") from member.error


def share(members: Iterable[Member], partitions: int) -> bool:
    """Whether the members have the partitions between them, each partition once, and every member at least one."""
    members = list(members)
    held = [partition for member in members for partition in member.assignment]
    return sorted(held) == list(range(partitions)) and all(member.assignment for member in members)
