"""SCRAM, both sides, and the example of RFC 7677."""

import pytest

from tidelog.security.errors import SaslError, SaslMalformed, SaslRejected
from tidelog.security.scram import (
    HASHES,
    ScramClient,
    ScramCredential,
    ScramServer,
    make_credential,
    new_salt,
    parse_credential,
    salted_password,
)

SALT = bytes(range(16))
SECRET = b"secret of the broker"


def credential(mechanism: str, password: str = "pencil", iterations: int = 4096) -> ScramCredential:
    return make_credential(mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations)


def server(mechanism: str, users: dict[str, ScramCredential], nonce: str = "server") -> ScramServer:
    return ScramServer(mechanism, users.get, nonce, SECRET)


def exchange(broker: ScramServer, client: ScramClient) -> None:
    message: bytes | None = client.first()
    while message is not None:
        message = client.respond(broker.respond(message))


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "zoë", "=2C=3D"])
def test_the_right_password_authenticates_both_sides(mechanism: str, user: str) -> None:
    broker = server(mechanism, {user: credential(mechanism)})
    client = ScramClient(mechanism, user, "pencil", "client")
    exchange(broker, client)
    assert client.is_complete
    assert broker.user == user


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_wrong_password_and_an_unknown_user_fail_alike(mechanism: str) -> None:
    """What the broker answers must not tell which users exist."""
    outcomes = []
    for user in ("alice", "bob"):
        broker = server(mechanism, {"alice": credential(mechanism)})
        client = ScramClient(mechanism, user, "wrong", "client")
        first = broker.respond(client.first())
        proof = client.respond(first)
        assert proof is not None
        with pytest.raises(SaslRejected) as failed:
            broker.respond(proof)
        assert broker.user is None
        outcomes.append((len(first.partition(b",s=")[0]), str(failed.value)))
    assert outcomes[0] == outcomes[1]


def test_an_unknown_user_gets_the_same_salt_every_time() -> None:
    client = ScramClient("SCRAM-SHA-256", "bob", "x", "client")
    answers = {server("SCRAM-SHA-256", {}).respond(client.first()) for _ in range(3)}
    assert len(answers) == 1


def test_the_example_of_rfc_7677() -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.respond(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.is_complete


def test_a_broker_that_does_not_know_the_password_is_not_trusted() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil", "client")
    client.respond(server("SCRAM-SHA-256", {"alice": credential("SCRAM-SHA-256")}).respond(client.first()))
    with pytest.raises(SaslRejected, match="may not be the broker"):
        client.respond(b"v=AAAA")
    assert not client.is_complete


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"y,,n=alice,r=x",
        b"n,,n=al=ice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,m=ext,n=alice,r=x",
        b"\xff",
    ],
)
def test_a_first_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(SaslMalformed):
        server("SCRAM-SHA-256", {}).respond(message)


def test_another_user_cannot_be_acted_for_and_tokens_are_not_taken_for_users() -> None:
    with pytest.raises(SaslRejected, match="authorization id"):
        server("SCRAM-SHA-256", {}).respond(b"n,a=bob,n=alice,r=x")
    with pytest.raises(SaslRejected, match="delegation tokens"):
        server("SCRAM-SHA-256", {}).respond(b"n,,n=alice,r=x,tokenauth=true")


@pytest.mark.parametrize(
    "change",
    [
        (b"c=biws", b"c=eSws"),
        (b"server", b"serveX"),
        (b"r=client", b"r=clienX"),
        (b",p=", b",p=!"),
        (b",p=", b",x="),
    ],
)
def test_a_final_message_of_another_exchange_is_refused(change: tuple[bytes, bytes]) -> None:
    broker = server("SCRAM-SHA-256", {"alice": credential("SCRAM-SHA-256")})
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil", "client")
    proof = client.respond(broker.respond(client.first()))
    assert proof is not None
    with pytest.raises(SaslError):
        broker.respond(proof.replace(*change))
    assert broker.user is None


@pytest.mark.parametrize(
    "answer",
    [
        b"r=other,s=AAAA,i=4096",
        b"r=client,s=AAAA,i=4096",
        b"r=clientx,s=AAAA,i=1",
        b"r=clientx,s=AAAA,i=99999999",
        b"x",
    ],
)
def test_a_client_refuses_a_first_answer_that_makes_no_sense(answer: bytes) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "pencil", "client")
    with pytest.raises(SaslMalformed):
        client.respond(answer)


def test_a_credential_is_text_in_kafkas_form_and_shows_nothing_in_a_repr() -> None:
    made = credential("SCRAM-SHA-512")
    text = str(made)
    assert parse_credential(text) == made
    assert [part.partition("=")[0] for part in text.split(",")] == ["salt", "stored_key", "server_key", "iterations"]
    assert repr(made) == "ScramCredential(iterations=4096)"
    for wrong in ("", "salt=AA==", text.replace("iterations=4096", "iterations=x"), text.replace("salt=", "salt=!")):
        with pytest.raises(ValueError, match="not a SCRAM credential") as refused:
            parse_credential(wrong)
        assert "AAEC" not in str(refused.value)


def test_a_message_of_half_a_megabyte_is_refused_unread() -> None:
    server = ScramServer("SCRAM-SHA-256", lambda user: None, "nonce", b"secret")
    with pytest.raises(SaslMalformed, match="more than 8192"):
        server.respond(b"n,,n=alice,r=x" + b",x=y" * 125_000)


@pytest.mark.parametrize("mechanism", HASHES)
def test_an_unknown_user_is_shown_a_salt_as_long_as_those_that_are_made_for_users(mechanism: str) -> None:
    """The length alone would tell which users exist."""
    salt = new_salt()
    made = make_credential(mechanism, salted_password(mechanism, "pencil", salt, 4096), salt, 4096)
    shown = []
    for user in ("alice", "bob"):
        first = server(mechanism, {"alice": made}).respond(ScramClient(mechanism, user, "x", "client").first())
        shown.append((len(first), first.rpartition(b",i=")[2]))
    assert shown[0] == shown[1]
