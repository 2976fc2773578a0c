"""The figures of our clients, and what they say of a broker that goes away."""

from collections.abc import Iterator

import pytest

from tests.integration.client_support import SECONDS
from tidelog.client import ClientConfigError, Producer, TopicPartition
from tidelog.testing import Broker

pytest.register_assert_rewrite("tests.integration.metrics_claims")

from tests.integration.metrics_claims import *  # noqa: E402, F403


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def test_connections_lost_and_batches_sent_again_are_counted() -> None:
    with Broker(process=True) as broker:
        broker.create_topic("topic")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("topic", b"first").result(SECONDS)
            broker.kill()
            delivery = producer.send("topic", b"second")
            broker.start()
            delivery.result(SECONDS)
            figures = producer.metrics()
        part = figures.partitions[TopicPartition("topic", 0)]
        leader = figures.brokers[part.leader_id]
        assert (part.records_stored, part.records_failed) == (2, 0)
        assert leader.connections_lost == 1
        assert leader.connections_made == 2


def test_what_is_no_function_is_refused_as_a_callback() -> None:
    with pytest.raises(ClientConfigError, match=r"statistics\.callback"):
        Producer({"bootstrap.servers": "127.0.0.1:1", "statistics.callback": 7})
