"""Quotas of clients: responses name the wait, the connection waits, and no other client does."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.raw_client import RawClient, batch_of, frame_of
from tidelog.metadata.client_quotas import QuotaNode, read_quota_nodes
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.testing import Broker
from tidelog.wire import messages as m
from tidelog.wire.messages import alter_client_quotas, create_topics, describe_client_quotas, fetch, metadata, produce

TOPIC = "measured"
A_LITTLE = 1.0
"""Per second: one request uses it up for longer than any test takes."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic(TOPIC)
        yield running


def alter(broker: Broker, entity: dict[str, str | None], **limits: float | None) -> None:
    entry = alter_client_quotas.EntryData(
        entity=[
            alter_client_quotas.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[
            alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ],
    )
    with RawClient(broker.port, client_id="admin") as client:
        answer = client.call(m.AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]


def produce_one(size: int = 10_000) -> Any:
    return m.ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            produce.TopicProduceData(
                name=TOPIC, partition_data=[produce.PartitionProduceData(index=0, records=batch_of([b"x" * size]))]
            )
        ],
    )


def fetch_all(topic_id: bytes) -> Any:
    return m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
        ],
    )


def id_of_topic(broker: Broker) -> bytes:
    with RawClient(broker.port, client_id="admin") as client:
        asked = m.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)])
        found: bytes = client.call(asked).topics[0].topic_id
        return found


