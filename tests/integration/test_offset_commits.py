"""Commits of one turn share a record batch, are answered one by one, and are there after a restart."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.compat.transactions.protocol import until
from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient
from tidelog.records.batch import iterate_batches
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_topics import CreatableTopic
from tidelog.wire.messages.metadata import MetadataRequestTopic
from tidelog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.primitives import NO_UUID

SETTINGS = {"offsets.topic.num.partitions": 1}
OFFSETS = ("__consumer_offsets", 0)
VERSIONS = range(11)


def commit(
    group: str,
    offset: int,
    *,
    topic: str = "read",
    generation: int = -1,
    topic_id: bytes = NO_UUID,
    metadata: str = "",
) -> messages.OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    return messages.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])],
    )


def fetch(group: str) -> messages.OffsetFetchRequest:
    return messages.OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="read", partition_indexes=[0])]
    )


def topic_id_of(client: RawClient, topic: str) -> bytes:
    request = messages.MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    return bytes(client.call(request, 12).topics[0].topic_id)


def fetched_by_id(client: RawClient, group: str, topic_id: bytes | None) -> dict[bytes, tuple[int, int]]:
    """Offset and error code by topic id, of one topic or of all."""
    topics = None if topic_id is None else [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    (found,) = client.call(messages.OffsetFetchRequest(groups=[asked]), 10).groups
    assert found.error_code == 0
    return {
        topic.topic_id: (topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in found.topics
    }


def committed(client: RawClient, group: str) -> int:
    return int(client.call(fetch(group), 5).topics[0].partitions[0].committed_offset)


def prepare(client: RawClient) -> None:
    topic = CreatableTopic(name="read", num_partitions=1, replication_factor=1)
    assert client.call(messages.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0].error_code == 0
    assert client.call(messages.FindCoordinatorRequest(key="group", key_type=0), 2).error_code == 0


def test_commits_of_one_turn_are_one_batch(tmp_path: Path) -> None:
    """In every version, right ones and wrong ones, each with its own answer; all that were taken survive a restart."""
    with ExitStack() as stack:
        inside = stack.enter_context(Inside(tmp_path, SETTINGS))
        clients = [stack.enter_context(RawClient(inside.port)) for _ in VERSIONS]
        prepare(clients[0])
        for client in clients:
            client.call(messages.ApiVersionsRequest())
        topic_id = topic_id_of(clients[0], "read")
        before = inside.on_loop(lambda: inside.node.replica_manager.partition(*OFFSETS).log.log_end_offset)

        def send_all() -> None:
            """On the loop's own thread, so that one turn finds all of it."""
            for version, client in zip(VERSIONS, clients, strict=True):
                client.send(commit(f"group-{version}", 100 + version, topic_id=topic_id), version)
                client.send(commit(f"group-{version}", 200 + version, topic="unknown"), version)
                client.send(
                    commit(f"group-{version}", 300 + version, generation=5 if version else -1, topic_id=topic_id),
                    version,
                )

        inside.on_loop(send_all)
        codes = [
            [client.answer(messages.OffsetCommitRequest, version).topics[0].partitions[0].error_code for _ in range(3)]
            for version, client in zip(VERSIONS, clients, strict=True)
        ]
        unknown, stranger = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_MEMBER_ID
        assert codes == [[0, unknown, 0], *[[0, unknown, stranger]] * 9, [0, ErrorCode.UNKNOWN_TOPIC_ID, stranger]]

        def batch_sizes() -> list[int]:
            log = inside.node.replica_manager.partition(*OFFSETS).log
            read = log.read(before, 1 << 20, log.log_end_offset, True)
            assert read.slice is not None
            return [header.record_count for _, header in iterate_batches(read.slice.read())]

        assert inside.on_loop(batch_sizes) == [len(VERSIONS) + 1]
    with Inside(tmp_path, SETTINGS) as inside, RawClient(inside.port) as client:
        until(lambda: client.call(fetch("group-0"), 5).error_code == ErrorCode.NONE)
        expected = [300, *(100 + version for version in VERSIONS[1:])]
        assert [committed(client, f"group-{version}") for version in VERSIONS] == expected


def test_what_follows_a_commit_on_its_connection_sees_it(tmp_path: Path) -> None:
    with Inside(tmp_path, SETTINGS) as inside, RawClient(inside.port) as client:
        prepare(client)
        for offset in range(5):
            client.send(commit("group", offset), 8)
            client.send(fetch("group"), 5)
        for offset in range(5):
            assert client.answer(messages.OffsetCommitRequest, 8).topics[0].partitions[0].error_code == 0
            found = client.answer(messages.OffsetFetchRequest, 5)
            assert found.topics[0].partitions[0].committed_offset == offset


def test_a_topic_made_again_takes_no_commit_of_the_old_one(tmp_path: Path) -> None:
    """Neither those that were made before it was deleted nor late ones, in small requests and in large ones."""
    with Inside(tmp_path, SETTINGS) as inside, RawClient(inside.port) as client:
        prepare(client)
        old_id = topic_id_of(client, "read")

        def code_of(topic_id: bytes, metadata: str) -> int:
            answer = client.call(commit("group", 7, topic_id=topic_id, metadata=metadata), 10)
            assert [topic.topic_id for topic in answer.topics] == [topic_id]
            return int(answer.topics[0].partitions[0].error_code)

        assert code_of(old_id, "") == ErrorCode.NONE
        assert code_of(old_id, "x" * 3000) == ErrorCode.NONE
        assert fetched_by_id(client, "group", old_id) == fetched_by_id(client, "group", None) == {old_id: (7, 0)}
        # As if the coordinator had been away: no tombstone is written for the deleted topic.
        inside.on_loop(inside.node.hosted_topics._deletion_listeners.clear)
        deletion = messages.DeleteTopicsRequest(topic_names=["read"], timeout_ms=10_000)
        assert client.call(deletion, 5).responses[0].error_code == 0
        prepare(client)
        new_id = topic_id_of(client, "read")
        assert fetched_by_id(client, "group", new_id) == {new_id: (-1, 0)}
        assert fetched_by_id(client, "group", old_id) == {old_id: (-1, ErrorCode.UNKNOWN_TOPIC_ID)}
        assert fetched_by_id(client, "group", None) == {}
        assert committed(client, "group") == -1
        for metadata in ("", "x" * 3000):
            assert code_of(old_id, metadata) == ErrorCode.UNKNOWN_TOPIC_ID
        assert committed(client, "group") == -1
        assert code_of(new_id, "") == ErrorCode.NONE
        assert committed(client, "group") == 7


def test_a_group_that_does_not_exist_is_an_error_since_version_6_of_describe(tmp_path: Path) -> None:
    with Inside(tmp_path, SETTINGS) as inside, RawClient(inside.port) as client:
        prepare(client)
        for version, code, message in ((5, 0, None), (6, ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")):
            (group,) = client.call(messages.DescribeGroupsRequest(groups=["none"]), version).groups
            assert (group.group_state, group.error_code, group.error_message) == ("Dead", code, message)
