"""confluent-kafka: librdkafka's transactional producer."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Received

from tests.compat.transactions.clients.types import DEADLINE_S, Fenced
from tests.unit.present import present


class ConfluentClient:
    name = "confluent-kafka"

    @contextmanager
    def producer(
        self, servers: str, transactional_id: str, *, timeout_ms: int = 30_000
    ) -> Iterator["_ConfluentProducer"]:
        producer = Producer(
            {
                "log_level": 0,
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, int(DEADLINE_S * 1000)),
                "linger.ms": 0,
            }
        )
        producer.init_transactions(DEADLINE_S)
        try:
            yield _ConfluentProducer(producer, servers)
        finally:
            producer.purge()
            with suppress(KafkaException):  # a fenced producer says so once more
                producer.flush(1)


class _ConfluentProducer:
    def __init__(self, producer: Producer, servers: str) -> None:
        self._producer = producer
        self._servers = servers

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> int:
        outcome: list[tuple[KafkaError | None, Received]] = []
        self._producer.produce(
            topic, value=value, partition=partition, on_delivery=lambda error, sent: outcome.append((error, sent))
        )
        self._producer.flush(DEADLINE_S)
        error, sent = outcome[0]
        if error is not None:
            raise Fenced(str(error))
        return present(sent.offset())

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer({"log_level": 0, "bootstrap.servers": self._servers, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            offsets = [TopicPartition(topic, partition, offset)]
            self._producer.send_offsets_to_transaction(offsets, metadata, DEADLINE_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(DEADLINE_S)
        except KafkaException as error:
            if error.args[0].fatal() or error.args[0].txn_requires_abort():
                raise Fenced(str(error)) from error
            raise

    def abort(self) -> None:
        self._producer.abort_transaction(DEADLINE_S)
