"""A broker with an authorizer serves nothing to a client without rights, and reveals nothing to it.

`tests/compat/apache_kafka/test_access.py` compares the same answers with Apache Kafka's, under many more ACLs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.compat.access_cases import BETWEEN_BROKERS, GRANTS, GROUP, SETTINGS, TOPIC, Administrator, answers, any_acl
from tests.integration.raw_client import RawClient
from tidelog.testing import Broker, Cluster
from tidelog.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    MetadataRequest,
    OffsetCommitRequest,
    offset_commit,
)
from tidelog.wire.messages.metadata import MetadataRequestTopic

AUTHORIZATION_FAILED = {29, 30, 31, 53, 64, 65}


@pytest.fixture(scope="module")
def prepared() -> Iterator[tuple[Broker, Administrator, bytes]]:
    with Broker(config=SETTINGS) as broker:
        administrator = Administrator(broker.bootstrap_servers)
        yield broker, administrator, administrator.prepare()


def test_without_rights_every_api_is_refused_or_its_answer_is_empty(
    prepared: tuple[Broker, Administrator, bytes],
) -> None:
    broker, administrator, topic_id = prepared
    administrator.grant(())
    served = {
        name: answer
        for name, answer in answers(broker.port, topic_id, BETWEEN_BROKERS).items()
        if not codes_of(answer) & AUTHORIZATION_FAILED
    }
    # What lists everything lists nothing; a cluster shows its brokers to every client, and no operation on itself.
    # A producer id opens nothing: the producer is refused when it writes.
    assert {name.split()[1] for name in served} == {
        "MetadataRequest",
        "DescribeTopicPartitionsRequest",
        "ListGroupsRequest",
        "ListTransactionsRequest",
        "DescribeClusterRequest",
        "InitProducerIdRequest",
    }
    assert "secret" not in repr(served)
    assert served["36 DescribeClusterRequest"]["cluster_authorized_operations"] == 0


def test_rights_can_be_given_and_taken_while_clients_are_connected(
    prepared: tuple[Broker, Administrator, bytes],
) -> None:
    broker, administrator, _ = prepared
    with RawClient(broker.port) as client:
        for grant, code in (((), 29), (GRANTS["topic read"], 0), ((), 29)):
            administrator.grant(grant)
            answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
            assert answer.topics[0].error_code == code


def test_acls_that_make_no_sense_are_refused_with_the_reason(prepared: tuple[Broker, Administrator, bytes]) -> None:
    admin = AdminClient({"bootstrap.servers": prepared[0].bootstrap_servers})
    with pytest.raises(KafkaException, match="kafka-cluster"):
        create(admin, ResourceType.BROKER, "another-cluster", "User:alice", AclOperation.ALTER)
    with pytest.raises(KafkaException, match="User:alice"):
        create(admin, ResourceType.TOPIC, "orders", "alice", AclOperation.READ)


@pytest.mark.long
def test_acls_outlast_a_restart_and_are_shared_by_the_brokers_of_a_cluster() -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != "broker.id"}
    with Cluster(brokers=2, config={**settings, "min.insync.replicas": 1}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(30)
        # From here on only another address may write.
        create(admin, ResourceType.TOPIC, "ord", "User:ANONYMOUS", AclOperation.WRITE, host="127.0.0.9", prefixed=True)
        # The broker that was not asked follows the change soon.
        deadline = time.monotonic() + 30
        while not all(is_denied(cluster.bootstrap_servers, partition) for partition in (0, 1)):
            assert time.monotonic() < deadline
        for broker_id in (1, 2):
            cluster.stop_broker(broker_id)
            cluster.restart(broker_id)
        assert all(is_denied(cluster.bootstrap_servers, partition) for partition in (0, 1))
        removed = admin.delete_acls([any_acl(ResourceType.TOPIC, "orders", ResourcePatternType.MATCH)])
        assert [len(future.result(30)) for future in removed.values()] == [1]


def create(
    admin: AdminClient,
    kind: ResourceType,
    name: str,
    principal: str,
    operation: AclOperation,
    *,
    host: str = "*",
    prefixed: bool = False,
) -> None:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    binding = AclBinding(kind, name, pattern, principal, host, operation, AclPermissionType.ALLOW)
    for future in admin.create_acls([binding]).values():
        future.result(30)


def is_denied(servers: str, partition: int) -> bool:
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 30_000})
    producer.produce(
        "orders", b"x", partition=partition, on_delivery=lambda error, _message: errors.append(error and error.name())
    )
    producer.flush(30)
    return errors == ["TOPIC_AUTHORIZATION_FAILED"]


def codes_of(answer: Any) -> set[int]:
    if isinstance(answer, dict):
        own = {value for name, value in answer.items() if name.endswith("error_code")}
        return own.union(*(codes_of(value) for value in answer.values()))
    return set().union(*(codes_of(each) for each in answer)) if isinstance(answer, list) else set()


@pytest.mark.parametrize(
    ("grant", "codes"),
    [("nothing", (30, 30)), ("topic read", (30, 30)), ("group read", (29, 29)), ("group and topic read", (0, 29))],
)
def test_small_and_large_offset_commits_are_decided_alike(
    prepared: tuple[Broker, Administrator, bytes], grant: str, codes: tuple[int, int]
) -> None:
    """Small ones are handled without being decoded into messages."""
    broker, administrator, _ = prepared
    administrator.grant(GRANTS[grant])
    answers = []
    for metadata in ("", "x" * 3000):
        topics = [
            offset_commit.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=7, committed_metadata=metadata
                    )
                ],
            )
            for name in (TOPIC, "secret-others")
        ]
        with RawClient(broker.port) as client:
            answer: Any = client.call(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
        answers.append({each.name: [part.error_code for part in each.partitions] for each in answer.topics})
    assert answers[0] == answers[1] == {TOPIC: [codes[0]], "secret-others": [codes[1]]}


def test_a_group_shows_no_topic_that_its_member_may_not_describe(prepared: tuple[Broker, Administrator, bytes]) -> None:
    """A pattern matches only topics that its member may describe: their number would reveal names, letter by letter."""
    broker, administrator, _ = prepared
    administrator.grant(GRANTS["group read"])
    join: dict[str, Any] = {
        "group_id": GROUP,
        "member_id": "stranger",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "topic_partitions": [],
    }
    with RawClient(broker.port) as client:
        named = client.call(ConsumerGroupHeartbeatRequest(**join, subscribed_topic_names=[TOPIC]), 1)
        missing = client.call(ConsumerGroupHeartbeatRequest(**join, subscribed_topic_names=["secret-nothing"]), 1)
        assert (named.error_code, missing.error_code) == (29, 29)
        joined = client.call(ConsumerGroupHeartbeatRequest(**join, subscribed_topic_regex=".*"), 1)
        assert joined.error_code == 0
        assert joined.assignment.topic_partitions == []
        describe = ConsumerGroupDescribeRequest(group_ids=[GROUP])
        assert TOPIC not in repr(client.call(describe))
        administrator.grant(GRANTS["group and topic read"])
        beat = {**join, "member_epoch": joined.member_epoch, "rebalance_timeout_ms": -1, "topic_partitions": None}
        assert client.call(ConsumerGroupHeartbeatRequest(**beat), 1).assignment.topic_partitions != []
        assert TOPIC in repr(client.call(describe))
        administrator.grant(GRANTS["group read"])
        answer = client.call(describe)
        assert answer.groups[0].error_code == 29
        assert TOPIC not in repr(answer)
        left = {**join, "member_epoch": -1, "rebalance_timeout_ms": -1, "topic_partitions": None}
        assert client.call(ConsumerGroupHeartbeatRequest(**left), 1).error_code == 0
