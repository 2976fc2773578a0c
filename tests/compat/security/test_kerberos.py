"""GSSAPI with a real KDC: our client and others against our broker, and ours against Apache Kafka."""

import asyncio
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper, run_tool
from benchmarks.processes import HOST, free_port
from tests.compat.security.secured import (
    METADATA_SOON,
    java_transport,
    librdkafka_transport,
    python_transport,
    with_tls_listener,
    write_properties,
)
from tests.effort import usually
from tests.integration.certificates import Certificates, make_certificates
from tests.integration.inside import Inside
from tests.integration.kdc import REALM, SERVICE, Realm, realm, unavailable_reason
from tests.integration.raw_client import RawClient
from tidelog.broker.security import authentication
from tidelog.client import Admin, AuthenticationFailed, Consumer, Producer
from tidelog.client.aio.admin.types import NewTopic
from tidelog.config import ConfigError
from tidelog.testing.cluster import Cluster
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode

with warnings.catch_warnings():
    # It reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = pytest.mark.skipif(unavailable_reason() is not None, reason=str(unavailable_reason()))

VALUES = [b"one", b"two"]


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with realm(tmp_path_factory.mktemp("realm")) as running:
        running.key_tab("alice")
        yield running


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(kerberos: Realm, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    rules = "RULE:[2:$1@$0](.*/never)s/x/y/,RULE:[1:$1](b.*)s/^b(.)/B-$1/,DEFAULT"
    settings = kerberos.broker_settings(**{"sasl.kerberos.principal.to.local.rules": rules})
    with Inside(tmp_path_factory.mktemp("broker"), with_tls_listener(settings, certificates)) as running:
        yield running


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(authentication.logger, "filters", [])


@pytest.fixture
def ticket(kerberos: Realm) -> Iterator[None]:
    """The default ticket cache, as `kinit` leaves it."""
    kerberos.run("kinit", "-k", "-t", kerberos.key_tab("alice"), "alice")
    yield
    kerberos.run("kdestroy")


EITHER_PROTOCOL = pytest.mark.parametrize("protocol", usually(["SASL_SSL"], ["SASL_PLAINTEXT", "SASL_SSL"]))


def address_of(running: Inside, protocol: str = "SASL_PLAINTEXT") -> str:
    return f"localhost:{running.node.socket_server.ports()[protocol]}"


def principals(running: Inside) -> set[str]:
    connections = running.node.socket_server.connections
    return running.on_loop(lambda: {each.session.principal for each in connections.values()})


def collected(poll: Callable[[], list[Any]]) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += poll()
    return found


def write_and_read(settings: dict[str, Any]) -> None:
    with Producer(settings) as producer:
        for sent in [producer.send("tidelog", value) for value in VALUES]:
            sent.result(30)
    with Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["tidelog"])
        assert collected(lambda: [record.value for record in consumer.poll(0.5)]) == VALUES


@pytest.mark.parametrize(
    ("principal", "user", "protocol"),
    [("alice", "alice", "SASL_SSL"), ("bob", "B-ob", "SASL_PLAINTEXT"), ("carol/admin", "carol", "SASL_PLAINTEXT")],
)
def test_our_client_with_a_key_table_is_the_user_of_its_ticket(
    broker: Inside, kerberos: Realm, certificates: Certificates, principal: str, user: str, protocol: str
) -> None:
    settings = {**kerberos.client_settings(principal), **java_transport(certificates, protocol)}
    settings["bootstrap.servers"] = address_of(broker, protocol)
    with Admin(settings) as admin:
        admin.list_topics()
        assert f"User:{user}" in principals(broker)
    if principal == "alice":
        write_and_read(settings)


def test_our_client_with_a_ticket_cache(broker: Inside, kerberos: Realm, ticket: None) -> None:
    jaas = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
    settings = {**kerberos.client_settings(), "sasl.jaas.config": jaas, "bootstrap.servers": address_of(broker)}
    with Admin(settings) as admin:
        admin.list_topics()


def test_without_a_ticket_the_client_says_so(broker: Inside, kerberos: Realm, tmp_path: Path) -> None:
    address = {"bootstrap.servers": address_of(broker)}
    jaas = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
    with pytest.raises(AuthenticationFailed, match="Kerberos has no ticket for this user"):
        Admin({**address, **kerberos.client_settings(), "sasl.jaas.config": jaas}).list_topics()
    other = kerberos.jaas("alice").replace(f"alice@{REALM}", f"mallory@{REALM}")
    with pytest.raises(AuthenticationFailed, match=f"Kerberos has no ticket for mallory@{REALM}"):
        Admin({**address, **kerberos.client_settings(), "sasl.jaas.config": other}).list_topics()
    with pytest.raises(AuthenticationFailed, match="not found in Kerberos database"):
        Admin({**address, **kerberos.client_settings(), "sasl.kerberos.service.name": "nfs"}).list_topics()


