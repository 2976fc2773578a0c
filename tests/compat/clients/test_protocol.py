"""What clients lean on without saying so: versions, refusals, and connections that end when they should."""

import struct
import time

import pytest
from crc32c import crc32c

from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker, ours_alone
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import Driver
from tests.compat.clients.drivers.types import DEADLINE_S
from tests.compat.clients.raw import HungUp, RawConnection, fetch, produce, produce_request
from tests.compat.wire.api_versions import of_kafka
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

NEWER = 99


def _versions(connection: RawConnection, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="some-client", client_software_version="1.2.3")
    return connection.call(request, version, ApiVersionsResponse)


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_api_versions_returns_the_same(version: int, broker: Broker) -> None:
    with RawConnection(broker) as connection:
        response = _versions(connection, version)
    ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
    assert response.error_code == 0
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.LIST_TRANSACTIONS):
        assert ranges[key][0] == of_kafka()[key][0]
        assert ranges[key][1] >= of_kafka()[key][1]


def test_a_newer_api_versions_is_answered_in_version_0_on_the_same_connection(broker: Broker) -> None:
    """A client that is newer than the broker starts with its newest version and learns from the answer."""
    with RawConnection(broker) as connection:
        frame = bytearray(connection.frame(ApiVersionsRequest(), 4))
        frame[6:8] = NEWER.to_bytes(2, "big")
        connection.send_bytes(bytes(frame))
        response = connection.receive(ApiVersionsResponse, 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(entry.api_key, entry.max_version) for entry in response.api_keys] == [(ApiKey.API_VERSIONS, 5)]
        assert _versions(connection, 4).error_code == 0


@pytest.mark.parametrize("name", ["", "-dash", "white space", "ümlaut"])
def test_a_client_with_an_impossible_name_is_refused(name: str, broker: Broker) -> None:
    """KIP-511 says which characters a software's name may have."""
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    with RawConnection(broker) as connection:
        assert connection.call(request, 3, ApiVersionsResponse).error_code == ErrorCode.INVALID_REQUEST


def test_an_unknown_version_of_anything_else_ends_the_connection(broker: Broker) -> None:
    with RawConnection(broker) as connection:
        frame = bytearray(connection.frame(MetadataRequest(topics=None), 12))
        frame[6:8] = NEWER.to_bytes(2, "big")
        connection.send_bytes(bytes(frame))
        assert connection.is_closed_by_broker()


def test_an_unknown_api_ends_the_connection(broker: Broker) -> None:
    with RawConnection(broker) as connection:
        frame = bytearray(connection.frame(MetadataRequest(topics=None), 1))
        frame[4:6] = (999).to_bytes(2, "big")
        connection.send_bytes(bytes(frame))
        assert connection.is_closed_by_broker()


def test_pipelined_requests_are_answered_in_order(broker: Broker, topic: str) -> None:
    """Whatever they ask for, and whatever takes longer."""
    with RawConnection(broker) as connection:
        metadata = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        connection.send(
            produce_request(topic, batch(numbered(1))), 9, metadata, 12, produce_request(topic, batch(numbered(1))), 3
        )
        first = connection.receive(ProduceResponse, 9)
        described = connection.receive(MetadataResponse, 12)
        second = connection.receive(ProduceResponse, 3)
    assert first.responses[0].partition_responses[0].base_offset == 0
    assert described.topics[0].name == topic
    assert second.responses[0].partition_responses[0].base_offset == 1


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_impossible_acks_are_refused(acks: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, batch(numbered(1)), acks=acks)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
        missing = produce(connection, "missing", batch(numbered(1)), acks=acks)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetch(connection, topic, 0).high_watermark == 0


def test_a_lone_replica_is_enough_however_many_are_asked_for(broker: Broker, make_topic: MakeTopic) -> None:
    """`min.insync.replicas` asks for no more replicas than the partition has."""
    topic = make_topic(**{"min.insync.replicas": 2})
    with RawConnection(broker) as connection:
        assert produce(connection, topic, batch(numbered(1)), acks=-1).error_code == 0


def test_acks_all_needs_the_in_sync_replicas_that_the_topic_asks_for(broker: Broker, topic_name: str) -> None:
    """Of two replicas one is not there. `min.insync.replicas` holds for acks=all alone."""
    with RawConnection(broker) as connection:
        (node,) = connection.call(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
        topic = CreatableTopic(
            name=topic_name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[node.node_id, node.node_id + 1])],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        created = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5, CreateTopicsResponse)
        assert created.topics[0].error_code == 0
        assert produce(connection, topic_name, batch(numbered(1)), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce(connection, topic_name, batch(numbered(1)), acks=1).error_code == 0


def test_acks_0_is_not_answered(broker: Broker, topic: str) -> None:
    """Not with an empty frame, either: the next answer on the connection is that to the next request."""
    with RawConnection(broker) as connection:
        connection.send(produce_request(topic, batch(numbered(3)), acks=0), 9)
        assert produce(connection, topic, batch(numbered(1))).base_offset == 3


def test_acks_0_to_a_missing_topic_closes_the_connection(broker: Broker) -> None:
    """The only sign there is; the client then refreshes its metadata."""
    with RawConnection(broker) as connection:
        connection.send(produce_request("missing", batch(numbered(1)), acks=0), 9)
        with pytest.raises(HungUp):
            connection.receive_frame()


def test_acks_0_keeps_what_is_right(broker: Broker, topic: str) -> None:
    """One refused partition closes the connection, but the others are written: no producer sends them again."""
    data = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch(numbered(2)))])
        for name in ("missing", topic)
    ]
    with RawConnection(broker) as connection:
        connection.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=data), 9)
        assert connection.is_closed_by_broker()
    with RawConnection(broker) as connection:
        assert fetch(connection, topic, 0, max_wait_ms=10_000, min_bytes=1).high_watermark == 2


