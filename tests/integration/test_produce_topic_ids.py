"""Produce 13 names topics by their ids: a topic that was made again never takes what was meant for the old one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.raw_client import RawClient, batch_of, describe_topic
from tidelog.client import NewTopic
from tidelog.client.admin import Admin
from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.primitives import NO_UUID

WITH_IDS = 13
WIDE = 600
"""Partitions of a request whose reply is made in slices."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as connected:
        yield connected


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as connected:
        yield connected


def id_of(client: RawClient, topic: str) -> bytes:
    found: bytes = describe_topic(client, topic).topic_id
    return found


def send(client: RawClient, *parts: tuple[bytes, int, bytes]) -> list[tuple[bytes, int, ErrorCode, int]]:
    topics = [
        TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=records)])
        for topic_id, index, records in parts
    ]
    response = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), WITH_IDS)
    return [
        (topic.topic_id, each.index, ErrorCode(each.error_code), each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    ]


def test_records_reach_the_topic_of_the_id(client: RawClient, admin: Admin) -> None:
    admin.create_topics([NewTopic("named", 2)])
    topic_id = id_of(client, "named")
    assert send(client, (topic_id, 1, batch_of([b"a", b"b"]))) == [(topic_id, 1, ErrorCode.NONE, 0)]
    assert send(client, (topic_id, 1, batch_of([b"c"]))) == [(topic_id, 1, ErrorCode.NONE, 2)]
    assert send(client, (topic_id, 2, batch_of([b"d"]))) == [(topic_id, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_an_id_that_no_topic_has_is_refused_beside_one_that_a_topic_has(client: RawClient, admin: Admin) -> None:
    admin.create_topics([NewTopic("beside", 1)])
    known, unknown = id_of(client, "beside"), bytes(range(16))
    assert send(client, (unknown, 0, batch_of([b"a"])), (known, 0, batch_of([b"b"]))) == [
        (unknown, 0, ErrorCode.UNKNOWN_TOPIC_ID, -1),
        (known, 0, ErrorCode.NONE, 0),
    ]
    assert send(client, (NO_UUID, 0, batch_of([b"a"]))) == [(NO_UUID, 0, ErrorCode.UNKNOWN_TOPIC_ID, -1)]


def test_a_topic_that_was_made_again_does_not_take_the_old_ones_records(client: RawClient, admin: Admin) -> None:
    admin.create_topics([NewTopic("again", 1)])
    old = id_of(client, "again")
    assert send(client, (old, 0, batch_of([b"old"])))[0][2] == ErrorCode.NONE
    admin.delete_topics(["again"])
    admin.create_topics([NewTopic("again", 1)])
    new = id_of(client, "again")
    assert new != old
    assert send(client, (old, 0, batch_of([b"late"]))) == [(old, 0, ErrorCode.UNKNOWN_TOPIC_ID, -1)]
    assert send(client, (new, 0, batch_of([b"new"]))) == [(new, 0, ErrorCode.NONE, 0)]


def test_internal_topics_are_refused_by_id_as_by_name(client: RawClient, broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="maker") as producer:
        producer.init_transactions()
    topic_id = id_of(client, "__transaction_state")
    assert send(client, (topic_id, 0, batch_of([b"a"])))[0][2] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_reply_that_is_made_in_slices_names_ids(client: RawClient, admin: Admin) -> None:
    admin.create_topics([NewTopic("wide", WIDE)])
    topic_id = id_of(client, "wide")
    answers = send(client, *((topic_id, index, batch_of([b"x"])) for index in range(WIDE)))
    assert answers == [(topic_id, index, ErrorCode.NONE, 0) for index in range(WIDE)]


def test_our_producer_goes_on_with_a_topic_that_was_made_again(broker: Broker, admin: Admin) -> None:
    admin.create_topics([NewTopic("moving", 1)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("moving", b"old").result()
        admin.delete_topics(["moving"])
        admin.create_topics([NewTopic("moving", 1)])
        assert producer.send("moving", b"new").result().offset == 0
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("moving", 0)])
        assert [each.value for each in consumer.poll(30_000)] == [b"new"]
