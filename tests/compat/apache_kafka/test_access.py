"""What a client without some right is answered, reply by reply: as Apache Kafka answers under the same ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.access_cases import GRANTS, SETTINGS, Administrator, answers

NOT_ANSWERED = {
    # Only a Kafka without ZooKeeper serves it.
    "DescribeTopicPartitionsRequest",
    # Kafka 3.9.1 sends no reply when it denies this one.
    "DescribeUserScramCredentialsRequest",
    # Kafka 3.9.1 closes the connection: with ZooKeeper it has only the classic protocol of groups.
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupHeartbeatRequest",
}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Of Kafka and of ours, each a cluster of one broker below a root node of its own."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        alone = {**SETTINGS, "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1"}
        alone |= {"transaction.state.log.min.isr": "1", "zookeeper.connect": f"{zookeeper.connect_string}/ours"}
        with (
            KafkaBroker(tmp_path_factory.mktemp("kafka"), zookeeper, SETTINGS) as theirs,
            TidelogBroker(tmp_path_factory.mktemp("ours"), alone) as ours,
        ):
            yield theirs.port, ours.port


@pytest.fixture(scope="module")
def administrators(ports: tuple[int, int]) -> list[tuple[int, Administrator, bytes]]:
    made = []
    for port in ports:
        administrator = Administrator(f"127.0.0.1:{port}")
        made.append((port, administrator, administrator.prepare()))
    return made


@pytest.mark.parametrize("grant", GRANTS)
def test_every_api_answers_as_kafka_does(grant: str, administrators: list[tuple[int, Administrator, bytes]]) -> None:
    found = []
    for port, administrator, topic_id in administrators:
        administrator.grant(GRANTS[grant])
        found.append(answers(port, topic_id, NOT_ANSWERED))
    of_kafka, ours = found
    assert {name: (ours[name], of_kafka[name]) for name in of_kafka if ours[name] != of_kafka[name]} == {}
