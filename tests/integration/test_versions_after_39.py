"""What the versions of Kafka 4 mean that Kafka 3.9 did not have: over a socket, one request after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.raw_client import RawClient
from tidelog.client.admin import Admin
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.list_transactions import ListTransactionsRequest
from tidelog.wire.messages.metadata import MetadataRequest

EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": 1}) as started:
        with Producer(bootstrap_servers=started.bootstrap_servers) as producer:
            for value in (b"a", b"b", b"c"):
                producer.send("orders", value)
        yield started


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as connected:
        yield connected


@pytest.mark.parametrize(
    ("timestamp", "version", "expected"),
    [
        (EARLIEST_LOCAL, 11, (ErrorCode.NONE, 0)),
        (LATEST_TIERED, 10, (ErrorCode.NONE, -1)),
        (EARLIEST_PENDING_UPLOAD, 11, (ErrorCode.NONE, -1)),
        (EARLIEST_PENDING_UPLOAD, 10, (ErrorCode.UNSUPPORTED_VERSION, -1)),
        (-7, 11, (ErrorCode.UNSUPPORTED_VERSION, -1)),
    ],
)
def test_offsets_of_a_broker_without_tiers(
    timestamp: int, version: int, expected: tuple[ErrorCode, int], client: RawClient
) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[asked])], timeout_ms=1000
    )
    (found,) = client.call(request, version).topics[0].partitions
    assert (found.error_code, found.offset) == expected


def test_a_move_that_may_not_change_how_many_replicas_there_are_is_refused_if_it_would(client: RawClient) -> None:
    metadata = client.call(MetadataRequest(topics=None), 13)
    assert metadata.error_code == ErrorCode.NONE
    (node,) = metadata.brokers

    def answer(replicas: list[int], **fields: Any) -> tuple[ErrorCode, str | None]:
        moves = [ReassignablePartition(partition_index=0, replicas=replicas)]
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="orders", partitions=moves)], **fields
        )
        response = client.call(request, 1)
        assert response.allow_replication_factor_change is fields.get("allow_replication_factor_change", True)
        (result,) = response.responses[0].partitions
        return ErrorCode(result.error_code), result.error_message

    more = [node.node_id, node.node_id + 1]
    code, text = answer(more, allow_replication_factor_change=False)
    assert (code, text) == (ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 1 to 2")
    assert answer(more)[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the second broker is not alive"
    assert answer([node.node_id], allow_replication_factor_change=False) == (ErrorCode.NONE, None)


def test_groups_that_are_not_deleted_say_why(broker: Broker, client: RawClient) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_consumer_group_offsets("other", {TopicPartition("orders", 0): 1})
    (result,) = client.call(DeleteGroupsRequest(groups_names=["none"]), 3).results
    assert result.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert result.error_message


def test_no_directory_is_cordoned_and_no_broker_is_fenced(client: RawClient) -> None:
    assert [each.is_cordoned for each in client.call(DescribeLogDirsRequest(topics=None), 5).results] == [False]
    described = client.call(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [each.is_fenced for each in described.brokers] == [False]


def test_transactional_ids_are_listed_by_a_pattern(broker: Broker, client: RawClient) -> None:
    for name in ("billing-1", "billing-2", "shipping-1"):
        settings: Any = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": name}
        with Producer(**settings) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("orders", b"x")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert len(admin.list_transactions()) == 3

    def listed(pattern: str | None) -> list[str]:
        response = client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert response.error_code == ErrorCode.NONE
        return sorted(each.transactional_id for each in response.transaction_states)

    assert listed("billing-.*") == ["billing-1", "billing-2"]
    assert listed("billing") == [], "a pattern matches an id as a whole"
    assert listed(None) == listed("") == ["billing-1", "billing-2", "shipping-1"]
    refused = client.call(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
