"""Clients that never stop: producers of every kind, readers and groups of three client libraries, each in a thread.

Each client writes into one `History` what it sent, what was acknowledged and what it read. An error does not end it: it
is counted, and the client goes on with a new producer or consumer, as a supervised application would. Deliveries are
not given up for a minute, so that nearly every send ends in an acknowledgement.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import random
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import ConsumerRebalanceListener as AioRebalanceListener
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.unit.present import present
from tidelog.testing.simulation.history import History, Outcome, Place, Reader, Send, Transaction, Verdict

with warnings.catch_warnings():
    # It reads its message definitions with a function that Python 3.11 deprecated and 3.13 brought back.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.errors

EVENTS: Final = "events"
ORDERS: Final = "orders"
"""Records of transactions."""
COPIES: Final = "copies"
"""What consume-transform-produce writes: each record of `events`, once."""
TOPICS: Final = (EVENTS, ORDERS, COPIES)
PARTITIONS: Final = 3

DELIVERY_S: Final = 90
TRANSACTION_S: Final = 20
_NO_BROKERS: Final = "Did we not perform bootstrap?"
"""What aiokafka says if a broker that has just started names no brokers, as Kafka's also do."""
_PAUSE_S: Final = 0.3
_BETWEEN_S: Final = (0.02, 0.12)
_STOP_S: Final = DELIVERY_S + 30.0
_CONFLUENT: Final[dict[str, Any]] = {
    "log_level": 0,
    "socket.timeout.ms": 4_000,
    "socket.connection.setup.timeout.ms": 3_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 3_000,
}
_CONFLUENT_PRODUCER: Final = {**_CONFLUENT, "message.timeout.ms": DELIVERY_S * 1000, "linger.ms": 5}
CONFLUENT_IDEMPOTENT: dict[str, Any] = {"enable.idempotence": True}
_CONFLUENT_TRANSACTIONS: Final = {
    **_CONFLUENT_PRODUCER,
    "transaction.timeout.ms": TRANSACTION_S * 1000,
    "message.timeout.ms": TRANSACTION_S * 1000,
}
_CONFLUENT_CONSUMER: Final = {
    **_CONFLUENT,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 1_000,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
}
_KAFKA_PYTHON: Final = {
    "request_timeout_ms": 4_000,
    "reconnect_backoff_max_ms": 500,
    "metadata_max_age_ms": 3_000,
}
_AIOKAFKA: Final = {"request_timeout_ms": 4_000, "metadata_max_age_ms": 3_000, "retry_backoff_ms": 50}


# They log every fault that they meet.
for _library in ("aiokafka", "kafka"):
    logging.getLogger(_library).setLevel(logging.CRITICAL + 1)


