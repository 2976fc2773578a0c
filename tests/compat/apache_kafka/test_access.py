"""What a client without some right is answered, reply by reply: as Apache Kafka answers under the same ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.compat.access_cases import GRANTS, SETTINGS, Administrator, answers
from tidelog.testing import Broker

NOT_ANSWERED = {
    # Only a Kafka without ZooKeeper serves it.
    "DescribeTopicPartitionsRequest",
    # Kafka 3.9.1 sends no reply when it denies this one.
    "DescribeUserScramCredentialsRequest",
}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def kafka_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with (
        ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper,
        KafkaBroker(tmp_path_factory.mktemp("kafka"), zookeeper, SETTINGS) as broker,
    ):
        yield broker.port


@pytest.fixture(scope="module")
def our_port() -> Iterator[int]:
    with Broker(config=SETTINGS) as broker:
        yield broker.port


@pytest.fixture(scope="module")
def administrators(kafka_port: int, our_port: int) -> list[tuple[int, Administrator, bytes]]:
    made = []
    for port in (kafka_port, our_port):
        administrator = Administrator(f"127.0.0.1:{port}")
        made.append((port, administrator, administrator.prepare()))
    return made


@pytest.mark.parametrize("grant", GRANTS)
def test_every_api_answers_as_kafka_does(grant: str, administrators: list[tuple[int, Administrator, bytes]]) -> None:
    found = []
    for port, administrator, topic_id in administrators:
        administrator.grant(GRANTS[grant])
        found.append(answers(port, topic_id))
    of_kafka, ours = found
    different = {
        name: (ours[name], of_kafka[name])
        for name in of_kafka
        if ours[name] != of_kafka[name] and name.split()[1] not in NOT_ANSWERED
    }
    assert different == {}
