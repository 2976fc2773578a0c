"""The figures of our clients, and what they say of a broker that goes away."""

from collections.abc import Iterator

import pytest

from tests.compat.metrics.pages import Page
from tests.integration.client_support import SECONDS
from tidelog.client import ClientConfigError, Consumer, Producer, TopicPartition, export_metrics
from tidelog.metrics import Registry
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


def test_clients_are_on_the_pages_of_a_registry_until_they_are_closed(servers: str) -> None:
    registry = Registry()

    def page() -> Page:
        Page(registry.exposition().decode())
        return Page(registry.exposition(openmetrics=True).decode(), is_openmetrics=True)

    with Producer(bootstrap_servers=servers, client_id="one") as producer:
        export_metrics(producer, registry)
        for _ in range(3):
            producer.send("exported", b"a record", partition=0).result(SECONDS)
        labels = {"topic": "exported", "partition": "0"}
        with (
            Producer(bootstrap_servers=servers, client_id="one") as second,
            Consumer(bootstrap_servers=servers, client_id="two", auto_offset_reset="earliest") as consumer,
        ):
            export_metrics(second, registry)
            export_metrics(consumer, registry)
            consumer.assign([TopicPartition("exported", 0)])
            read = 0
            while read < 3:
                read += len(consumer.poll(SECONDS))
            shown = page()
            assert shown.value("tidelog_producer_records_stored_total", client_id="one", **labels) == 3
            assert shown.value("tidelog_producer_buffer_total_bytes", client_id="one-2") > 0
            assert shown.value("tidelog_consumer_records_returned_total", client_id="two", **labels) == 3
            assert shown.value("tidelog_consumer_lag", client_id="two", **labels) == 0
        assert not any(sample.labels.get("client_id") in ("one-2", "two") for sample in page().samples())
        produced = [each for each in page().samples() if each.name == "tidelog_client_request_seconds_count"]
        assert any(each.labels["api"] == "PRODUCE" and each.value == 3 for each in produced)
    assert registry.exposition() == b""
