"""The cluster as admin clients see it: brokers, controller, permissions, directories, producers."""

import time
from uuid import UUID

import kafka
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AclOperation, OffsetSpec

from tests.compat.clients.admins import confluent_admin, kafka_python_admin
from tests.compat.clients.batches import numbered
from tests.compat.clients.brokers import Broker, ours_alone
from tests.compat.clients.drivers import DRIVERS, Message
from tests.compat.clients.drivers.types import DEADLINE_S
from tests.compat.clients.raw import RawConnection
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NOT_ASKED = -(2**31)
LIBRDKAFKA = DRIVERS[0]
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(
    3, 13
)
TOPIC_OPERATIONS = {READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS}
CLUSTER_OPERATIONS = {
    CREATE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
}


@pytest.fixture(scope="module")
def broker_config() -> dict[str, object]:
    return {"broker.id": 3, "broker.rack": "rack-b"}


def bits(operations: int) -> set[int]:
    return {number for number in range(32) if operations >> number & 1}


def test_the_cluster_is_described_by_librdkafka(broker: Broker, servers: str) -> None:
    admin = confluent_admin(servers)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(DEADLINE_S)
    (node,) = cluster.nodes
    assert (node.id, node.host, node.port, node.rack) == (3, broker.host, broker.port, "rack-b")
    assert cluster.controller.id == 3
    assert len(cluster.cluster_id) == 22
    operations = set(cluster.authorized_operations)
    assert {AclOperation.CREATE, AclOperation.ALTER, AclOperation.CLUSTER_ACTION} <= operations
    assert AclOperation.READ not in operations


def test_the_cluster_is_described_by_kafka_python(broker: Broker, servers: str) -> None:
    with kafka_python_admin(servers) as admin:
        cluster = admin.describe_cluster()
    assert cluster["controller_id"] == 3
    assert [(node["host"], node["port"]) for node in cluster["brokers"]] == [(broker.host, broker.port)]


@pytest.mark.parametrize("version", [0, 1])
def test_describe_cluster_says_what_a_client_may_do_when_asked(version: int, broker: Broker) -> None:
    with RawConnection(broker) as connection:
        silent = connection.call(DescribeClusterRequest(), version, DescribeClusterResponse)
        asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = connection.call(asked, version, DescribeClusterResponse)
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert bits(response.cluster_authorized_operations) == CLUSTER_OPERATIONS


def test_controllers_are_not_nodes_of_their_own(broker: Broker) -> None:
    with RawConnection(broker) as connection:
        response = connection.call(DescribeClusterRequest(endpoint_type=2), 1, DescribeClusterResponse)
        unknown = connection.call(DescribeClusterRequest(endpoint_type=9), 1, DescribeClusterResponse)
    assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", [8, 9, 10])
