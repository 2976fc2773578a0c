"""Faults that a test asks for happen to clients that others wrote, and to the requests that were named alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.servers import until
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def module_broker() -> Iterator[Broker]:
    with Broker(faults=True) as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture
def broker(module_broker: Broker) -> Iterator[Broker]:
    yield module_broker
    module_broker.faults.heal()
    module_broker.faults.happened.clear()


def send(broker: Broker, **settings: Any) -> KafkaError | None:
    """The error that a record came to."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 20_000, **settings})
    producer.produce("orders", b"a record", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0]


def read_all(broker: Broker, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    try:
        return [message.value() for message in consumer.consume(count, 20)]
    finally:
        consumer.close()


def test_an_error_that_may_be_retried_is_retried(broker: Broker) -> None:
    broker.faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert send(broker) is None
    assert broker.faults.happened == ["Produce", "Produce"]
    assert broker.faults.waiting == []


def test_an_error_that_may_not_be_reaches_the_application(broker: Broker) -> None:
    broker.faults.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    error = send(broker)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_lost_reply_is_where_idempotence_matters() -> None:
    """The record is written, its producer sends it again, and only the idempotent one knows better."""
    for is_idempotent, copies in ((False, 2), (True, 1)):
        with Broker(faults=True) as broker:
            broker.create_topic("orders")
            broker.faults.lose_reply_of_next("Produce")
            assert send(broker, **{"enable.idempotence": is_idempotent}) is None
            assert send(broker) is None
            assert len(read_all(broker, copies + 1)) == copies + 1


def test_a_lost_request_is_sent_again(broker: Broker) -> None:
    broker.faults.lose_next("Produce")
    assert send(broker) is None
    assert broker.faults.happened == ["Produce"]


def test_a_response_may_be_changed(broker: Broker) -> None:
    def hide(response: Any) -> None:
        for topic in response.topics:
            topic.error_code, topic.partitions = 29, []

    broker.faults.change_next("Metadata", hide, times=1000)
    shown = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics("orders", timeout=10)
    error = shown.topics["orders"].error
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_group_fails_where_it_is_asked_to(broker: Broker) -> None:
    broker.faults.fail_next("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "commits"})
    try:
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.commit(offsets=[topic_partition("orders", 0, 1)], asynchronous=False)
        committed = consumer.commit(offsets=[topic_partition("orders", 0, 1)], asynchronous=False)
        assert [each.error for each in committed] == [None]
    finally:
        consumer.close()


def topic_partition(topic: str, partition: int, offset: int) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition, offset)


def test_what_is_cut_off_comes_back(broker: Broker) -> None:
    broker.faults.cut()
    outcome: list[KafkaError | None] = []
    sending = threading.Thread(target=lambda: outcome.append(send(broker)))
    sending.start()
    broker.faults.heal()
    sending.join(40)
    assert outcome == [None]


def test_names_that_are_none_are_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match="'Prduce' is no request"):
        broker.faults.fail_next("Prduce", "UNKNOWN_SERVER_ERROR")
    with pytest.raises(ValueError, match="'NO' is no error"):
        broker.faults.fail_next("Produce", "NO")
    with pytest.raises(ValueError, match="listens without TLS"):
        Broker({"listeners": "PLAINTEXT://127.0.0.1:0"}, faults=True)
    with pytest.raises(RuntimeError, match=r"Broker\(faults=True\)"):
        _ = Broker().faults


def test_time_travel_brings_delayed_records() -> None:
    with Broker() as broker:
        broker.create_topic("orders", config={"tidelog.delay.enable": True})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"later", headers={"tidelog-delay": b"2h"})
        assert producer.flush(10) == 0
        assert send(broker) is None
        assert read_all(broker, 1) == [b"a record"]
        broker.travel(hours=3)
        assert read_all(broker, 1) == [b"later"]


def test_time_travel_takes_old_records(tmp_path: Path) -> None:
    config = {"log.retention.check.interval.ms": 1000, "log.initial.task.delay.ms": 0, "log.segment.bytes": 1024}
    with Broker(config, data_dir=tmp_path) as broker:
        broker.create_topic("orders", config={"retention.ms": 3_600_000})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(2):
            producer.produce("orders", b"old" * 250)
            assert producer.flush(10) == 0
        first = tmp_path / "orders-0" / f"{0:020}.log"
        assert first.exists()
        broker.travel(hours=3)
        asyncio.run(until(lambda: not first.exists()))


@pytest.mark.parametrize("process", [False, True])
def test_time_goes_forward_and_only_in_this_process(process: bool) -> None:
    broker = Broker(process=process)
    with pytest.raises((RuntimeError, ValueError), match="Broker\\(\\)" if process else "time goes forward"):
        broker.travel(seconds=-1)
