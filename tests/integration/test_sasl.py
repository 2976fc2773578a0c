"""SASL listeners from the outside: what is served before authentication, and to which principal afterwards."""

import logging
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.security.secured import PASSWORD, USER, broker_settings, jaas, java_settings
from tests.integration.certificates import Certificates, make_certificates
from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient
from tidelog.broker.security import authentication
from tidelog.client import Admin, AuthenticationFailed, Consumer, Producer
from tidelog.client.aio.admin.types import ConfigResource, NewTopic, ResourceType
from tidelog.config import ConfigError
from tidelog.config.java_classes import UNSECURED_VALIDATOR
from tidelog.security.plain import PlainClient
from tidelog.security.scram import ScramClient, make_credential, salted_password
from tidelog.testing import Broker, BrokerFailed
from tidelog.testing.cluster import Cluster
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from tidelog.wire.messages.describe_user_scram_credentials import UserName


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with Inside(tmp_path_factory.mktemp("broker"), broker_settings(certificates)) as running:
        with client(running, "PLAINTEXT") as raw:
            add_user(raw, USER, PASSWORD)
        yield running


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The log is not rate-limited here."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(authentication.logger, "filters", [])


def port_of(running: Inside, listener: str) -> int:
    return int(running.node.socket_server.ports()[listener])


def client(running: Inside, listener: str = "SASL_PLAINTEXT") -> RawClient:
    return RawClient(port_of(running, listener))


