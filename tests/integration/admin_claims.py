"""What our admin promises on any cluster; `test_admin` and `tests/compat/apache_kafka` run these."""

import pytest

from tests.integration.client_support import make_topic, read_all, run, unique, values
from tidelog.client import Admin, AsyncAdmin, AsyncProducer, OffsetAndMetadata, Producer, TopicPartition
from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.aio.admin.types import (
    EARLIEST,
    HIGH_WATERMARK,
    LATEST,
    MAX_TIMESTAMP,
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from tidelog.client.errors import ClientClosed
from tidelog.wire.errors import ApiError, ErrorCode


def test_a_cluster_is_described(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        cluster = admin.describe_cluster()
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == servers
    assert cluster.controller_id == node.node_id
    assert cluster.cluster_id


def test_topics_are_made_described_widened_and_removed(servers: str) -> None:
    name = unique("made")
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.create_topics([NewTopic(name, 2)], validate_only=True)[name].partitions == 2
        assert name not in [topic.name for topic in admin.list_topics()]
        created = admin.create_topics([NewTopic(name, 2, configs={"retention.ms": "1000"})])[name]
        assert (created.partitions, created.replication_factor) == (2, 1)
        admin.create_partitions({name: 3})
        described = admin.describe_topics([name])[name]
        assert described.topic_id == created.topic_id
        assert [partition.partition for partition in described.partitions] == [0, 1, 2]
        assert all(partition.leader_id in partition.in_sync for partition in described.partitions)
        admin.delete_topics([name])
        with pytest.raises(ApiError) as refused:
            admin.describe_topics([name])
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_error_is_raised_and_several_are_distinguished(servers: str) -> None:
    there, new = make_topic(servers), unique("new")
    with Admin(bootstrap_servers=servers) as admin:
        with pytest.raises(ApiError) as alone:
            admin.create_topics([NewTopic(there)])
        with pytest.raises(PartlyRefused) as some:
            admin.create_topics([NewTopic(there, 1, 1), NewTopic(new, 1, 1), NewTopic("bad name!", 1, 1)])
    assert alone.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert {name: error.code for name, error in some.value.errors.items()} == {
        there: ErrorCode.TOPIC_ALREADY_EXISTS,
        "bad name!": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert list(some.value.results) == [new]


def test_settings_are_described_and_changed(servers: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, make_topic(servers))
    with Admin(bootstrap_servers=servers) as admin:
        before = admin.describe_configs([resource], names=["segment.ms"])[resource]["segment.ms"]
        assert before.is_default
        admin.incremental_alter_configs({resource: [ConfigChange("segment.ms", "5000")]})
        after = admin.describe_configs([resource], include_synonyms=True)[resource]["segment.ms"]
        assert (after.value, after.source) == ("5000", ConfigSource.DYNAMIC_TOPIC)
        assert after.synonyms[0].value == "5000"
        admin.incremental_alter_configs({resource: [ConfigChange("segment.ms", None, AlterOperation.DELETE)]})
        assert admin.describe_configs([resource])[resource]["segment.ms"].value == before.value
        with pytest.raises(ApiError) as refused:
            admin.incremental_alter_configs({resource: [ConfigChange("segment.ms", "soon")]})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_settings_of_a_broker_come_from_that_broker(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        broker = ConfigResource(ResourceType.BROKER, str(admin.describe_cluster().nodes[0].node_id))
        assert admin.describe_configs([broker], names=["log.dirs"])[broker]["log.dirs"].is_read_only
        with pytest.raises(ApiError, match="no broker 4711"):
            admin.describe_configs([ConfigResource(ResourceType.BROKER, "4711")])


def test_offsets_are_listed_by_end_and_by_time_and_records_deleted(servers: str) -> None:
    topic = make_topic(servers, 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work() -> None:
        async with (
            AsyncProducer(bootstrap_servers=servers) as producer,
            AsyncAdmin(bootstrap_servers=servers) as admin,
        ):
            for time in (1_700_000_000_100, 1_700_000_000_300, 1_700_000_000_200):
                await producer.send_and_wait(topic, b"value", partition=0, timestamp_ms=time)
            ends = await admin.list_offsets({first: LATEST, second: LATEST})
            assert {where: found.offset for where, found in ends.items()} == {first: 3, second: 0}
            assert (await admin.list_offsets({first: 1_700_000_000_150}))[first][:2] == (1, 1_700_000_000_300)
            assert (await admin.list_offsets({first: MAX_TIMESTAMP}))[first].offset == 1
            assert await admin.delete_records({first: 2}) == {first: 2}
            assert (await admin.list_offsets({first: EARLIEST}))[first].offset == 2
            assert await admin.delete_records({first: HIGH_WATERMARK}) == {first: 3}
            with pytest.raises(ApiError) as refused:
                await admin.delete_records({first: 99})
            assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            with pytest.raises(ApiError, match="does not exist"):
                await admin.list_offsets({TopicPartition(topic, 7): LATEST})

    run(work())


def test_producers_and_log_directories_are_described(servers: str) -> None:
    topic = make_topic(servers)
    where = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        producer.send(topic, bytes(1000)).result(10)
        producer.send(topic, b"second").result(10)
        (active,) = admin.describe_producers([where])[where]
        assert (active.producer_epoch, active.last_sequence, active.transaction_start_offset) == (0, 1, -1)
        ((broker_id, directories),) = admin.describe_log_dirs().items()
        (found,) = [directory.replicas[where] for directory in directories if where in directory.replicas]
    assert broker_id >= 0
    assert found.size_bytes > 1000
    assert not found.is_future


def test_offsets_of_a_group_are_set_read_and_removed(servers: str) -> None:
    topic, group = make_topic(servers, 2), unique("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_consumer_group_offsets(group, {first: OffsetAndMetadata(5, "five"), second: OffsetAndMetadata(7)})
        assert admin.list_consumer_group_offsets(group) == {
            first: OffsetAndMetadata(5, "five"),
            second: OffsetAndMetadata(7),
        }
        assert list(admin.list_consumer_group_offsets(group, [second])) == [second]
        assert group in [each.group_id for each in admin.list_groups()]
        assert admin.describe_groups([group])[group].state == "Empty"
        admin.delete_consumer_group_offsets(group, [first])
        assert list(admin.list_consumer_group_offsets(group)) == [second]
        admin.delete_groups([group])
        assert admin.list_consumer_group_offsets(group) == {}
        with pytest.raises(ApiError) as refused:
            admin.delete_groups([group])
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_transactions_are_listed_described_and_fenced(servers: str) -> None:
    topic, name = make_topic(servers), unique("id")

    async def work() -> None:
        async with (
            AsyncProducer(bootstrap_servers=servers, transactional_id=name) as producer,
            AsyncAdmin(bootstrap_servers=servers) as admin,
        ):
            await producer.init_transactions()
            await producer.begin()
            await producer.send_and_wait(topic, b"value")
            assert (name, "Ongoing") in [
                (each.transactional_id, each.state) for each in await admin.list_transactions()
            ]
            described = (await admin.describe_transactions([name]))[name]
            assert (described.state, described.partitions) == ("Ongoing", (TopicPartition(topic, 0),))
            where = TopicPartition(topic, 0)
            (active,) = (await admin.describe_producers([where]))[where]
            assert (active.producer_id, active.transaction_start_offset) == (described.producer_id, 0)
            new_id, new_epoch = (await admin.fence_producers([name]))[name]
            assert (new_id, new_epoch) > (described.producer_id, described.producer_epoch)
            with pytest.raises(ApiError) as unknown:
                await admin.describe_transactions([unique("unknown")])
            assert unknown.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    run(work())
    assert read_all(servers, topic, isolation="read_committed") == []


def test_a_hanging_transaction_is_ended_in_its_partition(servers: str) -> None:
    """The way out when coordinator and partition disagree: an abort marker by hand."""
    topic, name = make_topic(servers), unique("id")
    where = TopicPartition(topic, 0)

    async def work() -> None:
        async with AsyncAdmin(bootstrap_servers=servers) as admin:
            producer = AsyncProducer(bootstrap_servers=servers, transactional_id=name)
            await producer.start()
            await producer.init_transactions()
            await producer.begin()
            await producer.send_and_wait(topic, b"hangs")
            (active,) = (await admin.describe_producers([where]))[where]
            await admin.abort_transaction(
                where, active.producer_id, active.producer_epoch, active.coordinator_epoch + 1
            )
            (after,) = (await admin.describe_producers([where]))[where]
            assert after.transaction_start_offset == -1
            await producer.close()

    run(work())
    assert values(read_all(servers, topic, isolation="read_committed")) == []


def test_a_closed_admin_refuses(servers: str) -> None:
    admin = Admin(bootstrap_servers=servers)
    admin.close()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.describe_cluster()


def test_one_name_in_place_of_a_list_affects_no_other_name(servers: str) -> None:
    """Its letters would be taken for names, and topics with such names would be gone."""
    topic = make_topic(servers)
    with Admin(bootstrap_servers=servers) as admin:
        for call in (admin.delete_topics, admin.delete_groups, admin.describe_topics, admin.describe_groups):
            with pytest.raises(ValueError, match="is one name; give a list"):
                call(topic)
        with pytest.raises(ValueError, match="is not a NewTopic"):
            admin.create_topics([topic])  # type: ignore[list-item]
