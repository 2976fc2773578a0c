"""Kafka's own tools in groups on our broker, and Kafka's own formatters on our `__consumer_offsets`."""

from __future__ import annotations

import pytest

from benchmarks import apache_kafka
from tests.compat.groups.conftest import OFFSETS_PARTITIONS, PARTITIONS, Produce
from tests.compat.groups.java import CONSOLE_CONSUMER, java_member
from tests.compat.groups.members import ConfluentMember, Readings, running, share, wait_until
from tidelog.client import Consumer, TopicPartition
from tidelog.coordination.partitioning import partition_for
from tidelog.testing import Broker

pytestmark = [pytest.mark.java, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

JOIN_S = 60.0
"""A JVM on a busy machine takes its time."""
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
GROUPS_FORMATTER = "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter"


@pytest.fixture(autouse=True)
def jars() -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)


def console_consumer(broker: Broker, topic: str, *options: str) -> str:
    arguments = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic, *options)
    return apache_kafka.run_tool(CONSOLE_CONSUMER, *arguments)


def consumer_groups(broker: Broker, *options: str) -> str:
    # Its own patience is five seconds, which a busy machine may use up.
    words = ("--bootstrap-server", broker.bootstrap_servers, "--timeout", "30000")
    return apache_kafka.run_tool(CONSUMER_GROUPS, *words, *options)


def test_a_java_consumer_shares_a_group_with_librdkafka(broker: Broker, topic: str, produce: Produce) -> None:
    """Java reads what it is assigned, commits and leaves; librdkafka reads the rest and then everything."""
    readings = Readings()
    member = ConfluentMember(broker.bootstrap_servers, topic, topic, readings, "librdkafka")
    range_assignor = "partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor"
    with running(member):
        wait_until(lambda: share([member], PARTITIONS), "librdkafka has all partitions")
        with java_member(broker.bootstrap_servers, topic, range_assignor) as java:
            wait_until(lambda: len(member.assignment) == PARTITIONS // 2, "Java has its share", JOIN_S)
            produced = produce(600)
        wait_until(lambda: share([member], PARTITIONS), "librdkafka has all partitions again")
        readings.wait_for(set(produced) - java.values)


@pytest.mark.long
def test_kafkas_tools_describe_reset_and_delete_our_groups(broker: Broker, topic: str, produce: Produce) -> None:
    readings = Readings()
    with running(ConfluentMember(broker.bootstrap_servers, topic, topic, readings, "m")):
        readings.wait_for(produce(60))
        output = consumer_groups(broker, "--describe", "--group", topic)
        assert output.count("/127.0.0.1") == PARTITIONS
    assert topic in consumer_groups(broker, "--list", "--state", "Empty")
    consumer_groups(broker, "--reset-offsets", "--to-offset", "3", "--topic", topic, "--group", topic, "--execute")
    output = consumer_groups(broker, "--describe", "--group", topic)
    lags = [line.split()[5] for line in output.splitlines() if line.startswith(topic)]
    assert lags == ["7"] * PARTITIONS
    assert "successful" in consumer_groups(broker, "--delete", "--group", topic)


def test_kafkas_formatters_read_our_records(broker: Broker, topic: str, produce: Produce) -> None:
    readings = Readings()
    member = ConfluentMember(broker.bootstrap_servers, topic, topic, readings, "formatted", instance_id="the-instance")
    with running(member):
        readings.wait_for(produce(60))
    partition = TopicPartition("__consumer_offsets", partition_for(topic, OFFSETS_PARTITIONS))
    with Consumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        count = consumer.end_offsets(partition)[partition]
    options = ("--partition", str(partition.partition), "--offset", "earliest", "--max-messages", str(count))
    offsets = console_consumer(broker, "__consumer_offsets", "--formatter", OFFSETS_FORMATTER, *options)
    for index in range(PARTITIONS):
        assert f'"topic":"{topic}","partition":{index}' in offsets
    assert '"offset":10,"leaderEpoch":0' in offsets
    groups = console_consumer(broker, "__consumer_offsets", "--formatter", GROUPS_FORMATTER, *options)
    assert f'"group":"{topic}"' in groups
    assert '"groupInstanceId":"the-instance"' in groups
