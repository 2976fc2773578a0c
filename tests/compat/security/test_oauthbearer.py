"""OAUTHBEARER with signed tokens: clients that we did not write against our broker, and ours against Apache Kafka."""

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ProcessFailedError, ZooKeeper, run_tool
from benchmarks.processes import HOST, free_port
from tests.compat.security.conftest import Secured
from tests.compat.security.secured import (
    METADATA_SOON,
    java_transport,
    librdkafka_transport,
    python_transport,
    with_tls_listener,
    write_properties,
)
from tests.effort import usually
from tests.integration.certificates import make_certificates
from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient
from tests.integration.test_oauthbearer import REJECTED, authenticate
from tests.integration.token_issuer import (
    CLIENT_ID,
    CLIENT_SECRET,
    Issuer,
    broker_settings,
    client_settings,
    token_issuer,
)
from tidelog.client import Admin, AuthenticationFailed, Consumer, Producer
from tidelog.wire import messages

with warnings.catch_warnings():
    # It reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VALUES = [b"one", b"two"]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with token_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def secured(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    settings = with_tls_listener(broker_settings(issuer), certificates)
    with Inside(tmp_path_factory.mktemp("broker"), settings) as running:
        yield Secured(certificates, running)


EITHER_PROTOCOL = pytest.mark.parametrize("protocol", usually(["SASL_SSL"], ["SASL_PLAINTEXT", "SASL_SSL"]))


def collected(poll: Callable[[], list[Any]]) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += poll()
    return found


PROTOCOL_OF_WAY = {"oidc": "SASL_SSL", "callback": "SASL_PLAINTEXT"}


@pytest.mark.parametrize("way", usually(["oidc"], PROTOCOL_OF_WAY))
def test_confluent_kafka(secured: Secured, issuer: Issuer, way: str) -> None:
    from confluent_kafka import Consumer as ConfluentConsumer
    from confluent_kafka import Producer as ConfluentProducer

    protocol = PROTOCOL_OF_WAY[way]
    settings: dict[str, Any] = {"bootstrap.servers": secured.address(protocol), "sasl.mechanism": "OAUTHBEARER"}
    settings |= librdkafka_transport(secured.certificates, protocol)
    if way == "callback":
        settings["oauth_cb"] = lambda _config: (issuer.token(), time.time() + 3600)
    else:
        settings |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.scope": "logs",
            "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        }
    topic = f"confluent-{way}"
    producer = ConfluentProducer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = ConfluentConsumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert collected(lambda: [each.value() for each in consumer.consume(10, 0.5)]) == VALUES
    finally:
        consumer.close()


@EITHER_PROTOCOL
def test_kafka_python(secured: Secured, issuer: Issuer, protocol: str) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return issuer.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": secured.address(protocol),
        **python_transport(secured.certificates, protocol),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    producer = KafkaProducer(**settings)
    try:
        for value in VALUES:
            producer.send(f"kafka-python-{protocol}", value).get(60)
    finally:
        producer.close()
    consumer = KafkaConsumer(f"kafka-python-{protocol}", auto_offset_reset="earliest", **METADATA_SOON, **settings)
    try:
        assert collected(lambda: [r.value for records in consumer.poll(500).values() for r in records]) == VALUES
    finally:
        consumer.close()


@EITHER_PROTOCOL
def test_aiokafka(secured: Secured, issuer: Issuer, protocol: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider as Tokens

    class Provider(Tokens):  # type: ignore[misc]
        async def token(self) -> str:
            return issuer.token()

    settings: dict[str, Any] = {
        "bootstrap_servers": secured.address(protocol),
        **python_transport(secured.certificates, protocol),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }

    async def run() -> list[bytes]:
        async with AIOKafkaProducer(**settings) as producer:
            for value in VALUES:
                await producer.send_and_wait(f"aiokafka-{protocol}", value)
        async with AIOKafkaConsumer(f"aiokafka-{protocol}", auto_offset_reset="earliest", **settings) as consumer:
            async with asyncio.timeout(30):
                return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(run()) == VALUES


@EITHER_PROTOCOL
def test_ours(secured: Secured, issuer: Issuer, protocol: str) -> None:
    settings = {**client_settings(issuer), **java_transport(secured.certificates, protocol)}
    write_and_read({"bootstrap.servers": secured.address(protocol), **settings}, f"tidelog-{protocol}")


def write_and_read(settings: dict[str, Any], topic: str = "tidelog") -> None:
    with Producer(settings) as producer:
        for sent in [producer.send(topic, value) for value in VALUES]:
            sent.result(30)
    with Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        assert collected(lambda: [record.value for record in consumer.poll(0.5)]) == VALUES


def needs_java() -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)
def test_the_java_client(secured: Secured, issuer: Issuer, tmp_path: Path) -> None:
    needs_java()
    settings = {**client_settings(issuer), **java_transport(secured.certificates, "SASL_SSL")}
    file = str(write_properties(tmp_path / "c", settings))
    server = ("--bootstrap-server", secured.address("SASL_SSL"))
    run_tool(CONSOLE_PRODUCER, *server, "--topic", "java", "--producer.config", file, input_text="one\ntwo\n")
    reading = ("--from-beginning", "--max-messages", "2", "--consumer.config", file)
    assert run_tool(CONSOLE_CONSUMER, *server, "--topic", "java", *reading).splitlines() == ["one", "two"]
    expired = tmp_path / "expired"
    expired.write_text(issuer.token(aud="elsewhere"))
    settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{expired}"
    file = str(write_properties(tmp_path / "d", settings))
    with pytest.raises(ProcessFailedError, match=r'topic command : \{"status":"invalid_token"\}'):
        run_tool("org.apache.kafka.tools.TopicCommand", *server, "--list", "--command-config", file)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)
def test_our_client_and_every_rejection_against_apache_kafka(issuer: Issuer, secured: Secured, tmp_path: Path) -> None:
    """The same settings, the same tokens, the same replies."""
    needs_java()
    port = free_port()
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        broker = KafkaBroker(tmp_path / "kafka", zookeeper)
        listeners = f"PLAINTEXT://{HOST}:{broker.port},SASL_PLAINTEXT://{HOST}:{port}"
        broker._settings = broker_settings(issuer, listeners=listeners)
        with broker:
            settings = {"bootstrap.servers": f"{HOST}:{port}", **client_settings(issuer)}
            write_and_read(settings)
            callback: dict[str, Any] = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
            callback["sasl.oauthbearer.token.callback"] = lambda: issuer.token(aud="elsewhere")
            with pytest.raises(AuthenticationFailed, match="invalid_token"):
                Admin({"bootstrap.servers": f"{HOST}:{port}", **callback}).list_topics()
            ours = int(secured.address("SASL_PLAINTEXT").rpartition(":")[2])
            for case, (make, _) in REJECTED.items():
                token = make(issuer)
                replies = [rejection(each, token) for each in (port, ours)]
                assert replies[0] == replies[1], case
            issuer.rotate()
            deadline = time.monotonic() + 30
            while True:
                # Kafka fetches an unknown key behind the failed login; the next one may succeed.
                try:
                    with Admin(settings) as admin:
                        admin.list_topics()
                    break
                except AuthenticationFailed:
                    assert time.monotonic() < deadline


def rejection(port: int, token: str) -> tuple[Any, ...]:
    with RawClient(port) as raw:
        first = authenticate(raw, token)
        second: Any = raw.call(messages.SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        return first.error_code, bytes(first.auth_bytes), second.error_code, second.error_message