def add_user(raw: RawClient, user: str, password: str, mechanism: int = 1) -> int:
    name = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}[mechanism]
    salted = salted_password(name, password, b"salt", 4096)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
    )
    answer: Any = raw.call(messages.AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    return int(answer.results[0].error_code)


def authenticate(raw: RawClient, user: str = USER, password: str = PASSWORD, version: int = 2) -> Any:
    """Shake hands and send one PLAIN message; returns the answer."""
    answer: Any = raw.call(messages.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert answer.error_code == 0
    return raw.call(messages.SaslAuthenticateRequest(auth_bytes=PlainClient(user, password).first()), version)


def wait_until(is_true: Callable[[], Any], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.parametrize(
    "request_",
    [
        messages.MetadataRequest(topics=None),
        messages.ListGroupsRequest(),
        messages.DescribeClusterRequest(),
        messages.SaslAuthenticateRequest(auth_bytes=PlainClient(USER, PASSWORD).first()),
    ],
    ids=lambda request: type(request).__name__,
)
def test_nothing_is_served_before_authentication(
    broker: Inside, request_: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with client(broker) as raw:
        assert raw.call(messages.ApiVersionsRequest(client_software_name="x", client_software_version="1")).api_keys
        raw.send(request_)
        assert raw.is_closed_by_peer()
    wait_until(lambda: "before it is authenticated" in caplog.text, "the broker logs it")


def test_every_api_but_three_closes_the_connection(broker: Inside) -> None:
    """Not even an error is answered: nothing is learned."""
    served = {18, 17}
    for api_key in [key for key in broker.node.routes if key not in served] + [999, -1]:
        with client(broker) as raw:
            raw.socket.sendall(struct.pack(">ihhih", 10, api_key, 0, 1, -1))
            assert raw.is_closed_by_peer(), api_key


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_with_the_right_password_is_served_as_its_user(broker: Inside, version: int) -> None:
    with client(broker) as raw:
        answer = authenticate(raw, version=version)
        assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, None, 0)
        assert raw.call(messages.MetadataRequest(topics=[])).brokers
        sessions = [each.session for each in broker.node.socket_server.connections.values()]
        assert [each.principal for each in sessions if each.listener == "SASL_PLAINTEXT"] == [f"User:{USER}"]
        # A second time is an error and not another identity.
        assert raw.call(messages.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert raw.call(messages.SaslAuthenticateRequest()).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD), (USER, "")])
def test_a_wrong_password_is_an_error_then_the_end(
    broker: Inside, user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    with client(broker) as raw:
        answer = authenticate(raw, user, password)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message.startswith("Authentication failed: ")
        assert raw.is_closed_by_peer()
    assert "authentication with PLAIN failed" in caplog.text
    assert PASSWORD not in caplog.text


def test_what_follows_a_failed_authentication_is_not_read(broker: Inside) -> None:
    """Requests that were sent ahead must not be served while the answer is held back."""
    with client(broker) as raw:
        raw.send(messages.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        raw.send(messages.SaslAuthenticateRequest(auth_bytes=PlainClient(USER, "wrong").first()), 2)
        raw.send(messages.SaslAuthenticateRequest(auth_bytes=PlainClient(USER, PASSWORD).first()), 2)
        raw.send(messages.MetadataRequest(topics=[]))
        assert raw.answer(messages.SaslHandshakeRequest, 1).error_code == 0
        assert raw.answer(messages.SaslAuthenticateRequest, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert raw.is_closed_by_peer()


def test_requests_sent_ahead_of_a_right_password_are_served_in_order(broker: Inside) -> None:
    with client(broker) as raw:
        raw.send(messages.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        raw.send(messages.SaslAuthenticateRequest(auth_bytes=PlainClient(USER, PASSWORD).first()), 2)
        version = raw.send(messages.MetadataRequest(topics=[]))
        assert raw.answer(messages.SaslHandshakeRequest, 1).error_code == 0
        assert raw.answer(messages.SaslAuthenticateRequest, 2).error_code == 0
        assert raw.answer(messages.MetadataRequest, version).brokers


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(broker: Inside) -> None:
    with client(broker) as raw:
        answer: Any = raw.call(messages.SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert raw.is_closed_by_peer()


def exchange_raw_tokens(raw: RawClient, mechanism: Any) -> None:
    """SaslHandshake v0: what follows are tokens with their size and nothing else."""
    message: bytes | None = mechanism.first()
    while message is not None:
        raw.socket.sendall(struct.pack(">i", len(message)) + message)
        message = mechanism.respond(raw.frame())


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256"])
def test_tokens_without_headers_authenticate_an_old_client(broker: Inside, name: str) -> None:
    mechanism = PlainClient(USER, PASSWORD) if name == "PLAIN" else ScramClient(name, USER, PASSWORD, "nonce")
    with client(broker) as raw:
        assert raw.call(messages.SaslHandshakeRequest(mechanism=name), 0).error_code == 0
        exchange_raw_tokens(raw, mechanism)
        assert raw.call(messages.MetadataRequest(topics=[])).brokers
    with client(broker) as raw:
        assert raw.call(messages.SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
        raw.socket.sendall(struct.pack(">i", 5) + b"wrong")
        assert raw.is_closed_by_peer()


def test_a_large_frame_is_refused_before_authentication(broker: Inside, caplog: pytest.LogCaptureFixture) -> None:
    with client(broker) as raw:
        raw.socket.sendall(struct.pack(">i", 524_289))
        assert raw.is_closed_by_peer()
    assert "sasl.server.max.receive.size is 524288" in caplog.text


def test_a_client_that_never_authenticates_is_closed(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AUTHENTICATION_MS_MAX", 0)
    with Inside(tmp_path, broker_settings(certificates)) as running, client(running) as raw:
        found = running.node.authentication
        assert found is not None
        wait_until(lambda: found._unfinished, "it is there")
        running.on_loop(found.close_late)
        assert raw.is_closed_by_peer()
        assert not found._unfinished


def test_users_are_described_changed_and_removed(broker: Inside) -> None:
    with client(broker, "PLAINTEXT") as raw:
        assert add_user(raw, "bob,=é", "secret", 2) == 0
        described: Any = raw.call(messages.DescribeUserScramCredentialsRequest(users=None))
        assert {each.user for each in described.results} == {USER, "bob,=é"}
        named: Any = raw.call(messages.DescribeUserScramCredentialsRequest(users=[UserName(name="bob,=é")]))
        assert [(info.mechanism, info.iterations) for info in named.results[0].credential_infos] == [(2, 4096)]
        admin = connect(broker, "SCRAM-SHA-512", "bob,=é", "secret")
        with Admin(admin) as connected:
            connected.list_topics()
        deletion = ScramCredentialDeletion(name="bob,=é", mechanism=2)
        for expected in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            answer: Any = raw.call(messages.AlterUserScramCredentialsRequest(deletions=[deletion]))
            assert answer.results[0].error_code == expected
        with pytest.raises(AuthenticationFailed, match="invalid credentials"), Admin(admin) as connected:
            connected.list_topics()


def connect(
    running: Inside, mechanism: str, user: str, password: str, listener: str = "SASL_PLAINTEXT"
) -> dict[str, str]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port_of(running, listener)}",
        "security.protocol": listener,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas(mechanism, user, password),
    }


def test_users_outlast_a_restart_and_stand_in_the_tree_as_kafka_writes_them(
    certificates: Certificates, tmp_path: Path
) -> None:
    settings = broker_settings(certificates)
    with Inside(tmp_path, settings) as running, client(running, "PLAINTEXT") as raw:
        assert add_user(raw, "a b*~", "secret") == 0
    with Inside(tmp_path, settings) as running:
        with Admin(connect(running, "SCRAM-SHA-256", "a b*~", "secret")) as admin:
            admin.list_topics()
        stored = running.run(lambda: running.node.metadata.run(lambda store: store.get("/config/users/a%20b%2A%7E")[0]))
    credential = make_credential(
        "SCRAM-SHA-256", salted_password("SCRAM-SHA-256", "secret", b"salt", 4096), b"salt", 4096
    )
    assert stored == b'{"version":1,"config":{"SCRAM-SHA-256":"%s"}}' % str(credential).encode()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_our_client_says_why_it_is_rejected(broker: Inside, mechanism: str) -> None:
    with (
        pytest.raises(AuthenticationFailed, match=r"Authentication failed") as failed,
        Admin(connect(broker, mechanism, USER, "wrong")) as admin,
    ):
        admin.list_topics()
    assert failed.value.fatal
    assert "wrong" not in str(failed.value)


def test_our_client_says_what_the_listener_offers(certificates: Certificates, tmp_path: Path) -> None:
    with Inside(tmp_path, broker_settings(certificates, **{"sasl.enabled.mechanisms": "PLAIN"})) as running:
        with (
            pytest.raises(AuthenticationFailed, match="it offers PLAIN"),
            Admin(connect(running, "SCRAM-SHA-256", USER, PASSWORD)) as admin,
        ):
            admin.list_topics()
        wrong = {
            **connect(running, "PLAIN", USER, PASSWORD),
            "bootstrap.servers": f"127.0.0.1:{port_of(running, 'PLAINTEXT')}",
        }
        with pytest.raises(AuthenticationFailed, match="has no SASL"), Admin(wrong) as admin:
            admin.list_topics()


def ask_for_ever(raw: RawClient) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        raw.call(messages.MetadataRequest(topics=[]))
        time.sleep(0.05)


def test_sessions_end_and_clients_authenticate_again(certificates: Certificates, tmp_path: Path) -> None:
    """KIP-368: a client that goes on without is closed, one that renews keeps its connection, ours makes another."""
    settings = broker_settings(certificates, **{"connections.max.reauth.ms": "400"})
    with Inside(tmp_path, settings) as running:
        with client(running) as raw:
            assert authenticate(raw).session_lifetime_ms == 400
            for _ in range(3):
                time.sleep(0.2)
                assert authenticate(raw).error_code == 0
                assert raw.call(messages.MetadataRequest(topics=[])).brokers
            answer = authenticate(raw, "admin", "admin-secret")
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, "no user of that name, and not the same"
            assert raw.is_closed_by_peer()
        with client(running) as raw:
            authenticate(raw)
            with pytest.raises(ConnectionError):
                ask_for_ever(raw)
        with Producer(connect(running, "PLAIN", USER, PASSWORD)) as producer:
            end = time.monotonic() + 2
            sent = 0
            while time.monotonic() < end:
                producer.send("renewed", b"x").result(10)
                sent += 1
                time.sleep(0.01)
        with Consumer(
            {**connect(running, "PLAIN", USER, PASSWORD), "group.id": "g", "auto.offset.reset": "earliest"}
        ) as consumer:
            consumer.subscribe(["renewed"])
            found = 0
            deadline = time.monotonic() + 20
            while found < sent and time.monotonic() < deadline:
                found += len(consumer.poll(0.5))
        assert found == sent


def test_passwords_are_not_described(broker: Inside) -> None:
    with Admin({"bootstrap.servers": f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}"}) as admin:
        resource = ConfigResource(ResourceType.BROKER, "1001")
        described = admin.describe_configs([resource])[resource]
        name = "listener.name.sasl_ssl.plain.sasl.jaas.config"
        assert (described[name].value, described[name].is_sensitive) == (None, True)
        assert all(entry.value is None for entry in described.values() if entry.is_sensitive)
        assert PASSWORD not in repr(described)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "sasl.enabled.mechanisms: DIGEST-MD5 is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        ({"listener.name.sasl_ssl.plain.sasl.jaas.config": "Module required"}, "is not a JAAS configuration"),
        ({"sasl.jaas.config": "x required;"}, "listener.name.<listener>.<mechanism>.sasl.jaas.config"),
        ({"sasl.server.callback.handler.class": "a.B"}, "String must be one of: org.apache.kafka"),
        ({"sasl.server.callback.handler.class": UNSECURED_VALIDATOR}, "set listener.name.<listener>.<mechanism>.sasl"),
        ({"inter.broker.listener.name": "SASL_SSL"}, "gssapi.sasl.jaas.config is needed for GSSAPI"),
    ],
)
def test_a_listener_that_could_not_authenticate_is_refused_at_the_start(
    certificates: Certificates, tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigError) as refused, Inside(tmp_path, {**broker_settings(certificates), **changes}):
        pass
    assert text in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_brokers_of_a_cluster_authenticate_among_themselves(certificates: Certificates) -> None:
    """SASL_SSL between three: replication, the controller, coordinators on other brokers."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas(
            "PLAIN", "admin", "admin-secret", user_admin="admin-secret", **{f"user_{USER}": PASSWORD}
        ),
        **certificates.broker(),
    }
    with Cluster(3, settings) as cluster:
        client_settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            **java_settings(certificates, "SASL_SSL", "PLAIN"),
        }
        with Admin(client_settings) as admin:
            admin.create_topics([NewTopic("orders", 3, 3, {"min.insync.replicas": "3"})])
        with Producer({**client_settings, "acks": "all"}) as producer:
            for sent in [producer.send("orders", bytes([index])) for index in range(100)]:
                sent.result(30)
        with Consumer({**client_settings, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["orders"])
            found: set[bytes | None] = set()
            deadline = time.monotonic() + 30
            while len(found) < 100 and time.monotonic() < deadline:
                found |= {record.value for record in consumer.poll(0.5)}
        assert len(found) == 100
        with (
            pytest.raises(AuthenticationFailed),
            Admin({**client_settings, **java_settings(certificates, "SASL_SSL", "PLAIN", "wrong")}) as admin,
        ):
            admin.list_topics()


def test_a_broker_that_fails_to_start_says_why(tmp_path: Path) -> None:
    broker = Broker({"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}, process=True, data_dir=tmp_path)
    with pytest.raises(BrokerFailed, match=r"sasl|inter\.broker|security\.inter\.broker\.protocol"):
        broker.start()
