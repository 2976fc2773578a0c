"""kafka-python's transactional producer."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.compat.transactions.clients.types import DEADLINE_S, Fenced


class KafkaPythonClient:
    name = "kafka-python"

    @contextmanager
    def producer(
        self, servers: str, transactional_id: str, *, timeout_ms: int = 30_000
    ) -> Iterator["_KafkaPythonProducer"]:
        producer = KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=int(DEADLINE_S * 1000),
            linger_ms=0,
        )
        try:
            producer.init_transactions()
            yield _KafkaPythonProducer(producer)
        finally:
            producer.close(timeout=1)


class _KafkaPythonProducer:
    def __init__(self, producer: KafkaProducer) -> None:
        self._producer = producer

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> int:
        try:
            return int(self._producer.send(topic, value=value, partition=partition).get(DEADLINE_S).offset)
        except KafkaError as error:
            raise Fenced(str(error)) from error

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except KafkaError as error:
            raise Fenced(str(error)) from error

    def abort(self) -> None:
        self._producer.abort_transaction()
