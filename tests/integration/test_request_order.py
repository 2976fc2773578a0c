"""Requests that one connection sends ahead take effect in the order in which they were sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, batch_of, fetch_request, frame_of, produce, produce_request
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_topics, delete_records, list_offsets, offset_commit, offset_fetch

TOPIC = "topic"
GROUP = "group"


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with Inside(tmp_path_factory.mktemp("data")) as inside:
        yield inside


@pytest.fixture
def client(inside: Inside) -> Iterator[RawClient]:
    """With an empty topic and a group that has no offsets."""
    with RawClient(inside.port) as client:
        assert client.call(messages.FindCoordinatorRequest(key=GROUP, key_type=0), 2).error_code == ErrorCode.NONE
        client.call(delete_topic(), 5)
        create = create_topic()
        assert client.call(create, 5).topics[0].error_code == ErrorCode.NONE
        client.call(messages.DeleteGroupsRequest(groups_names=[GROUP]), 2)
        yield client


def create_topic() -> messages.CreateTopicsRequest:
    topic = create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    return messages.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def delete_topic() -> messages.DeleteTopicsRequest:
    return messages.DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=10_000)


def latest(timestamp: int = -1) -> messages.ListOffsetsRequest:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    return messages.ListOffsetsRequest(replica_id=-1, topics=topics)


def delete_before(offset: int) -> messages.DeleteRecordsRequest:
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [delete_records.DeleteRecordsTopic(name=TOPIC, partitions=[partition])]
    return messages.DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def commit(offset: int) -> messages.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    return messages.OffsetCommitRequest(group_id=GROUP, topics=topics)


def committed(*, several: bool) -> messages.OffsetFetchRequest:
    if not several:
        return messages.OffsetFetchRequest(group_id=GROUP, topics=None)
    group = offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    return messages.OffsetFetchRequest(groups=[group])


def pipelined(client: RawClient, *requests: tuple[Any, int]) -> list[Any]:
    """Send all in one write; the answers in order. A produce without acks has none."""
    client.socket.sendall(b"".join(frame_of(request, version) for request, version in requests))
    return [
        client.answer(type(request), version)
        for request, version in requests
        if not (isinstance(request, messages.ProduceRequest) and not request.acks)
    ]


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("version", [7, 9])
def test_offsets_are_listed_after_the_produce_before(client: RawClient, acks: int, version: int) -> None:
    for count in range(1, 11):
        request = produce_request(TOPIC, {0: batch_of([b"value"])}, acks=acks)
        answers = pipelined(client, (request, version), (latest(), 5))
        assert answers[-1].topics[0].partitions[0].offset == count


def test_a_fetch_reads_what_the_produce_before_it_wrote(client: RawClient) -> None:
    for offset in range(10):
        request = produce_request(TOPIC, {0: batch_of([b"value"])}, acks=1)
        fetch = fetch_request(TOPIC, {0: offset}, max_wait_ms=0)
        answers = pipelined(client, (request, 9), (fetch, 12))
        assert answers[1].responses[0].partitions[0].high_watermark == offset + 1
        assert answers[1].responses[0].partitions[0].records


def test_records_are_deleted_after_the_produce_and_before_the_listing(client: RawClient) -> None:
    for count in range(1, 11):
        request = produce_request(TOPIC, {0: batch_of([b"value"])}, acks=1)
        answers = pipelined(client, (request, 9), (delete_before(count), 2), (latest(-2), 5))
        assert answers[1].topics[0].partitions[0].error_code == ErrorCode.NONE
        assert answers[2].topics[0].partitions[0].offset == count


@pytest.mark.parametrize("several", [False, True])
def test_a_deleted_group_has_no_offsets_for_the_fetch_behind(client: RawClient, several: bool) -> None:
    for offset in range(10):
        fetched = (committed(several=several), 8 if several else 7)
        answers = pipelined(
            client, (commit(offset), 8), fetched, (messages.DeleteGroupsRequest(groups_names=[GROUP]), 2), fetched
        )
        before, after = ((a.groups[0] if several else a).topics for a in (answers[1], answers[3]))
        assert [partition.committed_offset for topic in before for partition in topic.partitions] == [offset]
        assert answers[2].results[0].error_code == ErrorCode.NONE
        assert after == []


def test_a_topic_is_made_before_the_produce_behind_it(client: RawClient) -> None:
    for _ in range(5):
        request = produce_request(TOPIC, {0: batch_of([b"value"])}, acks=1)
        answers = pipelined(client, (delete_topic(), 5), (create_topic(), 5), (request, 9), (latest(), 5))
        assert answers[0].responses[0].error_code == ErrorCode.NONE
        assert answers[1].topics[0].error_code == ErrorCode.NONE
        assert answers[2].responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert answers[3].topics[0].partitions[0].offset == 1


def test_a_transaction_is_visible_to_the_request_behind_its_end(client: RawClient) -> None:
    """The markers are written in later turns; the answer to EndTxn waits for them, and so does what follows."""
    for count in range(5):
        name = f"transaction-{count}"
        client.call(messages.FindCoordinatorRequest(key=name, key_type=1), 2)
        producer = client.call(messages.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=10_000), 4)
        assert producer.error_code == ErrorCode.NONE
        add = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[messages.add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        batch = batch_of_transaction(producer.producer_id, producer.producer_epoch)
        request = produce_request(TOPIC, {0: batch})
        request.transactional_id = name
        end = messages.EndTxnRequest(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
        )
        stable = latest()
        stable.isolation_level = 1
        answers = pipelined(client, (add, 3), (request, 9), (end, 3), (stable, 5))
        assert answers[1].responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert answers[2].error_code == ErrorCode.NONE
        assert answers[3].topics[0].partitions[0].offset == 2 * (count + 1)


def batch_of_transaction(producer_id: int, epoch: int) -> bytes:
    from tests.integration.raw_client import records_of
    from tidelog.records.builder import build_batch

    return build_batch(
        records_of([b"value"]), producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
    )


def test_a_request_that_waits_for_records_holds_up_nothing(client: RawClient) -> None:
    """A fetch of an empty partition waits; the produce behind it is what it waits for."""
    fetch = fetch_request(TOPIC, {0: 0}, max_wait_ms=30_000)
    request = produce_request(TOPIC, {0: batch_of([b"value"])}, acks=1)
    answers = pipelined(client, (fetch, 12), (request, 9))
    assert answers[0].responses[0].partitions[0].records
    assert answers[1].responses[0].partition_responses[0].base_offset == 0


def test_other_connections_go_on_while_one_is_muted(tmp_path: Path) -> None:
    """A handler that waits for a thread: its own connection's next request waits, another's does not."""
    import asyncio

    with Inside(tmp_path) as inside, RawClient(inside.port) as slow, RawClient(inside.port) as quick:
        assert quick.call(create_topic(), 5).topics[0].error_code == ErrorCode.NONE
        slow.call(messages.ListGroupsRequest(), 4)
        route = inside.node.routes[int(messages.ListGroupsRequest.api_key)]
        gates: list[asyncio.Event] = []

        async def wait_for_gate(request: Any, context: Any) -> messages.ListGroupsResponse:
            gates.append(asyncio.Event())
            await gates[0].wait()
            return messages.ListGroupsResponse()

        inside.on_loop(lambda: setattr(route, "handle", wait_for_gate))
        slow.send(messages.ListGroupsRequest(), 4)
        slow.send(produce_request(TOPIC, {0: batch_of([b"late"])}), 9)
        while not inside.on_loop(lambda: bool(gates)):
            pass
        for offset in range(3):
            assert produce(quick, TOPIC, 0, batch_of([b"value"])).base_offset == offset
        inside.on_loop(lambda: gates[0].set())
        slow.answer(messages.ListGroupsRequest, 4)
        late = slow.answer(messages.ProduceRequest, 9)
        assert late.responses[0].partition_responses[0].base_offset == 3