@pytest.mark.parametrize("token", [b"", b"garbage", b"\x60" * 5000, bytes(range(256))])
def test_what_is_no_ticket_is_rejected(broker: Inside, token: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with RawClient(int(broker.node.socket_server.ports()["SASL_PLAINTEXT"])) as raw:
        assert raw.call(messages.SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        answer: Any = raw.call(messages.SaslAuthenticateRequest(auth_bytes=token), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "invalid credentials with SASL mechanism GSSAPI" in answer.error_message
        assert raw.is_closed_by_peer()
    assert "the ticket is not accepted" in caplog.text


def test_a_ticket_cannot_be_replayed(broker: Inside, kerberos: Realm) -> None:
    """The library remembers the tickets it has accepted."""
    from tidelog.client.aio.admin.admin import AdminSettings
    from tidelog.client.logins import login_of

    settings = kerberos.client_settings()
    login = login_of("GSSAPI", settings["sasl.jaas.config"], AdminSettings(sasl_kerberos_service_name=SERVICE))
    message = login.begin("localhost").first()
    codes = []
    for _ in range(2):
        with RawClient(int(broker.node.socket_server.ports()["SASL_PLAINTEXT"])) as raw:
            raw.call(messages.SaslHandshakeRequest(mechanism="GSSAPI"), 1)
            answer: Any = raw.call(messages.SaslAuthenticateRequest(auth_bytes=message), 2)
            codes.append(answer.error_code)
            if not answer.error_code:
                # Half an exchange serves nothing.
                raw.send(messages.MetadataRequest(topics=[]))
                assert raw.is_closed_by_peer()
    assert codes == [0, ErrorCode.SASL_AUTHENTICATION_FAILED]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "sasl.jaas.config is needed for GSSAPI"),
        ({"jaas": "x.Krb5LoginModule required useKeyTab=true;"}, "needs the option principal"),
        ({"jaas": 'x.Krb5LoginModule required principal="a@B" keyTab="/nowhere";'}, "has no usable key of a@B"),
        ({"rules": "RULE:[1:$2]"}, "names a component beyond 1"),
    ],
)
def test_a_listener_without_keys_is_refused_at_the_start(
    kerberos: Realm, tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    settings = kerberos.broker_settings()
    name = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    if "rules" in changes:
        settings["sasl.kerberos.principal.to.local.rules"] = changes["rules"]
    elif "jaas" in changes:
        settings[name] = changes["jaas"]
    else:
        del settings[name]
    with pytest.raises(ConfigError) as refused, Inside(tmp_path, settings):
        pass
    assert text in str(refused.value)


@EITHER_PROTOCOL
@pytest.mark.usefixtures("ticket")
def test_kafka_python(broker: Inside, certificates: Certificates, protocol: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": address_of(broker, protocol),
        **python_transport(certificates, protocol),
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": SERVICE,
        "sasl_kerberos_domain_name": "localhost",
    }
    producer = KafkaProducer(**settings)
    try:
        for value in VALUES:
            producer.send(f"kafka-python-{protocol}", value).get(60)
        assert "User:alice" in principals(broker)
    finally:
        producer.close()
    consumer = KafkaConsumer(f"kafka-python-{protocol}", auto_offset_reset="earliest", **METADATA_SOON, **settings)
    try:
        assert collected(lambda: [r.value for records in consumer.poll(500).values() for r in records]) == VALUES
    finally:
        consumer.close()


@EITHER_PROTOCOL
@pytest.mark.usefixtures("ticket")
def test_aiokafka(broker: Inside, certificates: Certificates, protocol: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=address_of(broker, protocol),
            **python_transport(certificates, protocol),
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name=SERVICE,
            sasl_kerberos_domain_name="localhost",
        ) as producer:
            await producer.send_and_wait("aiokafka", b"one")

    asyncio.run(run())


@EITHER_PROTOCOL
@pytest.mark.usefixtures("ticket")
def test_confluent_kafka(broker: Inside, certificates: Certificates, protocol: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka import Producer as ConfluentProducer

    settings = {
        "bootstrap.servers": address_of(broker, protocol),
        **librdkafka_transport(certificates, protocol),
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.kinit.cmd": "true",
    }
    try:
        producer = ConfluentProducer(settings)
    except KafkaException as error:
        pytest.skip(f"this librdkafka is built without GSSAPI: {error}")
    producer.produce("confluent", b"one")
    assert producer.flush(30) == 0


@pytest.mark.long
def test_brokers_authenticate_to_each_other_with_tickets(kerberos: Realm) -> None:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "listener.name.plaintext.gssapi.sasl.jaas.config": kerberos.jaas(f"{SERVICE}/127.0.0.1"),
    }
    with Cluster(3, settings) as cluster:
        address = {"bootstrap.servers": cluster.bootstrap_servers, **kerberos.client_settings()}
        with Admin(address) as admin:
            admin.create_topics([NewTopic("orders", 3, 3, {"min.insync.replicas": "3"})])
        with Producer({**address, "acks": "all"}) as producer:
            for sent in [producer.send("orders", bytes([index])) for index in range(100)]:
                sent.result(30)


def use_java(kerberos: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    before = os.environ.get("JDK_JAVA_OPTIONS", "")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{before} -Djava.security.krb5.conf={kerberos.config}")


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)
def test_the_java_client(
    broker: Inside, kerberos: Realm, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java(kerberos, monkeypatch)
    settings = {**kerberos.client_settings(), **java_transport(certificates, "SASL_SSL")}
    file = str(write_properties(tmp_path / "c", settings))
    server = ("--bootstrap-server", address_of(broker, "SASL_SSL"))
    run_tool(
        "kafka.tools.ConsoleProducer", *server, "--topic", "java", "--producer.config", file, input_text="one\ntwo\n"
    )
    reading = ("--from-beginning", "--max-messages", "2", "--consumer.config", file)
    printed = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, "--topic", "java", *reading)
    assert printed.splitlines() == ["one", "two"]


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)
def test_our_client_against_apache_kafka(kerberos: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_java(kerberos, monkeypatch)
    port = free_port()
    with ZooKeeper(tmp_path / "zookeeper") as zookeeper:
        broker = KafkaBroker(tmp_path / "kafka", zookeeper)
        listeners = f"PLAINTEXT://{HOST}:{broker.port},SASL_PLAINTEXT://localhost:{port}"
        broker._settings = kerberos.broker_settings(listeners=listeners)
        with broker:
            write_and_read({"bootstrap.servers": f"localhost:{port}", **kerberos.client_settings()})
