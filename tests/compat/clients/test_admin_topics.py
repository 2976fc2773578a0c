"""Topics made, described, grown and deleted by admin clients."""

import time

import pytest

from tests.compat.clients.admins import ADMINS, DEFAULT, Admin, TopicSpec, confluent_admin
from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker, ours_alone
from tests.compat.clients.drivers import DRIVERS, Driver
from tests.compat.clients.raw import RawConnection, fetch, produce
from tests.compat.clients.waiting import wait_until
from tests.unit.present import present
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


@pytest.fixture(params=ADMINS, ids=lambda admin: admin.name)
def admin(request: pytest.FixtureRequest) -> Admin:
    return request.param


@pytest.fixture(scope="module")
def broker_config() -> dict[str, object]:
    return {"broker.id": 7, "num.partitions": 3, "broker.rack": "rack-a"}


def describe(broker: Broker, name: str, version: int = 12) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    with RawConnection(broker) as connection:
        (topic,) = connection.call(request, version, MetadataResponse).topics
    return topic


def test_a_created_topic_is_there_at_once(admin: Admin, servers: str, topic_name: str) -> None:
    assert admin.create(servers, [TopicSpec(topic_name, 5)]) == {topic_name: 0}
    assert admin.topics(servers)[topic_name] == 5


def test_topics_are_answered_each_for_itself_in_order(admin: Admin, servers: str, topic_name: str) -> None:
    """One bad topic neither spoils the others nor moves their answers."""
    names = [f"{topic_name}-{letter}" for letter in "cabed"]
    specs = [
        TopicSpec(names[0]),
        TopicSpec(names[1], config={"no.such.setting": "1"}),
        TopicSpec(names[2], replication=2),
        TopicSpec(names[3], partitions=0),
        TopicSpec(names[4], config={"retention.ms": "soon"}),
    ]
    codes = admin.create(servers, specs)
    assert codes == {
        names[0]: ErrorCode.NONE,
        names[1]: ErrorCode.INVALID_CONFIG,
        names[2]: ErrorCode.INVALID_REPLICATION_FACTOR,
        names[3]: ErrorCode.INVALID_PARTITIONS,
        names[4]: ErrorCode.INVALID_CONFIG,
    }
    assert list(codes) == names
    assert [name for name in admin.topics(servers) if name in names] == names[:1]


def test_validation_leaves_no_trace(admin: Admin, servers: str, topic_name: str) -> None:
    bad = TopicSpec(f"{topic_name}-bad", replication=3)
    codes = admin.create(servers, [TopicSpec(topic_name, 5), bad], validate_only=True)
    assert codes == {topic_name: ErrorCode.NONE, bad.name: ErrorCode.INVALID_REPLICATION_FACTOR}
    assert topic_name not in admin.topics(servers)
    assert admin.create(servers, [TopicSpec(topic_name)]) == {topic_name: 0}


def test_a_topic_cannot_be_made_twice(admin: Admin, servers: str, topic: str) -> None:
    assert admin.create(servers, [TopicSpec(topic)]) == {topic: ErrorCode.TOPIC_ALREADY_EXISTS}


@pytest.mark.parametrize("name", ["tôpic", "a b", "..", "x" * 250])
def test_an_illegal_name_is_refused(admin: Admin, name: str, servers: str) -> None:
    assert admin.create(servers, [TopicSpec(name)]) == {name: ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_names_that_metrics_cannot_tell_apart_are_refused(admin: Admin, servers: str, topic_name: str) -> None:
    """A dot and an underscore are the same there."""
    assert admin.create(servers, [TopicSpec(f"{topic_name}.x")]) == {f"{topic_name}.x": 0}
    clash = f"{topic_name}_x"
    assert admin.create(servers, [TopicSpec(clash)]) == {clash: ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_minus_one_means_the_brokers_defaults(servers: str, topic_name: str) -> None:
    """KIP-464, from version 4 on."""
    for admin in ADMINS[:2]:
        name = f"{topic_name}-{admin.name}"
        assert admin.create(servers, [TopicSpec(name, DEFAULT, DEFAULT)]) == {name: 0}
        assert admin.topics(servers)[name] == 3


def test_replicas_may_be_assigned_by_hand(admin: Admin, broker: Broker, servers: str, topic_name: str) -> None:
    assert admin.create(servers, [TopicSpec(topic_name, assignments=[[7], [7]])]) == {topic_name: 0}
    assert [partition.replica_nodes for partition in describe(broker, topic_name).partitions] == [[7], [7]]


@ours_alone
def test_a_partition_on_a_broker_that_is_not_there_is_refused(broker: Broker, topic_name: str) -> None:
    """It would never have a leader. Kafka answers that the request timed out, and leaves half a topic behind.

    Fails on 4724f6e, which made it.
    """
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[8 - index]) for index in (0, 1)]
    topic = CreatableTopic(name=topic_name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    with RawConnection(broker) as connection:
        response = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=200), 7, CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert describe(broker, topic_name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic(num_partitions=2, replication_factor=1), ErrorCode.INVALID_REQUEST),
        (CreatableTopic(num_partitions=-1, replication_factor=-1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=["counts-and-assignments", "gap-in-partitions"],
)
def test_contradictory_assignments_are_refused(
    topic: CreatableTopic, code: ErrorCode, broker: Broker, topic_name: str
) -> None:
    topic.name = topic_name
    topic.assignments = [CreatableReplicaAssignment(partition_index=1, broker_ids=[7])]
    with RawConnection(broker) as connection:
        response = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7, CreateTopicsResponse)
    assert response.topics[0].error_code == code


