"""A broker's metrics: what they say of a load, how they are served, and what serving them costs other clients."""

from __future__ import annotations

import asyncio
import http.client
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compat.metrics.pages import OPENMETRICS, Page
from tests.integration.raw_client import RawClient, batch_of, fetch_request, produce
from tidelog.broker.metrics import event_loop
from tidelog.broker.requests.request_meter import RequestMeter
from tidelog.broker.server import Server
from tidelog.client import Admin, NewTopic
from tidelog.config import load_broker_config
from tidelog.records.legacy import convert_down
from tidelog.testing import Broker, BrokerFailed
from tidelog.testing._settings import broker_properties

SECONDS = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/metrics"


@pytest.fixture(scope="module")
def broker(port: int) -> Iterator[Broker]:
    with Broker({"metrics.listeners": f"http://127.0.0.1:{port}"}) as broker:
        yield broker


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def test_the_load_that_was_sent_is_the_load_that_is_seen(broker: Broker, url: str) -> None:
    """Counters are exact, so a rate over any interval is that of the load within the interval's own precision."""
    count, size = 20_000, 100
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True})
    producer.produce("load", b"first")
    producer.flush(SECONDS)
    before = Page.read(url)
    for _ in range(count):
        producer.produce("load", bytes(size))
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    after = Page.read(url, OPENMETRICS)

    def seen(suffix: str) -> float:
        name = f"kafka_server_brokertopicmetrics_{suffix}_total"
        return after.value(name, topic="load") - before.value(name, topic="load")

    assert seen("messagesin") == pytest.approx(count, rel=0.01)
    assert count * size < seen("bytesin") < count * (size + 12)
    total = after.value("kafka_server_brokertopicmetrics_messagesin_total")
    assert total - before.value("kafka_server_brokertopicmetrics_messagesin_total") == pytest.approx(count, rel=0.01)
    requests = after.value("kafka_network_requestmetrics_totaltimems_count", request="Produce")
    assert requests - before.value("kafka_network_requestmetrics_totaltimems_count", request="Produce") == seen(
        "totalproducerequests"
    )
    assert 0 < after.value("kafka_network_requestmetrics_totaltimems", request="Produce", quantile="0.99") < 60_000
    assert after.value("kafka_log_log_logendoffset", topic="load", partition="0") == count + 1


def test_a_group_and_its_lag_are_seen(broker: Broker, url: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(10):
        producer.produce("lagging", b"a record")
    producer.flush(SECONDS)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": 'a "group"',
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["lagging"])
    messages = consumer.consume(4, SECONDS)
    consumer.commit(message=messages[-1], asynchronous=False)
    page = Page.read(url)
    labels = {"consumergroup": 'a "group"', "topic": "lagging", "partition": "0"}
    assert page.value("kafka_consumergroup_current_offset", **labels) == 4
    assert page.value("kafka_consumergroup_lag", **labels) == 6
    assert page.value("kafka_consumergroup_members", consumergroup='a "group"') == 1
    assert page.value("tidelog_consumergroup_info", consumergroup='a "group"', state="Stable", protocol="classic") == 1
    assert page.value("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
    assert page.value("kafka_server_brokertopicmetrics_bytesout_total", topic="lagging") > 0
    consumer.close()


def test_records_that_are_refused_are_seen(broker: Broker, url: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("refused", 1, 1, configs={"max.message.bytes": "1000"})])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    refused: list[bool] = []
    producer.produce("refused", bytes(200_000), on_delivery=lambda error, _: refused.append(error is not None))
    producer.flush(SECONDS)
    assert refused == [True]
    page = Page.read(url)
    assert page.value("kafka_server_brokertopicmetrics_failedproducerequests_total", topic="refused") == 1
    assert page.value("kafka_server_brokertopicmetrics_bytesrejected_total", topic="refused") > 200_000
    assert page.value("kafka_network_requestmetrics_errors_total", request="Produce", error="MESSAGE_TOO_LARGE") == 1


