"""Access control in a KRaft cluster: controllers decide about changes in the client's name, brokers about records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.processes import HOST, free_port
from tests.compat.quorum.cluster import SECONDS_MAX, Quorum, until

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACCESS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
SASL_PORT = free_port()
ALICE: dict[str, str | int | float | bool] = {
    "bootstrap.servers": f"{HOST}:{SASL_PORT}",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "secret",
    "log_level": 0,
}


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    found = Quorum(tmp_path_factory.mktemp("access"), 1, ACCESS)
    try:
        found.start()
        port = free_port()
        broker = found.add_ours(
            1,
            {
                **ACCESS,
                "listeners": f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{SASL_PORT}",
                "listener.security.protocol.map": (
                    "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": LOGIN,
            },
        )
        broker.port = port
        broker.wait_until_serves()
        yield found
    finally:
        found.stop()


def entry(operation: AclOperation, resource: ResourceType, name: str) -> AclBinding:
    return AclBinding(
        resource, name, ResourcePatternType.LITERAL, "User:alice", "*", operation, AclPermissionType.ALLOW
    )


def written(topic: str) -> KafkaError | None:
    """What became of a record of Alice's."""
    outcomes: list[Any] = []
    producer = Producer({**ALICE, "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(SECONDS_MAX)
    found: KafkaError | None = outcomes[0]
    return found


def test_a_client_may_do_what_the_metadata_log_allows_it(quorum: Quorum) -> None:
    root = AdminClient({"bootstrap.servers": quorum.servers, "log_level": 0})
    alice = AdminClient(ALICE)
    with pytest.raises(KafkaException) as refused:
        alice.create_topics([NewTopic("hers", 1, 1)])["hers"].result(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    created = root.create_acls(
        [
            entry(AclOperation.CREATE, ResourceType.TOPIC, "hers"),
            entry(AclOperation.WRITE, ResourceType.TOPIC, "hers"),
            entry(AclOperation.DESCRIBE, ResourceType.TOPIC, "hers"),
        ]
    )
    for each in created.values():
        each.result(SECONDS_MAX)
    alice.create_topics([NewTopic("hers", 1, 1)])["hers"].result(SECONDS_MAX)
    root.create_topics([NewTopic("others", 1, 1)])["others"].result(SECONDS_MAX)
    until("her record is taken", lambda: written("hers") is None)
    denied = written("others")
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
