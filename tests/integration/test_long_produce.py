"""Records that take long to check or to convert leave the event loop, and the order of effects holds all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.integration.broken_batches import record, sealed
from tests.integration.inside import Inside
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    end_offset,
    fetch_records,
    frame_of,
    new_producer_id,
    produce,
    produce_request,
)
from tests.integration.writers import wait_until
from tidelog.records.compression import Codec, compress
from tidelog.records.legacy import convert_down
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_topics, list_offsets

TOPICS = {"plain": {}, "recompressed": {"compression.type": "zstd"}}
WIDE_PARTITIONS = 200
LARGE = b"v" * 900_000


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with Inside(tmp_path_factory.mktemp("data")) as inside:
        with RawClient(inside.port) as client:
            for topic, config in TOPICS.items():
                configs = [create_topics.CreatableTopicConfig(name=name, value=value) for name, value in config.items()]
                creatable = create_topics.CreatableTopic(
                    name=topic, num_partitions=3, replication_factor=1, configs=configs
                )
                client.call(messages.CreateTopicsRequest(topics=[creatable], timeout_ms=10_000), 5)
            wide = create_topics.CreatableTopic(name="wide", num_partitions=WIDE_PARTITIONS, replication_factor=1)
            client.call(messages.CreateTopicsRequest(topics=[wide], timeout_ms=10_000), 5)
        yield inside


@pytest.fixture
def client(inside: Inside) -> Iterator[RawClient]:
    with RawClient(inside.port) as client:
        yield client


@pytest.fixture
def let_go(inside: Inside) -> Iterator[Callable[[], None]]:
    """No long work begins before this is called."""
    preparation = inside.node.preparation
    free = preparation._free

    def open_gate() -> None:
        inside.on_loop(gate.release)
        inside.on_loop(gate.release)

    gate = inside.on_loop(lambda: asyncio.Semaphore(0))
    preparation._free = gate
    yield open_gate
    open_gate()
    preparation._free = free


def long_batch(codec: Codec = Codec.ZSTD, producer: tuple[int, int, int] | None = None) -> bytes:
    """A batch whose content is beyond what the loop decompresses."""
    return batch_of([LARGE, b"last"], codec=codec, producer=producer)


def latest(topic: str, partition: int) -> messages.ListOffsetsRequest:
    asked = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=-1)
    return messages.ListOffsetsRequest(
        replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[asked])]
    )


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("codec", Codec)
def test_a_long_batch_is_stored_and_read_back(client: RawClient, topic: str, codec: Codec) -> None:
    answer = produce(client, topic, 0, long_batch(codec))
    assert answer.error_code == ErrorCode.NONE
    records = fetch_records(client, topic, 0, answer.base_offset)
    assert [(read.offset, read.value) for read in records] == [
        (answer.base_offset, LARGE),
        (answer.base_offset + 1, b"last"),
    ]


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_the_next_request_of_the_connection_waits_for_a_long_batch(
    inside: Inside, client: RawClient, let_go: Callable[[], None], acks: int
) -> None:
    before = end_offset(client, "plain", 1)
    frames = [frame_of(produce_request("plain", {1: long_batch()}, acks=acks), 9), frame_of(latest("plain", 1), 5)]
    client.socket.sendall(b"".join(frames))
    with RawClient(inside.port) as bystander:
        assert produce(bystander, "plain", 2, batch_of([b"value"])).error_code == ErrorCode.NONE
        assert end_offset(bystander, "plain", 1) == before
    let_go()
    if acks:
        produced = client.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0]
        assert (produced.error_code, produced.base_offset) == (ErrorCode.NONE, before)
    assert client.answer(messages.ListOffsetsRequest, 5).topics[0].partitions[0].offset == before + 2


def test_sequences_follow_each_other_whatever_leaves_the_loop(client: RawClient, let_go: Callable[[], None]) -> None:
    producer_id, epoch = new_producer_id(client)
    batches = [
        long_batch(producer=(producer_id, epoch, 0)),
        batch_of([b"short"], producer=(producer_id, epoch, 2)),
        long_batch(Codec.GZIP, producer=(producer_id, epoch, 3)),
        long_batch(producer=(producer_id, epoch, 0)),
    ]
    client.socket.sendall(b"".join(frame_of(produce_request("plain", {1: batch}), 9) for batch in batches))
    let_go()
    answers = [client.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0] for _ in batches]
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 4
    first = answers[0].base_offset
    assert [answer.base_offset - first for answer in answers] == [0, 2, 3, 0], "the last is a retry of the first"


def test_each_partition_of_a_request_gets_its_own_answer(client: RawClient) -> None:
    garbage = sealed(compress(Codec.ZSTD, record() * 100_000), attributes=Codec.ZSTD, count=100_000)
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        batches: dict[int, bytes | None] = {0: batch_of([b"short"]), 1: long_batch(), 2: garbage}
        request = produce_request("plain", {index: batches[index] for index in order})
        answers = client.call(request, 9).responses[0].partition_responses
        assert [answer.index for answer in answers] == list(order)
        codes = {answer.index: ErrorCode(answer.error_code) for answer in answers}
        assert codes == {0: ErrorCode.NONE, 1: ErrorCode.NONE, 2: ErrorCode.INVALID_RECORD}


def test_long_garbage_without_acks_closes_the_connection(client: RawClient) -> None:
    garbage = sealed(compress(Codec.ZSTD, record() * 100_000), attributes=Codec.ZSTD, count=100_000)
    client.send(produce_request("plain", {0: garbage}, acks=0), 9)
    assert client.is_closed_by_peer()


def test_a_large_message_set_of_an_old_producer_is_converted(client: RawClient) -> None:
    values = [b"value %d" % index for index in range(1000)]
    answer = produce(client, "plain", 0, convert_down(batch_of(values), 1), version=2)
    assert answer.error_code == ErrorCode.NONE
    assert [read.value for read in fetch_records(client, "plain", 0, answer.base_offset)] == values


def test_a_client_that_leaves_meanwhile_does_not_matter(
    inside: Inside, client: RawClient, let_go: Callable[[], None]
) -> None:
    before = end_offset(client, "plain", 1)
    with RawClient(inside.port) as leaving:
        leaving.send(produce_request("plain", {1: long_batch()}), 9)
        assert produce(client, "plain", 2, batch_of([b"value"])).error_code == ErrorCode.NONE
        leaving.reset()
    let_go()
    wait_until(lambda: end_offset(client, "plain", 1) == before + 2, "its records are appended all the same")


def test_a_request_for_many_partitions_takes_effect_as_a_whole_before_the_next(client: RawClient) -> None:
    """Each batch takes a millisecond to decompress, so the request is served in slices."""
    batch = batch_of([bytes(400_000)], codec=Codec.GZIP)
    request = produce_request("wide", dict.fromkeys(range(WIDE_PARTITIONS), batch))
    last = WIDE_PARTITIONS - 1
    for expected in (0, 1):
        client.socket.sendall(frame_of(request, 9) + frame_of(latest("wide", last), 5))
        answers = client.answer(messages.ProduceRequest, 9).responses[0].partition_responses
        assert [(answer.index, answer.error_code) for answer in answers] == [
            (index, ErrorCode.NONE) for index in range(WIDE_PARTITIONS)
        ]
        assert {answer.base_offset for answer in answers} == {expected}
        assert client.answer(messages.ListOffsetsRequest, 5).topics[0].partitions[0].offset == expected + 1


def test_a_topic_that_is_deleted_meanwhile_is_unknown(
    inside: Inside, client: RawClient, let_go: Callable[[], None]
) -> None:
    """What was prepared for it does not end up in the partition behind it."""
    create = create_topics.CreatableTopic(name="short-lived", num_partitions=1, replication_factor=1)
    client.call(messages.CreateTopicsRequest(topics=[create], timeout_ms=10_000), 5)
    first = produce_request("short-lived", {0: long_batch()})
    first.topic_data += produce_request("plain", {2: batch_of([b"value"])}).topic_data
    before = end_offset(client, "plain", 2)
    client.send(first, 9)
    with RawClient(inside.port) as other:
        other.call(messages.DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=10_000), 5)
    let_go()
    gone, kept = client.answer(messages.ProduceRequest, 9).responses
    assert gone.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert kept.partition_responses[0].error_code == ErrorCode.NONE
    assert [read.value for read in fetch_records(client, "plain", 2, before)] == [b"value"]
