"""The frames we write are the message that is declared."""

import pytest

from tests.unit.client.aio.producer.parts import Bench
from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.aio.producer.frames import TOPIC_IDS_FROM, VERSION_MIN, produce_frame
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.primitives import NO_UUID


def batches_of(*places: tuple[str, int]) -> list[ProducerBatch]:
    made = []
    for number, (topic, partition) in enumerate(places):
        batch = ProducerBatch(topic, partition, 0, 1000)
        batch.records = [(5, None, str(number).encode() * 40, ())] * (number + 1)
        batch.seal(bytearray)
        made.append(batch)
    return made


@pytest.mark.parametrize("version", range(VERSION_MIN, ProduceRequest.versions[1] + 1))
@pytest.mark.parametrize("transactional_id", [None, "ïd"])
def test_a_frame_is_the_declared_message(version: int, transactional_id: str | None) -> None:
    batches = batches_of(("one", 0), ("two", 3), ("one", 1))
    topic_ids = {"one": bytes(range(16)), "two": bytes(range(100, 116))} if version >= TOPIC_IDS_FROM else None
    parts = produce_frame(version, 9, "client", transactional_id, -1, 3000, batches, topic_ids)
    frame = b"".join(bytes(part) for part in parts)
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=3000,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=(topic_ids or {}).get(name, NO_UUID),
                partition_data=[
                    PartitionProduceData(index=batch.partition, records=bytes(batch.encoded()))
                    for batch in batches
                    if batch.topic == name
                ],
            )
            for name in ("one", "two")
        ],
    )
    assert frame == encode_request(0, version, 9, "client", request.encode(version))


def test_batches_are_not_copied_into_the_frame() -> None:
    bench = Bench(1)
    bench.add(bytes(5000))
    (batch,) = bench.drain(0)
    parts = produce_frame(11, 1, "client", None, 1, 100, [batch])
    assert next(part for part in parts if isinstance(part, memoryview)).obj is batch.buffer
