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
from tidelog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tidelog.wire.messages.offset_fetch import OffsetFetchRequestTopic

SETTINGS = {"offsets.topic.num.partitions": 1}
OFFSETS = ("__consumer_offsets", 0)
VERSIONS = range(10)


def commit(group: str, offset: int, *, topic: str = "read", generation: int = -1) -> messages.OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return messages.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


def fetch(group: str) -> messages.OffsetFetchRequest:
    return messages.OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="read", partition_indexes=[0])]
    )


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
        before = inside.on_loop(lambda: inside.node.replica_manager.partition(*OFFSETS).log.log_end_offset)

        def send_all() -> None:
            """On the loop's own thread, so that one turn finds all of it."""
            for version, client in zip(VERSIONS, clients, strict=True):
                client.send(commit(f"group-{version}", 100 + version), version)
                client.send(commit(f"group-{version}", 200 + version, topic="unknown"), version)
                client.send(commit(f"group-{version}", 300 + version, generation=5 if version else -1), version)

        inside.on_loop(send_all)
        codes = [
            [client.answer(messages.OffsetCommitRequest, version).topics[0].partitions[0].error_code for _ in range(3)]
            for version, client in zip(VERSIONS, clients, strict=True)
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [[0, unknown, 0], *[[0, unknown, ErrorCode.UNKNOWN_MEMBER_ID]] * 9]

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
