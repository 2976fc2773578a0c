"""aiokafka's transactional producer, driven from outside of its loop."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from tests.compat.transactions.clients.types import DEADLINE_S, Fenced

T = TypeVar("T")


class AiokafkaClient:
    name = "aiokafka"

    @contextmanager
    def producer(
        self, servers: str, transactional_id: str, *, timeout_ms: int = 30_000
    ) -> Iterator["_AiokafkaProducer"]:
        with asyncio.Runner() as runner:

            def run(action: Coroutine[Any, Any, T]) -> T:
                return runner.run(asyncio.wait_for(action, DEADLINE_S))

            async def start() -> AIOKafkaProducer:
                producer = AIOKafkaProducer(
                    bootstrap_servers=servers, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
                )
                await producer.start()
                return producer

            producer = run(start())
            try:
                yield _AiokafkaProducer(producer, run)
            finally:
                run(producer.stop())


class _AiokafkaProducer:
    def __init__(self, producer: AIOKafkaProducer, run: Any) -> None:
        self._producer = producer
        self._run = run

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> int:
        try:
            return int(self._run(self._producer.send_and_wait(topic, value=value, partition=partition)).offset)
        except KafkaError as error:
            raise Fenced(str(error)) from error

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset, "")}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        try:
            self._run(self._producer.commit_transaction())
        except KafkaError as error:
            raise Fenced(str(error)) from error

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())
