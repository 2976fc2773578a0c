"""A table through a producer: encoding goes one piece ahead of sending. Called by `send_arrow` of both producers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tidelog.client.aio.background import BackgroundLoop
from tidelog.client.aio.producer.delivery import BlockingDelivery, Delivery
from tidelog.client.aio.producer.engine import ProducerEngine
from tidelog.client.aio.producer.table_delivery import BlockingTableDelivery, TableDelivery
from tidelog.client.arrow.writing import Meaning, TableWriter
from tidelog.records.kernels.arrow_encode import EncodedBatch


async def send_in_loop(engine: ProducerEngine, table: Any, topic: str, meaning: Meaning) -> TableDelivery:
    """For the asyncio producer: encoding is done in a thread, as the kernels need no interpreter."""
    engine.check_may_send()
    topic_queue = await engine.topic_queue(topic)
    pieces = TableWriter(engine.settings).encode(table, topic, topic_queue.partition_count, meaning)
    deliveries: list[tuple[int, Delivery]] = []
    following = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
    try:
        while (batches := await following) is not None:
            following = asyncio.ensure_future(asyncio.to_thread(next, pieces, None))
            deliveries += await _append(engine, topic, batches)
    finally:
        if not following.done():
            await asyncio.wait([following])
        if not following.cancelled():
            following.exception()
    return TableDelivery(deliveries)


def send_from_thread(
    background: BackgroundLoop, engine: ProducerEngine, table: Any, topic: str, meaning: Meaning
) -> BlockingTableDelivery:
    """For the blocking producer: the calling thread encodes, the producer's loop sends."""
    partition_count = background.run(_partition_count(engine, topic))
    deliveries: list[tuple[int, BlockingDelivery]] = []
    before = None
    for batches in TableWriter(engine.settings).encode(table, topic, partition_count, meaning):
        if before is not None:
            deliveries += before.result()
        before = background.submit(_append(engine, topic, batches))
    if before is not None:
        deliveries += before.result()
    return BlockingTableDelivery(deliveries)


async def _partition_count(engine: ProducerEngine, topic: str) -> int:
    engine.check_may_send()
    return (await engine.topic_queue(topic)).partition_count


async def _append(engine: ProducerEngine, topic: str, batches: Sequence[EncodedBatch]) -> list[tuple[int, Any]]:
    return [
        (batch.record_count, await engine.take_batch(topic, batch.partition, batch.data, batch.record_count))
        for batch in batches
    ]
