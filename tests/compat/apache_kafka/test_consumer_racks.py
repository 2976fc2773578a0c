"""Reading from the replica nearby (KIP-392): two brokers of Apache Kafka in two racks."""

import time
from collections.abc import Iterator

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from tests.integration.consumer_support import Cluster, at, values
from tidelog.client import Admin, Consumer, NewTopic

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaBroker]]:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:

        def broker(number: int, rack: str) -> KafkaBroker:
            settings = {
                "broker.id": str(number),
                "broker.rack": rack,
                "replica.selector.class": SELECTOR,
                "zookeeper.session.timeout.ms": "2000",
                "controlled.shutdown.enable": "false",
            }
            return KafkaBroker(tmp_path_factory.mktemp(f"kafka{number}"), zookeeper, settings)

        with broker(0, "east") as east, broker(1, "west") as west:
            yield [east, west]


@pytest.mark.long
def test_a_consumer_reads_in_its_rack_and_from_the_leader_when_that_is_gone(brokers: list[KafkaBroker]) -> None:
    cluster = Cluster(",".join(broker.bootstrap_servers for broker in brokers))
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", assignment=[[0, 1]])])
    cluster.write("t", range(100))
    with Consumer(**cluster.settings(client_rack="west", metadata_max_age_ms=2000)) as consumer:
        consumer.assign([at("t")])
        seen: list[str] = []
        state = consumer._engine.subscription.state_of(at("t"))
        deadline = time.monotonic() + 30
        while len(seen) < 100 or state.preferred_replica != 1:
            seen += values(consumer.poll(0.5))
            assert time.monotonic() < deadline, f"{len(seen)} records, read from {state.preferred_replica}"
        assert state.leader.node_id == 0
        brokers[1].kill()
        cluster.write("t", range(100, 200))
        while len(seen) < 200:
            seen += values(consumer.poll(0.5))
            assert time.monotonic() < deadline + 30
        assert seen == [str(number) for number in range(200)]
