"""Deleting a topic while its records are being written, synced and expired: the topic goes, the broker stays."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from tests.integration.raw_client import RawClient, batch_of, produce, produce_request
from tests.integration.writers import wait_until
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import delete_topics

TOPIC = "fleeting"
PARTITIONS = 2
ROUNDS = 25
SETTINGS = {
    "log.segment.delete.delay.ms": 0,
    "log.initial.task.delay.ms": 1,
    "log.flush.scheduler.interval.ms": 3,
    "log.retention.check.interval.ms": 5,
}
CONFIG = {
    "flush.messages": 1,
    "flush.ms": 1,
    "segment.bytes": 4000,
    "retention.bytes": 8000,
    "file.delete.delay.ms": 0,
}


class Pest(threading.Thread):
    """Writes on, whether or not the topic is there. Every request must be answered."""

    def __init__(self, port: int) -> None:
        super().__init__(name="pest", daemon=True)
        self._port = port
        self._stopping = threading.Event()
        self.codes: set[ErrorCode] = set()
        self.written = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        batches: dict[int, bytes | None] = {index: batch_of([b"v" * 300] * 5) for index in range(PARTITIONS)}
        try:
            with RawClient(self._port, timeout_s=10) as client:
                while not self._stopping.is_set():
                    for _ in range(5):
                        client.send(produce_request(TOPIC, batches), 9)
                    for _ in range(5):
                        for partition in client.answer(messages.ProduceRequest, 9).responses[0].partition_responses:
                            self.codes.add(ErrorCode(partition.error_code))
                            self.written += partition.error_code == ErrorCode.NONE
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)
        if self.failure is not None:
            raise self.failure


@pytest.mark.timeout(120)
def test_a_topic_may_be_deleted_at_any_moment_of_its_life() -> None:
    """A sync of files that are being renamed and removed once took the whole log directory offline."""
    with Broker(SETTINGS, process=True) as broker, RawClient(broker.port) as client:
        pests = [Pest(broker.port) for _ in range(3)]
        for pest in pests:
            pest.start()
        for _ in range(ROUNDS):
            broker.create_topic(TOPIC, PARTITIONS, config=CONFIG)
            goal = sum(pest.written for pest in pests) + 60
            wait_until(
                partial(lambda goal: sum(pest.written for pest in pests) > goal or has_failed(pests), goal), "records"
            )
            asked = delete_topics.DeleteTopicState(name=TOPIC)
            response = client.call(messages.DeleteTopicsRequest(topics=[asked], timeout_ms=5000))
            assert response.responses[0].error_code == ErrorCode.NONE, response
        for pest in pests:
            pest.stop()
        found_codes = set().union(*(pest.codes for pest in pests))
        assert found_codes <= {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        broker.create_topic("other", 1)
        assert produce(client, "other", 0, batch_of([b"value"])).error_code == ErrorCode.NONE
        for word in ("Traceback", "offline", "CRITICAL", "ERROR"):
            assert word not in broker.logs, broker.logs[-4000:]


def has_failed(pests: list[Pest]) -> bool:
    return any(pest.failure is not None for pest in pests)