class _BrokenSenders(logging.Handler):
    """kafka-python's producers whose thread meets the same exception for ever: they send nothing any more."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.exceptions: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if "Uncaught error" in record.msg and record.exc_info:
            self.exceptions[record.threadName or ""] = repr(record.exc_info[1])


_broken_senders = _BrokenSenders()
_sender_logger = logging.getLogger("kafka.producer.sender")
_sender_logger.setLevel(logging.ERROR)
_sender_logger.propagate = False
_sender_logger.addHandler(_broken_senders)


class Load:
    """All clients of one schedule."""

    def __init__(self, history: History, servers: str, chance: random.Random) -> None:
        self.history = history
        self.servers = servers
        self.chance = chance
        self.counts = Counter[str]()
        self.acknowledgements: dict[Place, list[float]] = {}
        """When records with acks=all were acknowledged."""
        self.crashed: list[str] = []
        """Clients that ended with an exception that none of their libraries should raise."""
        self.copied: dict[bytes, tuple[str, int, int]] = {}
        """Topic, partition and offset of the record that was read, by the value of its copy."""
        self._quiet = threading.Event()
        self._ended = threading.Event()
        self._threads: list[tuple[bool, threading.Thread]] = []
        self._numbers = Counter[str]()

    # --- life ---

    def start(self, libraries: Sequence[str] = ("confluent", "kafka-python", "aiokafka")) -> None:
        producers: list[tuple[str, Callable[[str], None]]] = [
            ("confluent-idempotent", lambda name: confluent_produce(self, name)),
            ("confluent-transactions", lambda name: confluent_transact(self, name)),
            ("confluent-copier", lambda name: confluent_copy(self, name)),
            ("kafka-python-idempotent", lambda name: kafka_python_produce(self, name, acks="all")),
            ("kafka-python-leader-only", lambda name: kafka_python_produce(self, name, acks=1)),
            ("aiokafka-idempotent", lambda name: asyncio.run(aiokafka_produce(self, name))),
            ("aiokafka-transactions", lambda name: asyncio.run(aiokafka_transact(self, name))),
        ]
        consumers: list[tuple[str, Callable[[str], None]]] = [
            ("confluent-reader", lambda name: confluent_read(self, name, EVENTS, is_committed_only=False)),
            ("confluent-committed", lambda name: confluent_read(self, name, ORDERS, is_committed_only=True)),
            ("confluent-member", lambda name: confluent_join(self, name, "librdkafka")),
            ("confluent-member-2", lambda name: confluent_join(self, name, "librdkafka")),
            ("kafka-python-member", lambda name: kafka_python_join(self, name, "kafka-python")),
            ("aiokafka-member", lambda name: asyncio.run(aiokafka_join(self, name, "aiokafka"))),
        ]
        for is_producer, clients in ((True, producers), (False, consumers)):
            for name, live in clients:
                if name.startswith(tuple(libraries)):
                    self.add(name, live, is_producer=is_producer)

    def add(self, name: str, live: Callable[[str], None], *, is_producer: bool) -> None:
        """Run a client until it is stopped, again and again."""
        thread = threading.Thread(target=self._keep, args=(name, live, is_producer), name=name, daemon=True)
        self._threads.append((is_producer, thread))
        thread.start()

    def _keep(self, name: str, live: Callable[[str], None], is_producer: bool) -> None:
        is_over = self._quiet if is_producer else self._ended
        while not is_over.is_set():
            try:
                live(name)
            except (KafkaException, AioKafkaError, kafka.errors.KafkaError, TimeoutError) as error:
                self.counts[f"{name} began again after {_name_of(error)}"] += 1
                time.sleep(_PAUSE_S)
            except Exception as error:
                if _NO_BROKERS in str(error):
                    self.counts[f"{name} began again, as it knew no brokers"] += 1
                    time.sleep(_PAUSE_S)
                    continue
                self.crashed.append(f"{name} crashed: {error!r}")
                return

    @property
    def is_producing(self) -> bool:
        return not self._quiet.is_set()

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    def wait_for_quiet(self) -> None:
        """Return when producers are to end."""
        self._quiet.wait()

    def wait_for_end(self) -> None:
        """Return when all clients are to end."""
        self._ended.wait()

    def stop_producing(self) -> list[str]:
        """Let producers finish what is under way; those that do not."""
        self._quiet.set()
        return self._join(lambda is_producer: is_producer)

    def stop(self) -> list[str]:
        self._quiet.set()
        self._ended.set()
        return self._join(lambda _: True)

    def _join(self, which: Callable[[bool], bool]) -> list[str]:
        deadline = time.monotonic() + _STOP_S
        waited = [thread for is_producer, thread in self._threads if which(is_producer)]
        for thread in waited:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [f"{thread.name} does not stop{self._open_sends(thread.name)}" for thread in waited if thread.is_alive()]

    def _open_sends(self, name: str) -> str:
        """The sends of a client that were neither acknowledged nor failed."""
        values = [
            send.value.decode()
            for send in self.history.sends.values()
            if send.outcome is Outcome.UNKNOWN and (send.producer or "").startswith(name) and send.place is None
        ]
        return f", waiting for {', '.join(values[:5])} ({len(values)} in all)" if values else ""

    # --- notes ---

    def new_value(self, name: str) -> bytes:
        self._numbers[name] += 1
        self.counts["sends"] += 1
        return f"{name}-{self._numbers[name]}".encode()

    def acknowledged(self, send: Send, place: Place, offset: int) -> None:
        send.acknowledged(place, offset)
        self.counts["acknowledged sends"] += 1
        if send.acks_all:
            self.acknowledgements.setdefault(place, []).append(time.monotonic())
        if send.transaction is not None:
            # It counts once the transaction is committed.
            send.outcome = Outcome.UNKNOWN

    def failed(self, name: str, error: object) -> None:
        self.counts["sends without an acknowledgement"] += 1
        self.counts[f"{name} failed a send: {_name_of(error)}"] += 1

    def saw(self, reader: Reader, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        reader.saw((topic, partition), offset, value or b"")
        self.counts["reads"] += 1

    def pause(self) -> float:
        return self.chance.uniform(*_BETWEEN_S)

    def instance(self, name: str) -> str:
        """A name for one life of a client."""
        self._numbers[f"{name} lives"] += 1
        return f"{name}/{self._numbers[f'{name} lives']}"


def _name_of(error: object) -> str:
    if isinstance(error, KafkaException):
        error = error.args[0]
    if isinstance(error, str):
        return error
    return error.name() if isinstance(error, KafkaError) else type(error).__name__


# --- librdkafka ---


def confluent_produce(load: Load, name: str) -> None:
    producer = Producer({**_CONFLUENT_PRODUCER, **CONFLUENT_IDEMPOTENT, "bootstrap.servers": load.servers})
    instance = load.instance(name)
    broken: list[KafkaError] = []
    while load.is_producing and not broken:
        for _ in range(load.chance.randrange(1, 5)):
            value = load.new_value(name)
            _confluent_send(load, name, producer, EVENTS, value, load.history.send(value, producer=instance), broken)
        producer.poll(load.pause())
    producer.flush(DELIVERY_S)
    if broken:
        raise KafkaException(broken[0])


def _confluent_send(
    load: Load, name: str, producer: Producer, topic: str, value: bytes, send: Send, broken: list[KafkaError]
) -> None:
    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is None:
            # A batch that the broker had already has no offset.
            offset = message.offset()
            load.acknowledged(send, (topic, message.partition()), -1 if offset is None else offset)
        elif error.code() != KafkaError._PURGE_QUEUE:
            # An aborted transaction purges what was not sent yet.
            load.failed(name, error)
            broken.append(error)

    producer.produce(topic, value, partition=load.chance.randrange(PARTITIONS), on_delivery=on_delivery)


def confluent_transact(load: Load, name: str) -> None:
    producer = Producer({**_CONFLUENT_TRANSACTIONS, "bootstrap.servers": load.servers, "transactional.id": name})
    _retrying(load, lambda: producer.init_transactions(5))
    instance = load.instance(name)
    while load.is_producing:
        transaction = Transaction()
        broken: list[KafkaError] = []
        producer.begin_transaction()
        for _ in range(load.chance.randrange(1, 6)):
            value = load.new_value(name)
            send = load.history.send(value, transaction=transaction, producer=instance)
            _confluent_send(load, name, producer, ORDERS, value, send, broken)
        if load.chance.random() < 0.25:
            _abort(load, producer, transaction)
        else:
            _commit(load, producer, transaction)
        producer.poll(load.pause())


def _commit(load: Load, producer: Producer, transaction: Transaction) -> None:
    try:
        _retrying(load, lambda: producer.commit_transaction(5))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        _abort(load, producer, transaction)
        return
    transaction.verdict = Verdict.COMMITTED
    load.counts["transactions committed"] += 1


def _abort(load: Load, producer: Producer, transaction: Transaction) -> None:
    _retrying(load, lambda: producer.abort_transaction(5))
    transaction.verdict = Verdict.ABORTED
    load.counts["transactions aborted"] += 1


def _retrying(load: Load, work: Callable[[], Any]) -> None:
    """librdkafka's transactional calls may be repeated where the error says so.

    Not for ever: a new producer may get on where an old one does not.
    """
    deadline = time.monotonic() + TRANSACTION_S / 2
    while True:
        try:
            work()
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            load.counts[f"retried {_name_of(error)}"] += 1


def _bounded(load: Load, client: Producer | Consumer, work: Callable[[], Any]) -> None:
    """Call librdkafka, and abandon the client if the call does not return.

    librdkafka 2.16 waits for ever, whatever the timeout, for the coordinator of a group on a broker that was missing in
    Metadata for a while. Such a client cannot be closed either, so it is kept until the process ends.
    """
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="librdkafka-call", daemon=True)
    thread.start()
    thread.join(TRANSACTION_S)
    if thread.is_alive():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
        load.counts["calls of librdkafka that did not return"] += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT_QUEUE))
    if errors:
        raise errors[0]


def confluent_copy(load: Load, name: str) -> None:
    """Consume, transform, produce: each record of `events` is copied in a transaction with the offset of the group."""
    instance = load.instance(name)
    producer = Producer({**_CONFLUENT_TRANSACTIONS, "bootstrap.servers": load.servers, "transactional.id": name})
    _retrying(load, lambda: producer.init_transactions(5))
    consumer = Consumer(
        {**_CONFLUENT_CONSUMER, "bootstrap.servers": load.servers, "group.id": name}
        | {"isolation.level": "read_committed"}
    )
    try:
        consumer.subscribe([EVENTS])
        while load.is_producing:
            messages = [message for message in consumer.consume(20, 0.3) if message.error() is None]
            if messages:
                _copy(load, name, instance, producer, consumer, messages)
    finally:
        _bounded(load, consumer, consumer.close)


def _copy(load: Load, name: str, instance: str, producer: Producer, consumer: Consumer, messages: list[Any]) -> None:
    transaction = Transaction()
    broken: list[KafkaError] = []
    producer.begin_transaction()
    for message in messages:
        value = load.new_value(name)
        load.copied[value] = message.topic(), message.partition(), message.offset()
        send = load.history.send(value, transaction=transaction, producer=instance)
        _confluent_send(load, name, producer, COPIES, value, send, broken)
    offsets = {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
    positions = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    try:
        metadata = consumer.consumer_group_metadata()
        commit_offsets = partial(producer.send_offsets_to_transaction, positions, metadata, 5)
        _bounded(load, producer, lambda: _retrying(load, commit_offsets))
    except KafkaException as error:
        if error.args[0].txn_requires_abort():
            _abort(load, producer, transaction)
        raise
    _commit(load, producer, transaction)
    if transaction.verdict is not Verdict.COMMITTED:
        # The consumer is past what was not copied: begin again from the group's offsets.
        raise KafkaException(KafkaError(KafkaError._STATE))


def confluent_read(load: Load, name: str, topic: str, *, is_committed_only: bool) -> None:
    """Read a topic from its beginning to the end of the schedule."""
    isolation = "read_committed" if is_committed_only else "read_uncommitted"
    settings = {"bootstrap.servers": load.servers, "group.id": name, "isolation.level": isolation}
    consumer = Consumer({**_CONFLUENT_CONSUMER, **settings})
    reader = load.history.reader(load.instance(name), is_committed_only=is_committed_only, group=name)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        while load.is_running:
            _note(load, reader, consumer.consume(100, 0.2))
    finally:
        consumer.close()


def _note(load: Load, reader: Reader, messages: Iterable[Any]) -> bool:
    has_read = False
    for message in messages:
        if message.error() is None:
            load.saw(reader, message.topic(), message.partition(), message.offset(), message.value())
            has_read = True
        elif message.error().fatal():
            raise KafkaException(message.error())
    return has_read


def confluent_join(load: Load, name: str, group: str) -> None:
    consumer = Consumer({**_CONFLUENT_CONSUMER, "bootstrap.servers": load.servers, "group.id": group})
    readers = [load.history.reader(load.instance(name), group=group)]

    def on_assign(_consumer: Consumer, _partitions: object) -> None:
        readers.append(load.history.reader(load.instance(name), group=group))
        load.counts["assignments"] += 1

    consumer.subscribe([EVENTS], on_assign=on_assign)
    try:
        while load.is_running:
            messages = consumer.consume(50, 0.2)
            if _note(load, readers[-1], messages):
                try:
                    _bounded(load, consumer, lambda: consumer.commit(asynchronous=False))
                    load.counts["commits"] += 1
                except KafkaException as error:
                    load.counts[f"commits that failed: {_name_of(error)}"] += 1
                    if error.args[0].code() == KafkaError._TIMED_OUT_QUEUE:
                        raise
    finally:
        _bounded(load, consumer, consumer.close)


# --- kafka-python ---


def kafka_python_produce(load: Load, name: str, *, acks: str | int) -> None:
    is_idempotent = acks == "all"
    producer = kafka.KafkaProducer(
        bootstrap_servers=load.servers.split(","),
        acks=acks,
        enable_idempotence=is_idempotent,
        delivery_timeout_ms=DELIVERY_S * 1000,
        max_block_ms=30_000,
        linger_ms=5,
        **_KAFKA_PYTHON,
    )
    instance = load.instance(name)
    broken: list[BaseException] = []
    try:
        while load.is_producing and not broken:
            failure = _broken_senders.exceptions.pop(producer._sender.name, None)
            if failure is not None:
                load.counts[f"{name}'s thread met {failure}"] += 1
                producer.close(0)
                return
            for _ in range(load.chance.randrange(1, 4)):
                value = load.new_value(name)
                send = load.history.send(value, acks_all=acks == "all", idempotent=is_idempotent, producer=instance)
                _kafka_python_send(load, name, producer, value, send, broken)
            time.sleep(load.pause())
        producer.flush(DELIVERY_S)
    finally:
        producer.close(5)
    if broken:
        raise broken[0]


def _kafka_python_send(
    load: Load, name: str, producer: Any, value: bytes, send: Send, broken: list[BaseException]
) -> None:
    def failed(error: BaseException) -> None:
        load.failed(name, error)
        broken.append(error)

    future = producer.send(EVENTS, value=value, partition=load.chance.randrange(PARTITIONS))
    future.add_callback(lambda where: load.acknowledged(send, (where.topic, where.partition), where.offset))
    future.add_errback(failed)


def kafka_python_join(load: Load, name: str, group: str) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=load.servers.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
        fetch_max_wait_ms=100,
        **{**_KAFKA_PYTHON, "request_timeout_ms": 8_000},
    )
    readers = [load.history.reader(load.instance(name), group=group)]

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: object) -> None:
            pass

        def on_partitions_assigned(self, assigned: object) -> None:
            readers.append(load.history.reader(load.instance(name), group=group))
            load.counts["assignments"] += 1

    try:
        consumer.subscribe([EVENTS], listener=Listener())
        while load.is_running:
            polled = consumer.poll(200)
            for records in polled.values():
                for record in records:
                    load.saw(readers[-1], record.topic, record.partition, record.offset, record.value)
            if polled:
                try:
                    consumer.commit(timeout_ms=5_000)
                    load.counts["commits"] += 1
                except kafka.errors.KafkaError as error:
                    load.counts[f"commits that failed: {_name_of(error)}"] += 1
    finally:
        consumer.close()


# --- aiokafka ---


async def aiokafka_produce(load: Load, name: str) -> None:
    instance = load.instance(name)
    producer = AIOKafkaProducer(bootstrap_servers=load.servers, enable_idempotence=True, **_AIOKAFKA)
    await producer.start()
    try:
        while load.is_producing:
            sending = []
            for _ in range(load.chance.randrange(1, 4)):
                value = load.new_value(name)
                send = load.history.send(value, producer=instance)
                partition = load.chance.randrange(PARTITIONS)
                sending.append((send, await producer.send(EVENTS, value, partition=partition)))
            await _acknowledge(load, name, sending)
            await asyncio.sleep(load.pause())
    finally:
        await asyncio.wait_for(producer.stop(), 30)


async def _acknowledge(load: Load, name: str, sending: list[tuple[Send, Any]]) -> None:
    for send, future in sending:
        try:
            where = await asyncio.wait_for(future, DELIVERY_S)
        except (AioKafkaError, TimeoutError) as error:
            load.failed(name, error)
            raise
        load.acknowledged(send, (where.topic, where.partition), where.offset)


async def aiokafka_transact(load: Load, name: str) -> None:
    instance = load.instance(name)
    producer = AIOKafkaProducer(
        bootstrap_servers=load.servers, transactional_id=name, transaction_timeout_ms=TRANSACTION_S * 1000, **_AIOKAFKA
    )
    await producer.start()
    try:
        while load.is_producing:
            transaction = Transaction()
            await producer.begin_transaction()
            sending = []
            for _ in range(load.chance.randrange(1, 6)):
                value = load.new_value(name)
                send = load.history.send(value, transaction=transaction, producer=instance)
                partition = load.chance.randrange(PARTITIONS)
                sending.append((send, await producer.send(ORDERS, value, partition=partition)))
            await _acknowledge(load, name, sending)
            if load.chance.random() < 0.25:
                await producer.abort_transaction()
                transaction.verdict = Verdict.ABORTED
                load.counts["transactions aborted"] += 1
            else:
                await producer.commit_transaction()
                transaction.verdict = Verdict.COMMITTED
                load.counts["transactions committed"] += 1
            await asyncio.sleep(load.pause())
    finally:
        await asyncio.wait_for(producer.stop(), 30)


async def aiokafka_join(load: Load, name: str, group: str) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=load.servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
        fetch_max_wait_ms=100,
        **_AIOKAFKA,
    )
    readers = [load.history.reader(load.instance(name), group=group)]

    class Listener(AioRebalanceListener):
        def on_partitions_revoked(self, revoked: object) -> None:
            pass

        def on_partitions_assigned(self, assigned: object) -> None:
            readers.append(load.history.reader(load.instance(name), group=group))
            load.counts["assignments"] += 1

    consumer.subscribe([EVENTS], listener=Listener())
    await consumer.start()
    try:
        while load.is_running:
            polled = await consumer.getmany(timeout_ms=200)
            for records in polled.values():
                for record in records:
                    load.saw(readers[-1], record.topic, record.partition, record.offset, record.value)
            if polled:
                try:
                    await consumer.commit()
                    load.counts["commits"] += 1
                except AioKafkaError as error:
                    load.counts[f"commits that failed: {_name_of(error)}"] += 1
    finally:
        await asyncio.wait_for(consumer.stop(), 30)


# --- the end ---


def read_everything(servers: str, history: History, seconds: float = 60.0) -> list[str]:
    """Read what the log holds, with and without the records of open and aborted transactions; partitions unread."""
    unread = []
    for reader, isolation in ((history.final, "read_uncommitted"), (history.final_committed, "read_committed")):
        settings = {"bootstrap.servers": servers, "group.id": "end", "isolation.level": isolation}
        consumer = Consumer({**_CONFLUENT_CONSUMER, **settings, "enable.partition.eof": True})
        left = {(topic, number) for topic in TOPICS for number in range(PARTITIONS)}
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in sorted(left)])
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    place = present(message.topic()), present(message.partition())
                    reader.saw(place, present(message.offset()), present(message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard((message.topic(), message.partition()))
        consumer.close()
        unread += [f"not readable to its end with {isolation}: {topic}-{number}" for topic, number in sorted(left)]
    return unread


def copying_errors(load: Load) -> list[str]:
    """Records of `events` whose committed copies are not exactly one. The copier may not have come to the end.

    A record is told by its offset: a producer that is not idempotent may have written its value twice.
    """
    times = Counter[tuple[str, int, int]]()
    for (topic, _), reads in load.history.final_committed.reads.items():
        if topic == COPIES:
            times.update(load.copied[value] for _, value in reads if value in load.copied)
    found = [
        f"duplicate: offset {offset} of {topic}-{number} was copied {count} times"
        for (topic, number, offset), count in times.items()
        if count > 1
    ]
    for place, reads in load.history.final_committed.reads.items():
        if place[0] != EVENTS:
            continue
        copied = [each.offset for each in reads if times[*place, each.offset]]
        skipped = [each for each in reads if copied and each.offset < max(copied) and not times[*place, each.offset]]
        found += [f"skipped record: {each.value!r} of {place[0]}-{place[1]} was never copied" for each in skipped[:1]]
    return found
