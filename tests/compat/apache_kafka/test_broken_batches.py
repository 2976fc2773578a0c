"""What Apache Kafka answers to batches that are not what they say: the column that ours is compared with."""

from __future__ import annotations

import pytest

from benchmarks.apache_kafka import KafkaBroker
from tests.integration.broken_batches import (
    BROKEN_HEADERS,
    BROKEN_RECORDS,
    KEPT,
    KEPT_UNLESS_COMPRESSED,
    NONE,
    UNKNOWN,
    BrokenBatch,
    good_batch,
    sealed,
)
from tests.integration.raw_client import RawClient, produce
from tests.integration.writers import wait_until
from tidelog.records.compression import Codec, compress
from tidelog.records.header import HEADER_BYTES
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_topics

TOPICS = {
    "broken-plain": {},
    "broken-compacted": {"cleanup.policy": "compact"},
    "broken-stamped": {"message.timestamp.type": "LogAppendTime"},
}
CASES = {name: case for name, case in (BROKEN_HEADERS | BROKEN_RECORDS).items() if case.kafkas is not None}


@pytest.fixture(scope="module")
def port(kafka: KafkaBroker) -> int:
    """The port of a Kafka in which every topic has a leader."""
    with RawClient(kafka.port) as client:
        for topic, config in TOPICS.items():
            configs = [create_topics.CreatableTopicConfig(name=name, value=value) for name, value in config.items()]
            creatable = create_topics.CreatableTopic(
                name=topic, num_partitions=1, replication_factor=1, configs=configs
            )
            client.call(messages.CreateTopicsRequest(topics=[creatable], timeout_ms=30_000), 5)

            def is_led(topic: str = topic) -> bool:
                return answer(kafka.port, topic, good_batch()) == NONE

            wait_until(is_led, f"{topic} has a leader")
    return kafka.port


def answer(port: int, topic: str, batch: bytes | None) -> ErrorCode:
    """On a connection of its own, because some answers of Kafka's end the connection."""
    with RawClient(port, timeout_s=5.0) as client:
        return ErrorCode(produce(client, topic, 0, batch).error_code)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_kafka_answers_what_the_table_says(port: int, case: BrokenBatch) -> None:
    answers = {topic: answer(port, topic, case.records) for topic in TOPICS}
    assert answers == dict.fromkeys(TOPICS, case.kafkas)


@pytest.mark.parametrize("name", KEPT)
def test_kafka_keeps_what_the_table_says(port: int, name: str) -> None:
    batch = KEPT[name]
    assert {answer(port, topic, batch) for topic in TOPICS} == {NONE}
    if name in KEPT_UNLESS_COMPRESSED:
        compressed = sealed(compress(Codec.LZ4, batch[HEADER_BYTES:]), attributes=Codec.LZ4, count=2)
        assert {answer(port, topic, compressed) for topic in TOPICS} == {UNKNOWN}


def test_wherever_kafka_refuses_a_batch_so_does_this_broker() -> None:
    assert [name for name, case in CASES.items() if case.kafkas != NONE and case.ours == NONE] == []
