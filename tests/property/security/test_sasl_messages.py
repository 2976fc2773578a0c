"""Hostile SASL messages and JAAS texts: an answer or the declared error, and never an authenticated user."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.config import ConfigError
from tidelog.security.errors import SaslError
from tidelog.security.jaas import parse_jaas
from tidelog.security.plain import PlainClient, PlainServer
from tidelog.security.scram import ScramClient, ScramServer, make_credential, parse_credential

CREDENTIAL = make_credential("SCRAM-SHA-256", bytes(32), b"salt", 4096)
pieces = st.sampled_from(
    [
        b"n,,",
        b"n=alice",
        b",r=",
        b"client",
        b"server",
        b",p=",
        b"c=biws",
        b",a=b",
        b"=2C",
        b"v=",
        b"e=",
        b",i=4096",
        b",s=AAAA",
    ]
)
messages = st.one_of(
    st.binary(max_size=60), st.lists(st.one_of(pieces, st.binary(max_size=4)), max_size=10).map(b"".join)
)


@settings(deadline=None, max_examples=examples(600))
@given(st.lists(messages, min_size=1, max_size=3))
def test_no_messages_authenticate_with_scram_without_the_password(sent: list[bytes]) -> None:
    broker = ScramServer("SCRAM-SHA-256", {"alice": CREDENTIAL}.get, "server", b"secret")
    with contextlib.suppress(SaslError):
        for message in sent:
            assert isinstance(broker.respond(message), bytes)
    assert broker.user is None


@settings(deadline=None, max_examples=examples(600))
@given(st.lists(messages, min_size=1, max_size=3))
def test_no_messages_convince_a_scram_client(sent: list[bytes]) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "x", "client", lambda *_: bytes(32))
    with contextlib.suppress(SaslError):
        for message in sent:
            client.respond(message)
    assert not client.is_complete


@settings(deadline=None, max_examples=examples(600))
@given(st.one_of(st.binary(max_size=40), st.lists(st.sampled_from([b"\0", b"alice", b"x"]), max_size=6).map(b"".join)))
def test_no_message_but_the_right_one_authenticates_with_plain(message: bytes) -> None:
    broker = PlainServer({"alice": "secret"})
    with contextlib.suppress(SaslError):
        broker.respond(message)
    assert broker.user is None


names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=10)


@settings(deadline=None, max_examples=examples(300))
@given(names, names)
def test_any_name_and_password_pass_through_plain(user: str, password: str) -> None:
    broker = PlainServer({user: password})
    broker.respond(PlainClient(user, password).first())
    assert broker.user == user


@settings(deadline=None, max_examples=examples(100))
@given(names)
def test_any_name_passes_through_scram(user: str) -> None:
    broker = ScramServer("SCRAM-SHA-256", {user: CREDENTIAL}.get, "server", b"secret")
    client = ScramClient("SCRAM-SHA-256", user, "x", "client", lambda *_: bytes(32))
    message: bytes | None = client.first()
    while message is not None:
        message = client.respond(broker.respond(message))
    assert client.is_complete
    assert broker.user == user


@settings(deadline=None, max_examples=examples(600))
@given(st.one_of(st.text(max_size=40), st.text("Mrequid =\"';/*\\\n", max_size=40)))
def test_any_jaas_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_jaas(text)


@settings(deadline=None, max_examples=examples(300))
@given(st.dictionaries(st.text("abc_.", min_size=1, max_size=5), st.text(max_size=20), max_size=4))
def test_quoted_options_are_read_back(options: dict[str, str]) -> None:
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    text = "M required " + " ".join(f'{name}="{value}"' for name, value in quoted.items()) + ";"
    assert parse_jaas(text).options == options


@settings(deadline=None, max_examples=examples(300))
@given(st.text(max_size=60))
def test_any_stored_credential_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_credential(text)
