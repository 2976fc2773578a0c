"""Groups as operators see them: listed, described, moved, deleted."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.groups.conftest import PARTITIONS, Produce
from tests.compat.groups.members import ConfluentMember, Readings, running, share, wait_until
from tidelog.testing import Broker


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def only(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(10)


def committed(broker: Broker, group: str, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], 10)
        return {part.partition: part.offset for part in found if part.offset >= 0}
    finally:
        consumer.close()


def test_a_group_is_listed_and_described(broker: Broker, topic: str, admin: AdminClient) -> None:
    member = ConfluentMember(broker.bootstrap_servers, topic, topic, Readings(), "the-client", instance_id="i")
    with running(member):
        wait_until(lambda: share([member], PARTITIONS), "it has all partitions")
        listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(10)
        assert topic in {group.group_id for group in listed.valid}
        described = only(admin.describe_consumer_groups([topic], include_authorized_operations=True))
        assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        assert described.coordinator.port == broker.port
        (seen,) = described.members
        assert (seen.client_id, seen.host, seen.group_instance_id) == ("the-client", "/127.0.0.1", "i")
        assert {part.partition for part in seen.assignment.topic_partitions} == set(range(PARTITIONS))
        assert {operation.name for operation in described.authorized_operations} >= {"READ", "DELETE", "DESCRIBE"}
        listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(10)
        assert topic not in {group.group_id for group in listed.valid}


def test_a_group_that_does_not_exist_is_dead(admin: AdminClient, name: str) -> None:
    assert only(admin.describe_consumer_groups([name])).state is ConsumerGroupState.DEAD


def test_offsets_are_listed_altered_and_deleted(
    broker: Broker, topic: str, produce: Produce, admin: AdminClient
) -> None:
    readings = Readings()
    with running(ConfluentMember(broker.bootstrap_servers, topic, topic, readings, "m")):
        readings.wait_for(produce(60))
        (refused,) = only(admin.alter_consumer_group_offsets([_offsets(topic, 5)])).topic_partitions
        assert refused.error.name() == "UNKNOWN_MEMBER_ID", "while it has members only they commit"
    listed = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]))
    assert {part.partition: part.offset for part in listed.topic_partitions} == dict.fromkeys(range(PARTITIONS), 10)
    only(admin.alter_consumer_group_offsets([_offsets(topic, 5)]))
    assert committed(broker, topic, topic)[0] == 5
    again = Readings()
    with running(ConfluentMember(broker.bootstrap_servers, topic, topic, again, "again")):
        wait_until(lambda: len(again.values()) == 5, "reading on from the altered offset")
    assert only(admin.delete_consumer_groups([topic])) is None
    assert committed(broker, topic, topic) == {}
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        only(admin.delete_consumer_groups([topic]))


def _offsets(topic: str, offset: int) -> ConsumerGroupTopicPartitions:
    return ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, offset)])


def test_a_group_with_members_is_not_deleted(broker: Broker, topic: str, admin: AdminClient) -> None:
    member = ConfluentMember(broker.bootstrap_servers, topic, topic, Readings(), "m")
    with running(member):
        wait_until(lambda: share([member], PARTITIONS), "it has all partitions")
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            only(admin.delete_consumer_groups([topic]))


def test_offsets_of_a_deleted_topic_go_with_it(
    broker: Broker, topic: str, produce: Produce, admin: AdminClient
) -> None:
    readings = Readings()
    with running(ConfluentMember(broker.bootstrap_servers, topic, topic, readings, "m")):
        readings.wait_for(produce(60))
    only(admin.delete_topics([topic]))
    wait_until(lambda: committed(broker, topic, topic) == {}, "the offsets are gone")


def test_a_consumer_without_a_group_commits_for_itself(broker: Broker, topic: str) -> None:
    """It assigns its own partitions and only keeps its offsets here."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.commit(offsets=[TopicPartition(topic, 0, 7, "note", leader_epoch=0)], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 0)], 10)
    assert (found.offset, found.metadata) == (7, "note")
    consumer.close()
