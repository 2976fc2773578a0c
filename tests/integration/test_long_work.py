"""Requests whose work is long, cut into the smallest slices: all else goes on meanwhile, and nothing is mixed up."""

from __future__ import annotations

import select
from collections.abc import Iterator

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, batch_of, describe_topic, fetch_records, produce
from tests.integration.writers import wait_until
from tidelog.broker.runtime import slices
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_partitions, create_topics, describe_log_dirs, incremental_alter_configs

TOPIC = "long"
CALM_TOPIC = "calm"
PARTITIONS = 300
TIMEOUT_MS = 30_000


@pytest.fixture
def inside(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """Every pause of long work lets the loop have a turn."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    with Inside(tmp_path_factory.mktemp("data")) as inside:
        with RawClient(inside.port) as client:
            assert client.call(create(CALM_TOPIC, 1), 5).topics[0].error_code == ErrorCode.NONE
        yield inside


def create(name: str, count: int) -> messages.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    return messages.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def grow(name: str, count: int) -> messages.CreatePartitionsRequest:
    topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return messages.CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


def delete(name: str) -> messages.DeleteTopicsRequest:
    return messages.DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)


def alter(name: str, setting: str, value: str) -> messages.IncrementalAlterConfigsRequest:
    config = incremental_alter_configs.AlterableConfig(name=setting, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
    return messages.IncrementalAlterConfigsRequest(resources=[resource])


def opened(inside: Inside) -> int:
    """How many partitions of the long topic are there."""
    return inside.on_loop(
        lambda: sum(partition.topic == TOPIC for partition in inside.node.replica_manager.partitions())
    )


def is_at_work(inside: Inside) -> bool:
    return inside.on_loop(lambda: inside.node.slices.unfinished > 0)


def test_clients_are_served_while_a_large_topic_is_made_and_deleted(inside: Inside) -> None:
    with RawClient(inside.port) as slow, RawClient(inside.port) as quick:
        for request, version in ((create(TOPIC, PARTITIONS), 5), (delete(TOPIC), 5)):
            slow.send(request, version)
            rounds = 0
            while not select.select([slow.socket], [], [], 0)[0]:
                answer = produce(quick, CALM_TOPIC, 0, batch_of([b"value"]))
                assert answer.error_code == ErrorCode.NONE
                assert fetch_records(quick, CALM_TOPIC, 0, answer.base_offset)
                rounds += 1
            assert rounds, "the work was not cut into slices"
            slow.answer(type(request), version)
        assert opened(inside) == 0


def test_changes_of_one_topic_wait_for_each_other_and_not_for_those_of_another(inside: Inside) -> None:
    with RawClient(inside.port) as first, RawClient(inside.port) as second, RawClient(inside.port) as third:
        first.send(create(TOPIC, PARTITIONS), 5)
        wait_until(lambda: opened(inside) > 0, "the first partition is open")
        second.send(grow(TOPIC, PARTITIONS + 10), 3)
        third.send(delete(TOPIC), 5)
        with RawClient(inside.port) as other:
            assert other.call(create("other", 1), 5).topics[0].error_code == ErrorCode.NONE
            assert opened(inside) < PARTITIONS or not is_at_work(inside), "it waited for the large one"
        assert first.answer(messages.CreateTopicsRequest, 5).topics[0].error_code == ErrorCode.NONE
        assert second.answer(messages.CreatePartitionsRequest, 3).results[0].error_code == ErrorCode.NONE
        assert third.answer(messages.DeleteTopicsRequest, 5).responses[0].error_code == ErrorCode.NONE
        assert opened(inside) == 0
        assert describe_topic(first, TOPIC).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_that_change_while_a_topic_is_made_reach_all_its_logs(inside: Inside) -> None:
    with RawClient(inside.port) as slow, RawClient(inside.port) as quick:
        slow.send(create(TOPIC, PARTITIONS), 5)
        wait_until(lambda: opened(inside) > 0, "the first partition is open")
        altered = quick.call(alter(TOPIC, "retention.ms", "12345"), 1)
        assert altered.responses[0].error_code == ErrorCode.NONE
        slow.answer(messages.CreateTopicsRequest, 5)
        retentions = inside.on_loop(
            lambda: {
                partition.log.config.retention_ms
                for partition in inside.node.replica_manager.partitions()
                if partition.topic == TOPIC
            }
        )
        assert retentions == {12345}


def test_what_is_described_in_slices_is_whole(inside: Inside) -> None:
    """While topics come and go around it."""
    with RawClient(inside.port) as client, RawClient(inside.port) as other:
        assert client.call(create(TOPIC, PARTITIONS), 5).topics[0].error_code == ErrorCode.NONE
        for number in range(5):
            other.send(create(f"other-{number}", 3), 5)
            found = {topic.name: topic for topic in client.call(messages.MetadataRequest(topics=None), 12).topics}
            assert [partition.partition_index for partition in found[TOPIC].partitions] == list(range(PARTITIONS))
            asked = describe_log_dirs.DescribableLogDirTopic(topic=TOPIC, partitions=list(range(PARTITIONS)))
            directories = client.call(messages.DescribeLogDirsRequest(topics=[asked]), 4).results
            assert sum(len(topic.partitions) for each in directories for topic in each.topics) == PARTITIONS
            other.answer(messages.CreateTopicsRequest, 5)


def test_work_of_a_client_that_left_ends_and_changes_are_finished(inside: Inside) -> None:
    with RawClient(inside.port) as slow:
        slow.send(create(TOPIC, PARTITIONS), 5)
        wait_until(lambda: opened(inside) > 0, "the first partition is open")
    wait_until(lambda: opened(inside) == PARTITIONS, "the topic is whole")
    with RawClient(inside.port) as slow:
        slow.send(messages.MetadataRequest(topics=None), 12)
    wait_until(lambda: not is_at_work(inside), "no request waits for the description")