def test_one_partitions_refusal_leaves_the_others_alone(broker: Broker, topic: str, make_topic: MakeTopic) -> None:
    other = make_topic()
    damaged = bytearray(batch(numbered(2)))
    damaged[-1] ^= 0xFF
    data = [
        TopicProduceData(name="missing", partition_data=[PartitionProduceData(index=0, records=batch(numbered(2)))]),
        TopicProduceData(
            name=topic,
            partition_data=[
                PartitionProduceData(index=9, records=batch(numbered(2))),
                PartitionProduceData(index=0, records=batch(numbered(2))),
            ],
        ),
        TopicProduceData(name=other, partition_data=[PartitionProduceData(index=0, records=bytes(damaged))]),
    ]
    with RawConnection(broker) as connection:
        response = connection.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9, ProduceResponse)
    answers = {
        (entry.name, partition.index): partition.error_code
        for entry in response.responses
        for partition in entry.partition_responses
    }
    assert answers == {
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (topic, 0): ErrorCode.NONE,
        (other, 0): ErrorCode.CORRUPT_MESSAGE,
    }


@pytest.mark.parametrize("version", range(3, 12))
def test_every_version_of_produce_says_the_same(version: int, broker: Broker, topic: str) -> None:
    with RawConnection(broker) as connection:
        assert produce(connection, topic, batch(numbered(3)), version).base_offset == 0
        answer = produce(connection, topic, batch(numbered(2)), version)
        refused = produce(connection, "missing", batch(numbered(2)), version)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 3, -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


BATCH = batch(numbered(3))
POSITIONS = {  # where a field lies in a batch, and its form
    "base offset": (0, ">q"),
    "length": (8, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last offset delta": (23, ">i"),
    "producer id": (43, ">q"),
    "producer epoch": (51, ">h"),
    "record count": (57, ">i"),
}
CONTROL = 0x20
TRANSACTIONAL = 0x10


def changed(**fields: int) -> bytes:
    """The batch with other values in its head, and a checksum that holds."""
    data = bytearray(BATCH)
    for name, value in fields.items():
        position, form = POSITIONS[name.replace("_", " ")]
        struct.pack_into(form, data, position, value)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (BATCH, ErrorCode.NONE),
        (BATCH[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (changed(base_offset=5), ErrorCode.INVALID_RECORD),
        (changed(length=10), ErrorCode.CORRUPT_MESSAGE),
        (changed(length=-1), ErrorCode.CORRUPT_MESSAGE),
        (changed(length=9999), ErrorCode.INVALID_RECORD),
        (changed(magic=1), ErrorCode.INVALID_RECORD),
        (changed(magic=3), ErrorCode.CORRUPT_MESSAGE),
        (changed(magic=-1), ErrorCode.CORRUPT_MESSAGE),
        (changed(attributes=CONTROL), ErrorCode.INVALID_RECORD),
        (changed(attributes=TRANSACTIONAL), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (changed(last_offset_delta=0), ErrorCode.INVALID_RECORD),
        (changed(last_offset_delta=9), ErrorCode.INVALID_RECORD),
        (changed(last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (changed(record_count=0), ErrorCode.INVALID_RECORD),
        (changed(record_count=2), ErrorCode.INVALID_RECORD),
        (changed(record_count=-1), ErrorCode.INVALID_RECORD),
        (changed(producer_id=77), ErrorCode.INVALID_RECORD),
        (changed(producer_epoch=3), ErrorCode.NONE),
        (BATCH * 2, ErrorCode.INVALID_RECORD),
        (BATCH + bytes(5), ErrorCode.NONE),
        (BATCH + bytes(20), ErrorCode.CORRUPT_MESSAGE),
        (BATCH[:-1], ErrorCode.INVALID_RECORD),
        (BATCH[:20], ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        pytest.param(None, ErrorCode.INVALID_RECORD, marks=ours_alone),
    ],
)
def test_a_batch_that_cannot_be_is_refused_for_the_right_reason(
    records: bytes | None, code: ErrorCode, broker: Broker, topic: str
) -> None:
    """Some of these errors make a client try again and others do not. Nothing is kept of what is refused."""
    with RawConnection(broker) as connection:
        answer = produce(connection, topic, records)
        assert (answer.error_code, answer.base_offset) == (code, -1 if code else 0)
        assert fetch(connection, topic, 0).high_watermark == (0 if code else 3)


def test_clients_go_on_after_a_rude_one(client: Driver, broker: Broker, servers: str, topic: str) -> None:
    """A client that sends garbage loses its own connection; others do not notice."""
    client.produce(servers, topic, numbered(3))
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x08" + b"\x00\x03\x00\x0c" + b"\xff" * 4):
        with RawConnection(broker) as connection:
            connection.send_bytes(garbage)
            assert connection.is_closed_by_broker()
    assert len(client.consume(servers, topic, 3)) == 3


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_answers_of_find_coordinator_have_a_text_where_nothing_is_wrong(version: int, broker: Broker) -> None:
    """Fails on 4724f6e, which said nothing."""
    deadline = time.monotonic() + DEADLINE_S
    with RawConnection(broker) as connection:
        while True:
            request = FindCoordinatorRequest(key="group", key_type=0)
            response = connection.call(request, version, FindCoordinatorResponse)
            if response.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                break
            assert time.monotonic() < deadline  # Kafka takes a moment to make the topic
    assert (response.error_code, response.error_message) == (0, "NONE")