def test_a_topic_named_twice_is_refused_both_times(broker: Broker, topic_name: str) -> None:
    topics = [CreatableTopic(name=topic_name, num_partitions=1, replication_factor=1) for _ in range(2)]
    with RawConnection(broker) as connection:
        response = connection.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7, CreateTopicsResponse)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}
    assert describe(broker, topic_name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_create_topics_works(version: int, broker: Broker, topic_name: str) -> None:
    """From version 5 on the answer says what came out, settings and their sources included."""
    topic = CreatableTopic(
        name=topic_name,
        num_partitions=2,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="1000")],
    )
    with RawConnection(broker) as connection:
        response = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), version, CreateTopicsResponse)
    (result,) = response.topics
    assert result.error_code == 0
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        settings = {config.name: (config.value, config.config_source) for config in present(result.configs)}
        assert settings["retention.ms"] == ("1000", 1)
        assert settings["cleanup.policy"] == ("delete", 5)
    if version >= 7:
        assert result.topic_id == describe(broker, topic_name).topic_id


def test_a_topic_grows(admin: Admin, client: Driver, servers: str, topic: str) -> None:
    """What it holds stays; the new partitions can be written to at once."""
    client.produce(servers, topic, numbered(3))
    assert admin.grow(servers, topic, 4) == 0
    assert admin.topics(servers)[topic] == 4
    assert client.produce(servers, topic, numbered(2), partition=3) == [0, 1]
    assert client.watermarks(servers, topic) == (0, 3)


def test_a_topic_does_not_shrink(admin: Admin, servers: str, topic: str) -> None:
    assert admin.grow(servers, topic, 1) == ErrorCode.INVALID_PARTITIONS
    assert admin.grow(servers, "missing", 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_growth_is_validated_without_a_trace(broker: Broker, topic: str) -> None:
    def grow(count: int, assignments: list[list[int]] | None, *, validate_only: bool) -> int:
        assigned = None
        if assignments is not None:
            assigned = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=assigned)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1000, validate_only=validate_only)
        with RawConnection(broker) as connection:
            return connection.call(request, 3, CreatePartitionsResponse).results[0].error_code

    assert grow(3, None, validate_only=True) == 0
    assert grow(3, [[7]], validate_only=True) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(3, [[7], [9]], validate_only=True) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert len(describe(broker, topic).partitions) == 1
    assert grow(3, [[7], [7]], validate_only=False) == 0
    assert len(describe(broker, topic).partitions) == 3


def test_a_topic_is_deleted_and_created_again_under_its_name(
    admin: Admin, client: Driver, broker: Broker, servers: str, topic: str
) -> None:
    """Within seconds, as test suites do: another id, offsets from 0, nothing left of the old records."""
    client.produce(servers, topic, numbered(5))
    before = describe(broker, topic).topic_id
    assert admin.delete(servers, [topic]) == {topic: 0}
    assert topic not in admin.topics(servers)
    created = wait_until(lambda: admin.create(servers, [TopicSpec(topic)]), lambda codes: codes == {topic: 0})
    assert created == {topic: 0}
    assert describe(broker, topic).topic_id not in (before, bytes(16))
    assert client.watermarks(servers, topic) == (0, 0)
    assert client.produce(servers, topic, numbered(2, first=100)) == [0, 1]
    assert [record.value for record in client.consume(servers, topic, 2)] == [b"100", b"101"]


def test_a_deleted_topic_stays_deleted_after_a_restart(topic_name: str) -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        for name in (topic_name, "kept"):
            broker.create_topic(name)
        assert ADMINS[0].delete(broker.bootstrap_servers, [topic_name]) == {topic_name: 0}
        broker.restart()
        assert ADMINS[0].topics(broker.bootstrap_servers) == {"kept": 1}


