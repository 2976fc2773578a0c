"""Several listeners, advertised addresses, and connections that say nothing."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from tests.compat.clients.admins import confluent_admin
from tests.compat.clients.batches import numbered
from tests.compat.clients.brokers import Broker, ours_alone
from tests.compat.clients.drivers import Driver
from tests.compat.clients.drivers.types import DEADLINE_S
from tests.compat.clients.raw import RawConnection, fetch_request
from tests.compat.clients.waiting import wait_until
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(("INTERNAL", "EXTERNAL", "LOCAL"), free_ports(3), strict=True))


@pytest.fixture(scope="module")
def broker(ports: dict[str, int]) -> Iterator[Broker]:
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": f"INTERNAL://broker-1.Internal.example:9092,EXTERNAL://203.0.113.7:19092,"
        f"LOCAL://127.0.0.1:{ports['LOCAL']}",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,LOCAL:PLAINTEXT",
        "inter.broker.listener.name": "LOCAL",
    }
    with Broker(config) as running:
        yield running


@pytest.mark.parametrize(
    ("listener", "address"),
    [("INTERNAL", ("broker-1.Internal.example", 9092)), ("EXTERNAL", ("203.0.113.7", 19092))],
)
def test_a_client_gets_the_address_of_its_listener(
    listener: str, address: tuple[str, int], broker: Broker, ports: dict[str, int]
) -> None:
    """As it was written, upper case and all: names may be looked up anywhere."""
    with RawConnection(broker, port=ports[listener]) as connection:
        (node,) = connection.call(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
    assert (node.host, node.port) == address


def test_clients_work_by_any_listener_they_can_reach(client: Driver, ports: dict[str, int], topic_name: str) -> None:
    servers = f"127.0.0.1:{ports['LOCAL']}"
    assert client.produce(servers, topic_name, numbered(3)) == [0, 1, 2]
    assert len(client.consume(servers, topic_name, 3)) == 3


@ours_alone
def test_silent_connections_block_no_other(
    client: Driver, broker: Broker, topic_name: str, ports: dict[str, int]
) -> None:
    """Nor do those that announce a request and never send it, for which Kafka sets its heap aside."""
    rude = [socket.create_connection(("127.0.0.1", ports["LOCAL"])) for _ in range(50)]
    try:
        for position, each in enumerate(rude):
            if position % 2:
                each.sendall((90 << 20).to_bytes(4, "big") + b"\0\3")
        client.produce(f"127.0.0.1:{ports['LOCAL']}", topic_name, numbered(3))
    finally:
        for each in rude:
            each.close()


def test_idle_connections_are_closed_after_their_time() -> None:
    with Broker({"connections.max.idle.ms": 300}) as broker, RawConnection(broker) as connection:
        connection.call(MetadataRequest(topics=[]), 9, MetadataResponse)
        started = time.monotonic()
        assert connection.is_closed_by_broker()
        assert 0.2 < time.monotonic() - started < 10


@ours_alone
def test_a_connection_that_waits_for_records_is_not_idle(topic_name: str) -> None:
    """Its fetch lasts longer than the limit, but it is the broker that owes the next word; Kafka hangs up."""
    with Broker({"connections.max.idle.ms": 200}) as broker:
        broker.create_topic(topic_name)
        with RawConnection(broker) as connection:
            connection.send(fetch_request(topic_name, 0, max_wait_ms=900), 12)
            assert connection.receive(FetchResponse, 12).error_code == 0


def test_a_client_gets_over_a_closed_connection(topic_name: str) -> None:
    """The broker closes the connection between two messages; the client connects again and nothing is lost."""

    async def produce_twice(broker: Broker) -> list[int]:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            first = await producer.send_and_wait(topic_name, b"first")
            with RawConnection(broker) as silent:
                hung_up = await asyncio.get_running_loop().run_in_executor(None, silent.is_closed_by_broker)
            assert hung_up, "after the producer, which has been silent for longer"
            second = await producer.send_and_wait(topic_name, b"second")
        return [first.offset, second.offset]

    with Broker({"connections.max.idle.ms": 300}) as broker:
        assert asyncio.run(produce_twice(broker)) == [0, 1]


def _advertised(broker: Broker) -> dict[str, int]:
    with RawConnection(broker) as connection:
        response = connection.call(MetadataRequest(topics=[]), 9, MetadataResponse)
    return {node.host: node.port for node in response.brokers}


def test_advertised_addresses_change_while_the_broker_runs() -> None:
    """Fails on 4724f6e, which called `advertised.listeners` read-only."""
    with Broker(config={"broker.id": 3}) as broker:
        admin = confluent_admin(broker.bootstrap_servers)
        name = "advertised.listeners"
        resource = ConfigResource(ConfigResource.Type.BROKER, "3")
        (described,) = admin.describe_configs([resource]).values()
        assert not described.result(DEADLINE_S)[name].is_read_only
        before = _advertised(broker)
        value = f"PLAINTEXT://localhost:{broker.port}"
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        (altered,) = admin.incremental_alter_configs(
            [ConfigResource(ConfigResource.Type.BROKER, "3", incremental_configs=[change])]
        ).values()
        altered.result(DEADLINE_S)
        assert before != {"localhost": broker.port}
        after = wait_until(lambda: _advertised(broker), lambda found: found != before)
        assert after == {"localhost": broker.port}
