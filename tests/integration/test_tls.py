"""Listeners with TLS, from the outside: our clients, openssl's handshakes, and clients that misbehave."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.certificates import Certificates, make_certificates
from tests.integration.inside import Inside
from tests.integration.raw_client import frame_of
from tidelog.client import Admin, AuthenticationFailed, ClientError, Consumer, Producer
from tidelog.client.aio.admin.types import ConfigResource, ResourceType
from tidelog.network import handshakes, socket_server
from tidelog.testing import Broker, BrokerFailed
from tidelog.wire.messages.api_versions import ApiVersionsRequest


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is not rate-limited here."""
    for module in (handshakes, socket_server):
        monkeypatch.setattr(module.logger, "filters", [])


def tls_broker(certificates: Certificates, home: object, **more: str) -> Inside:
    settings = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL", **certificates.broker()}
    return Inside(home, {**settings, **{name.replace("__", "."): value for name, value in more.items()}})


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with tls_broker(certificates, tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def mutual(certificates: Certificates, tmp_path: Path) -> Iterator[Inside]:
    with tls_broker(certificates, tmp_path, ssl__client__auth="required") as running:
        yield running


def address_of(running: Inside) -> str:
    return f"127.0.0.1:{running.port}"


def wait_until(is_true: Callable[[], Any], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def round_trip(address: str, settings: dict[str, str], topic: str, values: list[bytes]) -> list[bytes | None]:
    """Produce values and read them back."""
    connect = {"bootstrap.servers": address, **settings}
    with Producer(connect) as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.result(30)
    found: list[bytes | None] = []
    with Consumer({**connect, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while len(found) < len(values) and time.monotonic() < deadline:
            found += [record.value for record in consumer.poll(1.0)]
    return found


@contextmanager
def connect(port: int, certificates: Certificates, name: str | None = None) -> Iterator[ssl.SSLSocket]:
    """A connection after its handshake; `name` is the certificate that it shows."""
    context = ssl.create_default_context(cafile=certificates.path("ca"))
    if name is not None:
        context.load_cert_chain(certificates.path(name))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        yield secure


def test_records_of_every_size_pass_through(broker: Inside, certificates: Certificates) -> None:
    values = [bytes([size % 251]) * size for size in (0, 1, 100, 16_300, 16_384, 70_000, 300_000, 900_000)]
    assert round_trip(address_of(broker), certificates.client(), "sizes", values) == values


def test_a_slow_reader_gets_everything(broker: Inside, certificates: Certificates) -> None:
    """A fetch of several megabytes while the socket is full again and again."""
    values = [index.to_bytes(4, "big") * 20_000 for index in range(100)]
    assert round_trip(address_of(broker), certificates.client(), "slow", values) == values


def test_the_certificate_of_a_client_is_its_principal(mutual: Inside, certificates: Certificates) -> None:
    with connect(mutual.port, certificates, "alice"):
        server = mutual.node.socket_server
        wait_until(lambda: server.connections, "the connection is there")
        assert [each.session.principal for each in server.connections.values()] == ["User:CN=alice"]


def test_a_session_is_not_resumed_with_a_certificate_that_has_expired_since(
    mutual: Inside, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """TLS 1.2 resumes by the session's id, without tickets, and the certificate is not shown again."""
    context = ssl.create_default_context(cafile=certificates.path("ca"))
    context.load_cert_chain(certificates.path("alice"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def connect_again(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        """The session for the next time, and whether the broker serves the connection."""
        with (
            socket.create_connection(("127.0.0.1", mutual.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as secure,
        ):
            assert secure.session_reused == (session is not None)
            try:
                secure.sendall(frame_of(ApiVersionsRequest(), 0, 1, "tls"))
                return secure.session, bool(secure.recv(4))
            except ConnectionError:
                return secure.session, False

    session, is_served = connect_again(None)
    assert is_served
    assert connect_again(session)[1]
    monkeypatch.setattr(handshakes, "time", lambda: time.time() + 3650 * 86400)
    assert not connect_again(session)[1]
    assert "its certificate has expired" in caplog.text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "requires a client certificate"),
        ({"name": "mallory"}, "unknown CA"),
        ({"name": "expired-alice"}, "it has expired"),
        ({"name": "alice", "trusted": "other"}, "the broker's certificate is not accepted"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_an_error_on_both_sides(
    mutual: Inside,
    certificates: Certificates,
    settings: dict[str, str],
    text: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = {"bootstrap.servers": address_of(mutual), **certificates.client(**settings)}  # type: ignore[arg-type]
    with pytest.raises(AuthenticationFailed, match=text), Admin(client) as admin:
        admin.list_topics()
    wait_until(lambda: "closing 127.0.0.1: " in caplog.text, "the broker logs why")


@pytest.mark.parametrize(("name", "text"), [("elsewhere", "IP address mismatch"), ("expired", "has expired")])
def test_a_broker_with_a_wrong_certificate_is_not_spoken_to(
    certificates: Certificates, name: str, text: str, tmp_path: Path
) -> None:
    with tls_broker(certificates, tmp_path, ssl__keystore__location=certificates.path(name)) as running:
        client = {"bootstrap.servers": address_of(running), **certificates.client()}
        with pytest.raises(AuthenticationFailed, match=text), Admin(client) as admin:
            admin.list_topics()


def test_plaintext_to_a_tls_port_and_the_reverse_are_named(
    broker: Inside, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = {"bootstrap.servers": address_of(broker), "bootstrap.timeout.ms": "500"}
    with pytest.raises(ClientError, match=r"check security\.protocol"), Admin(client) as admin:
        admin.list_topics()
    wait_until(lambda: "it does not speak TLS, and this listener does" in caplog.text, "the broker logs it")
    with Inside(tmp_path) as plain:
        client = {"bootstrap.servers": address_of(plain), **certificates.client()}
        with pytest.raises(ClientError), Admin({**client, "bootstrap.timeout.ms": "500"}) as admin:
            admin.list_topics()
        wait_until(lambda: "it speaks TLS, and the listener PLAINTEXT does not" in caplog.text, "the broker logs it")


def test_half_a_handshake_is_closed_in_time(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE_SECONDS_MAX", 0.2)
    with tls_broker(certificates, tmp_path) as running, socket.create_connection(("127.0.0.1", running.port)) as half:
        half.sendall(b"\x16\x03\x01\x01\x00")
        half.settimeout(20)
        assert half.recv(1) == b""
        wait_until(lambda: "did not finish the TLS handshake" in caplog.text, "the broker logs it")
        server = running.node.socket_server
        wait_until(lambda: server.quotas.total == 0, "nothing of it is counted")


def test_a_health_check_that_sends_nothing_leaves_no_line(broker: Inside, caplog: pytest.LogCaptureFixture) -> None:
    server = broker.node.socket_server
    before = server.quotas.total
    for sent in (b"", b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", broker.port)) as check:
            check.sendall(sent)
            wait_until(lambda: server.quotas.total == before + 1, "it is there")
        wait_until(lambda: server.quotas.total == before, "it is gone")
        assert ("closed the connection during the TLS handshake" in caplog.text) == bool(sent)


def send_for_ever(connected: socket.socket, data: bytes) -> None:
    for _ in range(10_000):
        connected.sendall(data)


def test_a_handshake_that_never_ends_is_limited(broker: Inside) -> None:
    """A ClientHello of which only the beginning is ever complete."""
    with socket.create_connection(("127.0.0.1", broker.port)) as greedy:
        greedy.settimeout(20)
        with pytest.raises(OSError, match=r"reset|Broken pipe|aborted"):
            send_for_ever(greedy, b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + bytes(16380))


def test_many_handshakes_at_once_all_succeed(broker: Inside, certificates: Certificates) -> None:
    done: list[str | None] = []

    def shake() -> None:
        with connect(broker.port, certificates) as secure:
            done.append(secure.version())

    threads = [threading.Thread(target=shake) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == ["TLSv1.3"] * 100


def test_a_certificate_is_replaced_without_a_restart(certificates: Certificates, tmp_path: Path) -> None:
    store = tmp_path / "broker.pem"
    store.write_text(Path(certificates.path("broker")).read_text())

    def serial_of(port: int) -> str:
        with connect(port, certificates) as secure:
            found = secure.getpeercert()
            assert found is not None
            return str(found["serialNumber"])

    with tls_broker(certificates, tmp_path / "logs", ssl__keystore__location=str(store)) as running:
        first = serial_of(running.port)
        name = "listener.name.ssl.ssl.keystore.location"
        resource = ConfigResource(ResourceType.BROKER, "1001")
        with Admin({"bootstrap.servers": address_of(running), **certificates.client()}) as admin:
            # Another file.
            admin.replace_configs({resource: {name: certificates.path("broker2")}})
            second = serial_of(running.port)
            # The same file with other bytes.
            admin.replace_configs({resource: {name: str(store)}})
            assert serial_of(running.port) == first
            store.write_text(Path(certificates.path("broker2")).read_text())
            admin.replace_configs({resource: {name: str(store)}})
            assert serial_of(running.port) == second != first
            # What cannot be used is refused, and the listener goes on as it was.
            with pytest.raises(ClientError, match="cannot be read"):
                admin.replace_configs({resource: {name: str(tmp_path / "none.pem")}})
            assert serial_of(running.port) == second
            admin.list_topics()


def test_a_listener_without_a_certificate_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
    broker = Broker(settings, process=True, data_dir=tmp_path)
    with pytest.raises(BrokerFailed, match=r"listener SSL: a listener with TLS needs a certificate"):
        broker.start()


def test_settings_of_one_listener_do_not_reach_the_other(certificates: Certificates, tmp_path: Path) -> None:
    """A listener that requires certificates beside one that does not."""
    prefixed = {f"listener.name.inside.{name}": value for name, value in certificates.broker().items()}
    settings = {
        "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "OUTSIDE:SSL,INSIDE:SSL",
        "inter.broker.listener.name": "INSIDE",
        **certificates.broker(),
        **prefixed,
        "listener.name.inside.ssl.client.auth": "required",
        "listener.name.inside.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U",
    }
    with Inside(tmp_path, settings) as running:
        node: Any = running.node
        ports = node.socket_server.ports()
        with Admin({"bootstrap.servers": f"127.0.0.1:{ports['OUTSIDE']}", **certificates.client()}) as admin:
            admin.list_topics()
            found = {each.session.listener: each.session.principal for each in node.socket_server.connections.values()}
            assert found == {"OUTSIDE": "User:ANONYMOUS"}
        with Admin({"bootstrap.servers": f"127.0.0.1:{ports['INSIDE']}", **certificates.client("alice")}) as admin:
            admin.list_topics()
            principals = {each.session.principal for each in node.socket_server.connections.values()}
            assert "User:ALICE" in principals
