"""Metrics that clients push: asked for by a subscription, checked, and shown on the broker's page."""

from __future__ import annotations

import re
import socket
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.compat.clients.waiting import wait_until
from tests.integration.raw_client import RawClient
from tidelog.client import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.records.compression import Codec, compress
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest

ALL = ConfigResource(ResourceType.CLIENT_METRICS, "all")
TELEMETRY = {71, 72}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Broker, str]]:
    port = free_port()
    with Broker({"metrics.listeners": f"http://127.0.0.1:{port}", "telemetry.max.bytes": "20000"}) as broker:
        yield broker, f"http://127.0.0.1:{port}/metrics"


def subscribe(broker: Broker, **settings: str) -> None:
    changes = [ConfigChange(name.replace("_", "."), value) for name, value in settings.items()]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.incremental_alter_configs({ALL: changes})


def lines_of(url: str, text: str) -> list[str]:
    page = urllib.request.urlopen(url, timeout=10).read().decode()
    return [line for line in page.splitlines() if text in line and not line.startswith("#")]


def test_librdkafkas_metrics_are_on_the_page(served: tuple[Broker, str]) -> None:
    broker, url = served
    subscribe(broker, metrics="org.apache.kafka.producer.", interval_ms="200", match="client_id=pushing-.*")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.metrics.push": True}
    pushing = Producer({**settings, "client.id": "pushing-1"})
    silent = Producer({**settings, "client.id": "silent"})

    def pushed() -> bool:
        for producer in (pushing, silent):
            producer.produce("pushed", b"x")
            producer.poll(0.05)
        return bool(lines_of(url, "kafka_client_producer_connection_creation_total{"))

    assert wait_until(pushed, bool)
    for producer in (pushing, silent):
        producer.flush(10)
    assert lines_of(url, 'client_id="silent"') == []
    latency = lines_of(url, "kafka_client_producer_node_request_latency_avg")
    assert re.search(r'client_id="pushing-1".*client_software_name="confluent-kafka-python".*node_id="', latency[0])


def test_what_a_client_sends_is_checked(served: tuple[Broker, str]) -> None:
    """Throttling, sizes, codecs and broken metrics, with Kafka's codes; a small bomb is not unpacked."""
    broker, _url = served
    subscribe(broker, metrics="*", interval_ms="100", match="")
    with RawClient(broker.port) as client:
        told = client.call(messages.GetTelemetrySubscriptionsRequest(), 0)
        assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (0, ["*"], 100)
        assert (told.accepted_compression_types, told.telemetry_max_bytes) == ([4, 3, 1, 2], 20_000)
        assert told.delta_temporality

        def push(codec: int, metrics: bytes) -> int:
            request = messages.PushTelemetryRequest(
                client_instance_id=told.client_instance_id,
                subscription_id=told.subscription_id,
                compression_type=codec,
                metrics=metrics,
            )
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            while code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                code = client.call(request, 0).error_code
            return int(code)

        assert push(0, b"") == ErrorCode.NONE
        assert push(9, b"") == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert push(0, b"\x0b") == ErrorCode.INVALID_RECORD
        assert push(Codec.GZIP, b"no gzip") == ErrorCode.INVALID_RECORD
        assert push(0, bytes(20_001)) == ErrorCode.TELEMETRY_TOO_LARGE
        assert push(Codec.ZSTD, compress(Codec.ZSTD, bytes(16 * 20_000 + 1))) == ErrorCode.INVALID_RECORD
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            assert push(codec, compress(codec, b"\x0a\x00")) == ErrorCode.NONE


def test_a_broker_whose_metrics_are_not_read_asks_no_client(served: tuple[Broker, str]) -> None:
    def apis(broker: Broker) -> set[int]:
        with RawClient(broker.port) as client:
            request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
            return {each.api_key for each in client.call(request, 3).api_keys}

    assert apis(served[0]) >= TELEMETRY
    with Broker() as broker:
        assert not apis(broker) & TELEMETRY
