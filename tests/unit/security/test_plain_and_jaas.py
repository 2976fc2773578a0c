"""PLAIN, JAAS texts, and logins from settings."""

import pytest

from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.logins import login_of
from tidelog.config import ConfigError
from tidelog.security.errors import SaslError, SaslMalformed, SaslRejected
from tidelog.security.jaas import parse_jaas
from tidelog.security.login import password_login
from tidelog.security.plain import PlainClient, PlainServer, server_passwords

USERS = {"alice": "secret", "zoë": "pässword"}


@pytest.mark.parametrize(("user", "password"), USERS.items())
def test_the_right_password_is_accepted(user: str, password: str) -> None:
    broker, client = PlainServer(USERS), PlainClient(user, password)
    assert client.respond(broker.respond(client.first())) is None
    assert client.is_complete
    assert broker.user == user


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"\0alice\0wrong", SaslRejected),
        (b"\0bob\0secret", SaslRejected),
        (b"\0bob\0", SaslRejected),
        (b"\0\0secret", SaslRejected),
        (b"bob\0alice\0secret", SaslRejected),
        (b"alice\0secret", SaslMalformed),
        (b"\0a\0b\0c", SaslMalformed),
        (b"\0\xff\0secret", SaslMalformed),
        (b"", SaslMalformed),
    ],
)
def test_anything_else_is_not(message: bytes, error: type[SaslError]) -> None:
    broker = PlainServer(USERS)
    with pytest.raises(error) as failed:
        broker.respond(message)
    assert broker.user is None
    assert "secret" not in str(failed.value)


def test_users_are_the_options_that_say_so() -> None:
    entry = parse_jaas(
        "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        ' username="admin" password="admin-secret" // a comment\n'
        ' user_admin="admin-secret" user_alice=\'it\'\'s\' /* another */ user_b.c="q\\"uo\\\\te";'.replace("''", "\\'")
    )
    assert entry.module_name == "PlainLoginModule"
    assert server_passwords(entry.options) == {"admin": "admin-secret", "alice": "it's", "b.c": 'q"uo\\te'}
    assert "admin-secret" not in repr(entry)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Module",
        "Module required",
        "Module sometimes a=b;",
        'Module required a="b"',
        "Module required a=b; Other required;",
        'Module required a="b;',
        "Module required a b;",
        "Module required =b;",
        "Module required a=;",
        "Module required a=;;",
        '"Module" required;',
    ],
)
def test_what_is_no_jaas_entry_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config is not a JAAS"):
        parse_jaas(text)


def test_a_semicolon_in_quotes_is_a_value() -> None:
    assert parse_jaas('M required password=";";').options == {"password": ";"}


@pytest.mark.parametrize(
    ("mechanism", "jaas", "text"),
    [
        ("DIGEST-MD5", None, r"sasl\.mechanism: DIGEST-MD5 is not supported; use one of PLAIN, SCRAM-SHA-256"),
        ("GSSAPI", None, r"sasl\.jaas\.config is needed for GSSAPI"),
        ("OAUTHBEARER", None, r"OAUTHBEARER needs tokens: set sasl\.oauthbearer\.token\.endpoint\.url"),
        ("PLAIN", None, r"sasl\.jaas\.config is needed"),
        ("PLAIN", "a.ScramLoginModule required username=a password=b;", "needs the login module PlainLoginModule"),
        ("PLAIN", "a.PlainLoginModule required username=a;", "username and password are needed"),
    ],
)
def test_a_login_that_cannot_work_is_refused(mechanism: str, jaas: str | None, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        login_of(mechanism, jaas, AdminSettings())


def test_a_login_does_not_show_its_password_and_computes_iterations_once(monkeypatch: pytest.MonkeyPatch) -> None:
    login = password_login("SCRAM-SHA-256", "x.ScramLoginModule required username=alice password=hunter2;")
    assert repr(login) == "PasswordLogin(SCRAM-SHA-256, 'alice')"
    computed: list[int] = []

    def count(_mechanism: str, _password: str, _salt: bytes, iterations: int) -> bytes:
        computed.append(iterations)
        return bytes(32)

    monkeypatch.setattr("tidelog.security.scram.salted_password", count)
    for _ in range(3):
        client = login.begin("host")
        nonce = client.first().partition(b"r=")[2]
        client.respond(b"r=" + nonce + b"more,s=AAAA,i=4096")
    assert computed == [4096]