def test_a_missing_topic_cannot_be_deleted(admin: Admin, servers: str, topic: str) -> None:
    codes = admin.delete(servers, ["missing", topic])
    assert codes == {"missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic: 0}


def test_a_topic_is_deleted_by_its_id(broker: Broker, topic: str) -> None:
    """KIP-516, version 6."""
    known = describe(broker, topic).topic_id
    with RawConnection(broker) as connection:
        states = [DeleteTopicState(name=None, topic_id=known), DeleteTopicState(name=None, topic_id=b"\x07" * 16)]
        response = connection.call(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6, DeleteTopicsResponse)
    assert [(result.name, result.error_code) for result in response.responses] == [
        (topic, ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_records_under_way_do_not_disturb_a_deletion(broker: Broker, topic: str) -> None:
    """Produce and DeleteTopics in one piece: the records are staged when their log goes away."""
    from tests.compat.clients.raw import produce_request
    from tidelog.wire.messages.produce import ProduceResponse

    with RawConnection(broker) as connection:
        deletion = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
        connection.send(produce_request(topic, batch(numbered(3))), 9, deletion, 5)
        connection.receive(ProduceResponse, 9)
        assert connection.receive(DeleteTopicsResponse, 5).responses[0].error_code == 0
        broker.create_topic(topic)
        assert produce(connection, topic, batch(numbered(1))).base_offset == 0
        assert fetch(connection, topic, 0).high_watermark == 1


def test_deletion_can_be_forbidden(topic_name: str) -> None:
    with Broker({"delete.topic.enable": False}) as broker:
        broker.create_topic(topic_name)
        for admin in ADMINS:
            codes = admin.delete(broker.bootstrap_servers, [topic_name])
            assert codes == {topic_name: ErrorCode.TOPIC_DELETION_DISABLED}
        with RawConnection(broker) as connection:
            request = DeleteTopicsRequest(topic_names=[topic_name], timeout_ms=1000)
            (result,) = connection.call(request, 2, DeleteTopicsResponse).responses
        assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(13))
def test_every_version_of_metadata_describes_a_topic(version: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = connection.call(request, version, MetadataResponse)
    (described,) = response.topics
    (partition,) = described.partitions
    (node,) = response.brokers
    assert (described.error_code, described.name, described.is_internal) == (0, topic, False)
    assert (partition.partition_index, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (
        0,
        7,
        [7],
        [7],
    )
    assert (node.node_id, node.host, node.port) == (7, broker.host, broker.port)
    assert node.rack == ("rack-a" if version >= 1 else None)
    if version >= 1:
        assert response.controller_id == 7
    if version >= 2:
        assert response.cluster_id
    if version >= 7:
        assert partition.leader_epoch == 0
    if version >= 10:
        assert described.topic_id != bytes(16)


@pytest.mark.parametrize("version", [0, 1, 4, 9, 12])
def test_metadata_of_all_topics_or_none(version: int, broker: Broker, topic: str) -> None:
    """Null means all, an empty list none; in version 0 there is no null and the empty list means all."""
    with RawConnection(broker) as connection:
        everything = MetadataRequest(topics=None if version else [])
        listed = connection.call(everything, version, MetadataResponse).topics
        assert topic in {described.name for described in listed}
        if version:
            assert connection.call(MetadataRequest(topics=[]), version, MetadataResponse).topics == []


def test_metadata_by_id(broker: Broker, topic: str) -> None:
    """From version 12 on. Versions 10 and 11 have the field, but no broker answers to it."""
    known = describe(broker, topic).topic_id
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=known)])
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"\x07" * 16)])
    with RawConnection(broker) as connection:
        assert connection.call(request, 12, MetadataResponse).topics[0].name == topic
        refused = connection.call(unknown, 12, MetadataResponse).topics[0]
        assert (refused.error_code, refused.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"\x07" * 16)
        for version in (10, 11):
            (early,) = connection.call(request, version, MetadataResponse).topics
            assert early.error_code == ErrorCode.INVALID_REQUEST


@ours_alone
def test_topics_are_described_page_by_page(broker: Broker, topic_name: str) -> None:
    """DescribeTopicPartitions (KIP-966), which Java's admin client asks first."""
    names = [f"{topic_name}-{letter}" for letter in "ab"]
    for name in names:
        broker.create_topic(name, 3)
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in reversed(names)], response_partition_limit=4
    )
    with RawConnection(broker) as connection:
        first = connection.call(request, 0, DescribeTopicPartitionsResponse)
        request.cursor = first.next_cursor
        second = connection.call(request, 0, DescribeTopicPartitionsResponse)
    pages = [
        [(topic.name, partition.partition_index) for topic in page.topics for partition in topic.partitions]
        for page in (first, second)
    ]
    assert pages == [[(names[0], 0), (names[0], 1), (names[0], 2), (names[1], 0)], [(names[1], 1), (names[1], 2)]]
    assert second.next_cursor is None


def test_a_consumer_of_a_deleted_topic_reads_the_new_one(servers: str, topic: str) -> None:
    """librdkafka reads by topic id; it must learn of the new topic and begin at its beginning."""
    from confluent_kafka import Consumer, TopicPartition

    writer = DRIVERS[0]
    writer.produce(servers, topic, numbered(3))
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert len(consumer.consume(3, 10)) == 3
        admin = confluent_admin(servers)
        admin.delete_topics([topic])[topic].result(10)
        wait_until(lambda: ADMINS[0].create(servers, [TopicSpec(topic)]), lambda codes: codes == {topic: 0})
        writer.produce(servers, topic, numbered(2, first=100))
        values: list[bytes] = []
        deadline = time.monotonic() + 15
        while len(values) < 2 and time.monotonic() < deadline:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                values.append(present(message.value()))
        assert values == [b"100", b"101"]
    finally:
        consumer.close()
