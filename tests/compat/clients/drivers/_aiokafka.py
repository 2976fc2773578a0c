"""aiokafka: asyncio, in older versions of every API (Produce 7, Fetch 11, ApiVersions 0)."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import BrokerResponseError
from aiokafka.structs import ConsumerRecord

from tests.compat.clients.drivers.types import DEADLINE_S, Message, Refused, Stored


class AiokafkaDriver:
    """Its codecs come with it."""

    name = "aiokafka"

    def has_codec(self, codec: str) -> bool:
        return True

    def produce(
        self,
        servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool | None = None,
        batch_bytes: int = 1 << 20,
    ) -> list[int]:
        async def run() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=bool(idempotent),
                linger_ms=20,
                max_batch_size=batch_bytes,
                max_request_size=20 << 20,
            )
            await producer.start()
            try:
                return await _send_all(producer, topic, partition, messages, without_offsets=acks == "0")
            finally:
                await producer.stop()

        try:
            return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))
        except BrokerResponseError as error:
            raise Refused(error.errno, str(error)) from error

    def consume(
        self,
        servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        isolation: str = "read_uncommitted",
        partition_bytes: int = 1 << 20,
    ) -> list[Stored]:
        async def run() -> list[Stored]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=servers,
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level=isolation,
                max_partition_fetch_bytes=partition_bytes,
                fetch_max_wait_ms=100,
            )
            await consumer.start()
            try:
                place = TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, offset)
                return [_stored(await consumer.getone(place)) for _ in range(count)]
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))

    def watermarks(self, servers: str, topic: str, *, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)

        async def run() -> tuple[int, int]:
            async with AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
                low = await consumer.beginning_offsets([place])
                high = await consumer.end_offsets([place])
                return low[place], high[place]

        return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))

    def offset_for_time(self, servers: str, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)

        async def run() -> int | None:
            async with AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
                return None if found is None else found.offset

        return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


async def _send_all(
    producer: AIOKafkaProducer, topic: str, partition: int, messages: Sequence[Message], *, without_offsets: bool
) -> list[int]:
    futures = [
        await producer.send(
            topic,
            value=message.value,
            key=message.key,
            headers=list(message.headers),
            partition=partition,
            timestamp_ms=message.timestamp,
        )
        for message in messages
    ]
    metadata = await asyncio.gather(*futures)
    return [-1 if without_offsets else entry.offset for entry in metadata]


def _stored(record: ConsumerRecord) -> Stored:
    return Stored(
        record.offset, record.timestamp, record.timestamp_type, record.key, record.value, tuple(record.headers)
    )
