"""Replies that cannot be made: they cost their own connection, and every other client is served as before."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, batch_of, frame_of, produce, produce_request
from tests.integration.siege import CALM_TOPIC, Bystander
from tidelog.broker.handlers import compact_topics
from tidelog.broker.handlers import produce as produce_handler
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.frames import encode_request
from tidelog.wire.messages import offset_commit
from tidelog.wire.own_messages import CompactTopicsRequest
from tidelog.wire.primitives import encode_uvarint
from tidelog.wire.produce import encode_single

ATTACKERS = 3
ROUNDS = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": False}, process=True) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        yield broker


def produce_to(name: bytes, *, version: int = 9) -> bytes:
    """A Produce whose topic name our own encoder would not write."""
    batch = batch_of([b"value"])
    body = b"\0" + struct.pack(">hi", 1, 1000) + b"\x02"
    body += encode_uvarint(len(name) + 1) + name + b"\x02" + struct.pack(">i", 0)
    body += encode_uvarint(len(batch) + 1) + batch + b"\0\0\0"
    return encode_request(ApiKey.PRODUCE, version, 1, "raw", body)


@pytest.mark.parametrize("name_bytes", [32_760, 33_000])
def test_names_that_cannot_be_written_back_stop_no_other_client(broker: Broker, name_bytes: int) -> None:
    """Three connections repeat a frame whose answer has no encoding; a producer goes on."""
    frame = produce_to(b"n" * name_bytes)
    log_bytes = len(broker.logs)
    bystander = Bystander(broker.port)
    bystander.start()
    try:
        bystander.check_progress()
        for _ in range(ROUNDS):
            attack(broker.port, frame)
        bystander.check_progress()
    finally:
        bystander.stop()
    assert broker.logs[log_bytes:].count("Traceback") <= 20, "tracebacks are limited"


def attack(port: int, frame: bytes) -> None:
    """Send the frame on a few connections at once; each is answered or closed."""
    clients = [RawClient(port) for _ in range(ATTACKERS)]
    for client in clients:
        client.socket.sendall(frame)
        client.socket.shutdown(socket.SHUT_WR)
    for client in clients:
        with client:
            assert client.is_closed_by_peer()


def encode_unless_broken(correlation_id: int, version: int, topic: bytes, *numbers: int) -> bytes:
    """Stands in for the encoder of replies to one partition."""
    if topic == b"broken":
        raise ZeroDivisionError
    return encode_single(correlation_id, version, topic, *numbers)


def commit_request(topic: str, offset: int) -> messages.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return messages.OffsetCommitRequest(
        group_id="group", topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def test_a_broken_answer_in_a_turn_leaves_the_commits_and_produces_of_that_turn_alone(tmp_path: Path) -> None:
    """All three are handled in one turn of the loop, the broken one first."""
    with (
        Inside(tmp_path) as inside,
        RawClient(inside.port) as victim,
        patch.object(produce_handler, "encode_single", encode_unless_broken),
    ):
        create(victim, "broken", "sound")
        commits_first(victim)
        with RawClient(inside.port) as client, RawClient(inside.port) as other:
            for connected in (client, other):
                connected.call(messages.ApiVersionsRequest())

            def send_all() -> None:
                """On the loop's own thread, so that one turn finds all of it."""
                victim.socket.sendall(frame_of(produce_request("broken", {0: batch_of([b"x"])}), 9))
                client.send(commit_request("sound", 1), 8)
                other.send(produce_request("sound", {0: batch_of([b"y"])}), 9)

            inside.on_loop(send_all)
            assert victim.is_closed_by_peer()
            committed = client.answer(messages.OffsetCommitRequest, 8)
            assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
            produced = other.answer(messages.ProduceRequest, 9)
            assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            again = client.call(commit_request("sound", 2), 8)
            assert again.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert produce(other, "sound", 0, batch_of([b"z"])).error_code == ErrorCode.NONE


def create(client: RawClient, *names: str) -> None:
    from tidelog.wire.messages import create_topics

    topics = [create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    response = client.call(messages.CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE] * len(names)


def commits_first(client: RawClient) -> None:
    """The first use of the coordinator makes its topic."""
    found = client.call(messages.FindCoordinatorRequest(key="group", key_type=0), 2)
    assert found.error_code == ErrorCode.NONE
    response = client.call(commit_request("sound", 0), 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_an_error_of_an_api_of_our_own_is_named_and_closes_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CompactTopics has no place for an error of the whole request; its response was looked for where Kafka's are."""

    def refuse(*_: object) -> None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the whole request is refused")

    monkeypatch.setattr(compact_topics, "handle", refuse)
    with Inside(tmp_path) as inside, RawClient(inside.port) as client:
        client.send(CompactTopicsRequest(), 0)
        assert client.is_closed_by_peer()
    assert "the whole request is refused" in caplog.text
    assert not [record for record in caplog.records if record.exc_info], caplog.text
