"""Where a console listens and how people log in."""

import pytest

from tidelog.console.settings import ClusterSettings, ConsoleError, ConsoleSettings, Listen, Login, parse_listen

PLAIN = {"bootstrap.servers": "b:9092"}
SASL = {**PLAIN, "security.protocol": "SASL_SSL"}


def of(*clients, **settings):
    clusters = tuple(ClusterSettings(client=each, name=f"c{number}") for number, each in enumerate(clients))
    return ConsoleSettings(clusters=clusters, **settings)


def login(client, **settings):
    made = of(client, **settings)
    return made.login(made.clusters[0])


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:8080", Listen("127.0.0.1", 8080)),
        ("[::1]:80", Listen("::1", 80)),
        (":0", Listen("127.0.0.1", 0)),
        ("console.example:443", Listen("console.example", 443)),
    ],
)
def test_an_address_is_host_and_port(text, listen):
    assert parse_listen(text) == listen


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:x", "host:70000", "::1:80:", "a:b:80"])
def test_anything_else_is_refused_with_its_text(text):
    with pytest.raises(ConsoleError, match="HOST:PORT"):
        parse_listen(text)


def test_the_login_follows_from_the_settings():
    listen = Listen("127.0.0.1", 0)
    assert login(PLAIN, listen=listen) is Login.NONE
    assert login(SASL, listen=listen) is Login.SASL
    assert login({**SASL, "sasl.jaas.config": "x"}, listen=listen) is Login.NONE
    assert login(SASL, listen=listen, token="t" * 16) is Login.TOKEN


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "console.example"])
def test_without_a_login_only_loopback_addresses_are_allowed(host):
    listen = Listen(host, 8080)
    with pytest.raises(ConsoleError, match=r"needs a login: give --token"):
        of(PLAIN, listen=listen).check()
    of(PLAIN, listen=listen, token="t" * 16).check()
    of(SASL, listen=listen).check()


def test_one_cluster_without_a_login_keeps_the_console_on_loopback():
    with pytest.raises(ConsoleError, match=r"needs a login"):
        of(SASL, PLAIN, listen=Listen("0.0.0.0", 8080)).check()
    of(SASL, SASL, listen=Listen("0.0.0.0", 8080)).check()


def test_two_clusters_of_one_name_are_refused():
    two = tuple(ClusterSettings(client=PLAIN, name="same") for _ in range(2))
    with pytest.raises(ConsoleError, match="name of its own"):
        ConsoleSettings(clusters=two, listen=Listen("127.0.0.1", 0)).check()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_needs_no_login(host):
    of(PLAIN, listen=Listen(host, 8080)).check()


def test_a_short_token_and_half_a_certificate_are_refused():
    listen = Listen("127.0.0.1", 0)
    with pytest.raises(ConsoleError, match="at least 16"):
        of(PLAIN, listen=listen, token="short").check()
    with pytest.raises(ConsoleError, match="together"):
        of(PLAIN, listen=listen, tls_key="key.pem").check()


def test_secrets_are_not_in_the_repr():
    settings = of({"sasl.jaas.config": "hush"}, listen=Listen("::1", 0), token="whisper" * 4)
    assert "hush" not in repr(settings)
    assert "whisper" not in repr(settings)