def test_conversions_for_old_clients_and_to_another_codec_are_seen(broker: Broker, url: str) -> None:
    """Records are counted, and each partition of a request once with its time and its bytes."""

    def seen(page: Page) -> dict[str, list[float]]:
        return {
            api: [
                page.value(f"kafka_server_brokertopicmetrics_{api}messageconversions_total"),
                page.value("kafka_network_requestmetrics_messageconversionstimems_count", request=api.capitalize()),
                page.value("kafka_network_requestmetrics_temporarymemorybytes_count", request=api.capitalize()),
            ]
            for api in ("produce", "fetch")
        }

    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        compressed = {"compression.type": "gzip"}
        admin.create_topics([NewTopic("converted", 2, 1), NewTopic("compressed", 1, 1, configs=compressed)])
    before = seen(Page.read(url))
    with RawClient(broker.port) as client:
        for index, values in enumerate(([b"a", b"b", b"c"], [b"d"])):
            old = convert_down(batch_of(values), 1)
            assert produce(client, "converted", index, old, version=2).error_code == 0
        assert produce(client, "compressed", 0, batch_of([b"a", b"b"])).error_code == 0
        # One that needs no conversion.
        assert produce(client, "converted", 1, batch_of([b"e"])).error_code == 0
        reply = client.call(fetch_request("converted", {0: 0, 1: 0}), 2)
        assert all(each.records for each in reply.responses[0].partitions)
    page = Page.read(url)
    after = seen(page)
    assert [now - then for now, then in zip(after["produce"], before["produce"], strict=True)] == [6, 3, 3]
    assert [now - then for now, then in zip(after["fetch"], before["fetch"], strict=True)] == [5, 2, 2]
    assert page.value("kafka_server_brokertopicmetrics_producemessageconversions_total", topic="converted") == 4
    assert page.value("kafka_server_brokertopicmetrics_fetchmessageconversions_total", topic="converted") == 5


def test_what_waits_and_what_it_holds_are_seen(broker: Broker, url: str) -> None:
    name = "kafka_server_delayedoperationpurgatory_numdelayedoperations"
    page = Page.read(url)
    kinds = {dict(each.labels)["delayedOperation"] for each in page.samples() if each.name == name}
    assert kinds == {"Produce", "Fetch", "DeleteRecords", "topic", "ElectLeader", "Rebalance", "Heartbeat"}
    heartbeats = page.value(name, delayedOperation="Heartbeat")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "waiting"})
    consumer.subscribe(["converted"])

    def has_joined() -> bool:
        consumer.poll(0.01)
        return Page.read(url).value(name, delayedOperation="Heartbeat") == heartbeats + 1

    until(has_joined)
    consumer.close()
    assert page.value("kafka_network_socketserver_memorypoolavailable") == 2**63 - 1
    assert page.value("kafka_network_socketserver_memorypoolused") >= 0


def test_a_topic_that_is_deleted_leaves_the_page_and_stays_in_the_total(broker: Broker, url: str) -> None:
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("deleted", b"a record")
    producer.flush(SECONDS)
    before = Page.read(url)
    assert before.value(name, topic="deleted") == 1
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["deleted"])

    def is_gone() -> bool:
        return not any(each.labels.get("topic") == "deleted" for each in Page.read(url).samples())

    until(is_gone)
    assert Page.read(url).value(name) >= before.value(name)


def test_names_that_do_not_exist_are_not_on_the_page(broker: Broker, url: str) -> None:
    """A client that asks for a million names must not fill the memory."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    with pytest.raises(KafkaException):
        consumer.get_watermark_offsets(TopicPartition("no-such-topic", 0), timeout=5)
    consumer.close()
    assert not any("no-such-topic" in each.labels.values() for each in Page.read(url).samples())


# --- serving ---


def ask(url: str, request: bytes) -> bytes:
    """Everything that comes back until the endpoint closes the connection."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS) as connection:
        connection.sendall(request)
        received = b""
        while more := connection.recv(65536):
            received += more
        return received


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n", b"404"),
        (b"DELETE /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", b"405"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", b"413"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 20_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_other_requests_get_the_status_that_says_why(
    broker: Broker, url: str, request_bytes: bytes, status: bytes
) -> None:
    assert ask(url, request_bytes).split(b" ")[1] == status