def test_metadata_says_what_a_client_may_do_when_asked(version: int, broker: Broker, topic: str) -> None:
    """KIP-430; "not asked" has a number of its own."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic), MetadataRequestTopic(name="bad name")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    with RawConnection(broker) as connection:
        silent = connection.call(request, version, MetadataResponse)
        response = connection.call(asked, version, MetadataResponse)
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    assert silent.cluster_authorized_operations == NOT_ASKED
    assert bits(response.topics[0].topic_authorized_operations) == TOPIC_OPERATIONS
    assert bits(response.topics[1].topic_authorized_operations) == TOPIC_OPERATIONS, "also of a name that cannot be"
    assert bits(response.cluster_authorized_operations) == CLUSTER_OPERATIONS


def test_topics_are_described_by_librdkafka(servers: str, topic: str) -> None:
    admin = confluent_admin(servers)
    futures = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
    described = futures[topic].result(DEADLINE_S)
    (partition,) = described.partitions
    assert (partition.id, partition.leader.id, [node.id for node in partition.isr]) == (0, 3, [3])
    assert AclOperation.WRITE in described.authorized_operations
    assert not described.is_internal


def test_topics_are_described_by_kafka_python(servers: str, topic: str) -> None:
    with kafka_python_admin(servers) as admin:
        (described,) = admin.describe_topics([topic])
        by_id = admin.describe_topics([UUID(described["topic_id"])])
    assert described["partitions"][0]["leader_id"] == 3
    assert by_id[0]["name"] == topic


@ours_alone
def test_topics_are_described_in_pages_by_kafka_python(servers: str, topic: str, topic_name: str) -> None:
    """Kafka has pages only without ZooKeeper. Describing makes no topics."""
    topic_name += "-missing"
    with kafka_python_admin(servers) as admin:
        (known,) = admin.describe_topic_partitions([topic])["topics"]
        assert known["partitions"][0]["leader_id"] == 3
        (described,) = admin.describe_topic_partitions([topic_name])["topics"]
        assert described["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topic_name not in admin.list_topics()


@ours_alone
def test_describing_pages_names_illegal_topics(broker: Broker) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="bad name"), TopicRequest(name="missing")])
    with RawConnection(broker) as connection:
        response = connection.call(request, 0, DescribeTopicPartitionsResponse)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", range(5))
def test_log_directories_are_described(version: int, broker: Broker, servers: str, topic: str) -> None:
    LIBRDKAFKA.produce(servers, topic, [Message(b"." * 10_000)])
    wanted = [
        DescribableLogDirTopic(topic=topic, partitions=[0, 5]),
        DescribableLogDirTopic(topic="no", partitions=[0]),
    ]
    with RawConnection(broker) as connection:
        response = connection.call(DescribeLogDirsRequest(topics=wanted), version, DescribeLogDirsResponse)
        everything = connection.call(DescribeLogDirsRequest(topics=None), version, DescribeLogDirsResponse)
    (directory,) = response.results
    assert (directory.error_code, directory.log_dir) == (0, broker.data_dir)
    (described,) = directory.topics
    (partition,) = described.partitions
    assert (described.name, partition.partition_index) == (topic, 0)
    assert 10_000 < partition.partition_size < 11_000
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    assert topic in {entry.name for entry in everything.results[0].topics}
    if version >= 4:
        assert directory.total_bytes >= directory.usable_bytes > 0


def test_log_directories_are_described_by_kafka_python(broker: Broker, servers: str, topic: str) -> None:
    with kafka_python_admin(servers) as admin:
        described = admin.describe_log_dirs()
    assert broker.data_dir in str(described)
    assert topic in str(described)


def test_producers_are_described_by_kafka_python(servers: str, topic: str) -> None:
    before = int(time.time() * 1000)
    LIBRDKAFKA.produce(servers, topic, numbered(7), idempotent=True)
    place = kafka.TopicPartition(topic, 0)
    with kafka_python_admin(servers) as admin:
        (state,) = admin.describe_producers([place])[place].active_producers
    assert state.last_sequence == 6
    assert state.producer_epoch == 0
    assert state.last_timestamp >= before
    assert state.current_transaction_start_offset == -1


def test_offsets_are_listed_by_librdkafka(servers: str, topic: str) -> None:
    start_ms = 1_700_000_000_000
    LIBRDKAFKA.produce(servers, topic, [Message(b"v", timestamp=start_ms + time) for time in (1, 9, 5)])
    admin = confluent_admin(servers)
    place = ConfluentTopicPartition(topic, 0)
    specs = {
        OffsetSpec.earliest(): 0,
        OffsetSpec.latest(): 3,
        OffsetSpec.max_timestamp(): 1,
        OffsetSpec.for_timestamp(start_ms + 2): 1,
    }
    for spec, offset in specs.items():
        assert admin.list_offsets({place: spec})[place].result(DEADLINE_S).offset == offset


def test_offsets_are_listed_by_kafka_python(servers: str, topic: str) -> None:
    from kafka.protocol.consumer import OffsetSpec as Spec

    start_ms = 1_700_000_000_000
    LIBRDKAFKA.produce(servers, topic, [Message(b"v", timestamp=start_ms + time) for time in (1, 9, 5)])
    place = kafka.TopicPartition(topic, 0)
    with kafka_python_admin(servers) as admin:
        for spec, offset in ((Spec.EARLIEST, 0), (Spec.LATEST, 3), (Spec.MAX_TIMESTAMP, 1)):
            assert admin.list_partition_offsets({place: spec})[place].offset == offset


@pytest.mark.parametrize("version", range(5))
def test_the_end_of_an_epoch_is_returned(version: int, broker: Broker, servers: str, topic: str) -> None:
    """By which a consumer checks whether what it read is still there (KIP-320)."""
    LIBRDKAFKA.produce(servers, topic, numbered(5))

    def end_of(epoch: int, current: int = -1) -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        )
        with RawConnection(broker) as connection:
            (answer,) = connection.call(request, version, OffsetForLeaderEpochResponse).topics
        (partition,) = answer.partitions
        return partition.error_code, partition.leader_epoch, partition.end_offset

    assert end_of(0) == (0, 0 if version >= 1 else -1, 5)
    if version >= 2:
        assert end_of(0, current=4)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