def is_silent(client: RawClient, other: RawClient) -> bool:
    """Whether a client has no answer, while another one is served."""
    other.call(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    return not select.select([client.socket], [], [], 0)[0]


def test_a_producer_above_its_quota_is_throttled_and_others_are_served(broker: Broker) -> None:
    alter(broker, {"client_id": "greedy"}, producer_byte_rate=A_LITTLE)
    with RawClient(broker.port, client_id="greedy") as greedy, RawClient(broker.port, client_id="modest") as modest:
        answer = greedy.call(produce_one(), 12)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert answer.throttle_time_ms > 60_000
        greedy.send(produce_one(), 12)
        assert modest.call(produce_one(), 12).throttle_time_ms == 0
        assert is_silent(greedy, modest)


def test_what_was_written_is_acknowledged_however_far_it_exceeds_the_quota(broker: Broker) -> None:
    """A client whose connection is closed instead writes the same records again, on the next one."""
    alter(broker, {"client_id": "greedy"}, producer_byte_rate=A_LITTLE)
    for _ in range(3):
        with RawClient(broker.port, client_id="greedy") as greedy:
            answer = greedy.call(produce_one(900_000), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0
    assert answer.throttle_time_ms == 2**31 - 1


def test_a_consumer_above_its_quota_is_answered_without_records(broker: Broker) -> None:
    with RawClient(broker.port, client_id="modest") as modest:
        modest.call(produce_one(), 12)
        asked = fetch_all(id_of_topic(broker))
        assert modest.call(asked).responses[0].partitions[0].records
        alter(broker, {"client_id": "greedy"}, consumer_byte_rate=A_LITTLE)
        with RawClient(broker.port, client_id="greedy") as greedy:
            # A batch is larger than all that the quota lets through at once: it passes once.
            assert greedy.call(asked).responses[0].partitions[0].records
            answer = greedy.call(asked)
            assert answer.throttle_time_ms > 60_000
            assert answer.responses == []
            greedy.send(asked)
            assert is_silent(greedy, modest)
        assert modest.call(asked).responses[0].partitions[0].records


def test_request_time_is_limited_by_user(broker: Broker) -> None:
    alter(broker, {"user": "ANONYMOUS"}, request_percentage=1e-4)
    with RawClient(broker.port) as client:
        listing = m.ListGroupsRequest()
        client.call(listing)
        assert client.call(listing).throttle_time_ms > 0


def test_changes_of_topics_are_refused_above_the_quota_where_the_client_knows_the_error(broker: Broker) -> None:
    alter(broker, {"user": None}, controller_mutation_rate=A_LITTLE)
    with RawClient(broker.port) as client:

        def create(name: str, version: int) -> Any:
            topic = create_topics.CreatableTopic(name=name, num_partitions=40, replication_factor=1)
            return client.call(m.CreateTopicsRequest(timeout_ms=10_000, topics=[topic]), version)

        # A bucket holds eleven seconds' worth, and may be overdrawn once.
        first = create("first", 5)
        assert first.topics[0].error_code == 0
        assert first.throttle_time_ms > 10_000
    with RawClient(broker.port) as client:
        topic = create_topics.CreatableTopic(name="second", num_partitions=1, replication_factor=1)
        second = client.call(m.CreateTopicsRequest(timeout_ms=10_000, topics=[topic]))
        assert second.topics[0].error_code == 89
        assert second.throttle_time_ms > 10_000


def test_quotas_outlast_a_restart_are_described_and_end_when_they_are_removed(broker: Broker) -> None:
    alter(broker, {"user": "ANONYMOUS", "client_id": "greedy"}, producer_byte_rate=A_LITTLE, consumer_byte_rate=5.0)
    broker.restart()
    with RawClient(broker.port, client_id="admin") as client:
        described = client.call(m.DescribeClientQuotasRequest(components=[], strict=False))
        (entry,) = described.entries
        assert {part.entity_type: part.entity_name for part in entry.entity} == {
            "user": "ANONYMOUS",
            "client-id": "greedy",
        }
        assert {each.key: each.value for each in entry.values} == {"producer_byte_rate": 1.0, "consumer_byte_rate": 5.0}
        strict = m.DescribeClientQuotasRequest(
            components=[describe_client_quotas.ComponentData(entity_type="user", match_type=2, match=None)],
            strict=True,
        )
        assert client.call(strict).entries == []
    with RawClient(broker.port, client_id="greedy") as greedy:
        assert greedy.call(produce_one(), 12).throttle_time_ms > 0
    alter(broker, {"user": "ANONYMOUS", "client_id": "greedy"}, producer_byte_rate=None, consumer_byte_rate=None)
    with RawClient(broker.port, client_id="greedy") as greedy:
        assert greedy.call(produce_one(), 12).throttle_time_ms == 0


def test_quotas_stand_in_the_tree_as_kafka_reads_them(tmp_path: Path) -> None:
    """Kafka's brokers take byte rates and rates of connections for whole numbers, and ignore what is none."""
    with Broker(data_dir=tmp_path) as broker:
        alter(broker, {"user": "alice"}, producer_byte_rate=1024.0, consumer_byte_rate=1e15, request_percentage=50.0)
        alter(broker, {"ip": "10.0.0.1"}, connection_creation_rate=3.0)
    with closing(EmbeddedStore(str(tmp_path / METADATA_FILE_NAME))) as store:
        found = {node: settings for node, settings in read_quota_nodes(store) if settings}
    assert found == {
        QuotaNode(user="alice"): {
            "producer_byte_rate": "1024",
            "consumer_byte_rate": "1000000000000000",
            "request_percentage": "50.0",
        },
        QuotaNode(ip="10.0.0.1"): {"connection_creation_rate": "3"},
    }


def test_an_address_that_connects_too_fast_is_turned_away_and_others_are_not(broker: Broker) -> None:
    """Raw clients come from 127.0.0.2."""
    asked = m.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    alter(broker, {"ip": "127.0.0.2"}, connection_creation_rate=1.0)
    with ExitStack() as stack:
        # Ten seconds' worth pass at once.
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(40)]
        assert clients[0].call(asked, 3).error_code == 0
        assert clients[9].call(asked, 3).error_code == 0
        (closed, *_), _, _ = select.select([client.socket for client in clients], [], [], 60)
        assert closed.recv(1) == b""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as another:
        another.sendall(frame_of(asked, 3))
        assert another.recv(4)


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ([("user", "a")], "producer_byte_rate", 0.0),
        ([("user", "a")], "producer_byte_rate", float("nan")),
        ([("user", "a")], "producer_byte_rate", 0.5),
        ([("user", "a")], "consumer_byte_rate", 1e300),
        ([("user", "a")], "connection_creation_rate", 1.0),
        ([("ip", "10.0.0.1")], "connection_creation_rate", 1.5),
        ([("ip", "10.0.0.1")], "producer_byte_rate", 1.0),
        ([("planet", "a")], "producer_byte_rate", 1.0),
        ([("user", "a"), ("user", "b")], "producer_byte_rate", 1.0),
    ],
)
def test_quotas_that_make_no_sense_are_refused(
    broker: Broker, entity: list[tuple[str, str]], key: str, value: float
) -> None:
    entry = alter_client_quotas.EntryData(
        entity=[alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter_client_quotas.OpData(key=key, value=value)],
    )
    with RawClient(broker.port) as client:
        answer = client.call(m.AlterClientQuotasRequest(entries=[entry]))
        assert answer.entries[0].error_code == 42
        assert client.call(m.DescribeClientQuotasRequest(components=[], strict=False)).entries == []