def test_a_connection_serves_one_page_after_the_other(broker: Broker, url: str) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
    for method, accept in (("GET", "*/*"), ("HEAD", "*/*"), ("GET", OPENMETRICS)):
        connection.request(method, "/metrics", headers={"Accept": accept})
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200
        assert bool(body) == (method == "GET")
        assert (b"# EOF" in body) == (accept == OPENMETRICS)
    connection.close()


def test_connections_beyond_a_few_are_turned_away(broker: Broker, url: str) -> None:
    parts = urlsplit(url)
    held = [socket.create_connection((parts.hostname, parts.port), timeout=SECONDS) for _ in range(17)]
    try:
        assert held[-1].recv(65536).split(b" ")[1] == b"503"
    finally:
        for connection in held:
            connection.close()
    until(lambda: ask(url, b"GET / HTTP/1.0\r\n\r\n").split(b" ")[1] == b"200")


def test_a_broker_without_listeners_for_metrics_counts_nothing() -> None:
    async def main() -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as directory:
            server = Server(load_broker_config(broker_properties({}, directory, None)))
            await server.start()
            assert server.metrics is None
            assert server.node.replica_manager.traffic is None
            await server.stop()

    asyncio.run(main())


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises((OSError, BrokerFailed), match=f"127.0.0.1:{port}.*metrics.listeners"):
            Broker({"metrics.listeners": f"http://127.0.0.1:{port}"}).start()


# --- the event loop ---


def test_a_stall_is_named_after_the_function_that_caused_it(tmp_path: Path) -> None:
    """A blocking call on the loop must be found by its name on a dashboard."""

    async def main() -> None:
        server = Server(
            load_broker_config(broker_properties({"metrics.listeners": "http://127.0.0.1:0"}, str(tmp_path), None))
        )
        await server.start()
        assert server.metrics is not None
        await asyncio.sleep(2 * event_loop.STALL_SECONDS)
        server.node.timer_driver._loop.call_soon(_block_in_this_package)
        deadline = time.monotonic() + SECONDS
        while True:
            await asyncio.sleep(0.05)
            page = Page(server.metrics.registry.exposition().decode())
            places = [each.labels["place"] for each in page.samples() if each.name == "tidelog_eventloop_stalls_total"]
            if any("_block_in_this_package" in place for place in places):
                break
            assert time.monotonic() < deadline, places
        await server.stop()

    asyncio.run(main())


def _block_in_this_package() -> None:
    time.sleep(8 * event_loop.STALL_SECONDS)


@pytest.mark.long
def test_a_page_of_five_thousand_partitions_is_made_in_slices(tmp_path: Path) -> None:
    """The page is made in more than a hundred pieces, and the broker serves others in between."""
    port = free_port()
    with Broker({"metrics.listeners": f"http://127.0.0.1:{port}"}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("many", 5000, 1)])
        page = Page.read(f"http://127.0.0.1:{port}/metrics", OPENMETRICS)
        assert page.value("kafka_server_replicamanager_partitioncount") == 5000
        assert page.value("kafka_server_replicamanager_leadercount") == 5000
        assert sum(each.name == "kafka_log_log_size" for each in page.samples()) == 5000


def test_a_broker_polls_for_requests_only_in_a_process_of_its_own(broker: Broker, url: str) -> None:
    def polled_seconds(of: Broker, page: str) -> float:
        with Admin(bootstrap_servers=of.bootstrap_servers) as admin:
            admin.list_topics()
        return Page.read(page).value("tidelog_eventloop_polled_seconds_total")

    assert polled_seconds(broker, url) == 0
    port = free_port()
    with Broker({"metrics.listeners": f"http://127.0.0.1:{port}"}, process=True) as alone:
        until(lambda: polled_seconds(alone, f"http://127.0.0.1:{port}/metrics") > 0)


def test_polling_counts_as_idle() -> None:
    async def body() -> None:
        polled = 0.0
        monitor = event_loop.LoopMonitor(asyncio.get_running_loop(), RequestMeter(()), lambda: polled)
        monitor.start()
        try:
            began = time.thread_time()
            while time.thread_time() - began < 0.05:
                pass  # the loop is kept busy
            busy = monitor.idle_share()
            polled = time.thread_time() - began
            assert monitor.idle_share() > busy
        finally:
            monitor.stop()

    asyncio.run(body())
