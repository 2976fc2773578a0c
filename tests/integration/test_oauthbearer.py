"""OAUTHBEARER listeners from the outside: which tokens are accepted, for how long, and what a slow issuer delays."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient
from tests.integration.token_issuer import (
    CLIENT_SECRET,
    MODULE,
    Issuer,
    Key,
    broker_settings,
    claims,
    client_settings,
    token_issuer,
)
from tidelog.broker.security import authentication
from tidelog.client import Admin, AuthenticationFailed, Producer
from tidelog.client.aio.admin.types import NewTopic
from tidelog.config import ConfigError
from tidelog.security.bearer_tokens import make_unsecured
from tidelog.security.oauthbearer import OAuthBearerClient
from tidelog.testing.cluster import Cluster
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode

INVALID = '{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with token_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def broker(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with Inside(tmp_path_factory.mktemp("broker"), broker_settings(issuer)) as running:
        yield running


@pytest.fixture(autouse=True)
def every_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(authentication.logger, "filters", [])


def client(running: Inside, listener: str = "SASL_PLAINTEXT") -> RawClient:
    return RawClient(int(running.node.socket_server.ports()[listener]))


def authenticate(raw: RawClient, token: str) -> Any:
    """Shake hands and send a token; returns the answer."""
    assert raw.call(messages.SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
    return raw.call(messages.SaslAuthenticateRequest(auth_bytes=OAuthBearerClient(token).first()), 2)


def test_a_signed_token_makes_its_subject_the_principal(broker: Inside, issuer: Issuer) -> None:
    with client(broker) as raw:
        answer = authenticate(raw, issuer.token("carol"))
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
        assert 3_590_000 < answer.session_lifetime_ms <= 3_600_000
        assert raw.call(messages.MetadataRequest(topics=[])).brokers
        sessions = [each.session for each in broker.node.socket_server.connections.values()]
        assert "User:carol" in [each.principal for each in sessions]


def tampered(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{make_unsecured(claims('root')).split('.')[1]}.{signature}"


REJECTED: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda issuer: issuer.token(exp=time.time() - 60, iat=0), "the token expired"),
    "wrong audience": (lambda issuer: issuer.token(aud="elsewhere"), "the token's audience is 'elsewhere'"),
    "no audience": (lambda issuer: issuer.token(aud=None), "the token's audience is None"),
    "wrong issuer": (lambda issuer: issuer.token(iss="https://other.test"), "the token's issuer is"),
    "wrong signature": (lambda issuer: Key("x").sign(claims(), "first"), "the signature of the token is wrong"),
    "another payload": (tampered, "the signature of the token is wrong"),
    "alg none": (lambda issuer: make_unsecured(claims()), "the algorithm 'none' is not one"),
    "unknown key": (lambda issuer: Key("unknown").sign(claims()), "no key of the issuer has the id 'unknown'"),
    "not valid yet": (lambda issuer: issuer.token(nbf=time.time() + 600), "the token is not valid yet"),
    "no subject": (lambda issuer: issuer.token(sub=None), "the token has no claim sub"),
    "not a token": (lambda issuer: "abc", "the token is not a JSON Web Token"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_token_that_is_not_valid_is_answered_as_rfc_7628_says(
    broker: Inside, issuer: Issuer, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, logged = REJECTED[case]
    token = make(issuer)
    with client(broker) as raw:
        answer = authenticate(raw, token)
        assert (answer.error_code, bytes(answer.auth_bytes).decode()) == (0, INVALID)
        answer = raw.call(messages.SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
        assert raw.is_closed_by_peer()
    assert logged in caplog.text
    assert token not in caplog.text


def test_nothing_is_served_between_the_rejection_and_its_end(broker: Inside) -> None:
    with client(broker) as raw:
        assert bytes(authenticate(raw, "abc").auth_bytes)
        raw.send(messages.MetadataRequest(topics=[]))
        assert raw.is_closed_by_peer()


def test_a_new_key_is_fetched_when_a_token_names_it(broker: Inside, issuer: Issuer) -> None:
    old = issuer.token()
    issuer.rotate()
    broker.on_loop(lambda: outdate(broker))
    with client(broker) as raw:
        assert bytes(authenticate(raw, issuer.token()).auth_bytes) == b""
    # The issuer withdrew the key before.
    with client(broker) as raw:
        assert bytes(authenticate(raw, old).auth_bytes).decode() == INVALID


def outdate(broker: Inside) -> None:
    """The keys are older than the shortest time between two fetches."""
    validator = validator_of(broker)
    validator._fetched_ms -= 10_000


def validator_of(broker: Inside) -> Any:
    assert broker.node.authentication is not None
    make: Any = broker.node.authentication.listeners["SASL_PLAINTEXT"].mechanisms["OAUTHBEARER"]
    return make.args[0]


def test_a_slow_issuer_delays_only_logins_that_need_it(broker: Inside, issuer: Issuer) -> None:
    issuer.hold = threading.Event()
    try:
        broker.on_loop(lambda: outdate(broker))
        asked = len(issuer.requests)
        with client(broker) as waiting, client(broker) as too, client(broker) as raw:
            for each in (waiting, too):
                assert each.call(messages.SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
                token = Key("next").sign(claims())
                each.send(messages.SaslAuthenticateRequest(auth_bytes=OAuthBearerClient(token).first()), 2)
            assert authenticate(raw, issuer.token()).session_lifetime_ms
            assert raw.call(messages.MetadataRequest(topics=[])).brokers
            issuer.hold.set()
            for each in (waiting, too):
                assert each.answer(messages.SaslAuthenticateRequest, 2).auth_bytes == INVALID.encode()
            assert issuer.requests[asked:] == ["/keys"]
    finally:
        issuer.hold.set()
        issuer.hold = None


def test_the_keys_are_fetched_regularly_and_kept_if_they_cannot_be(issuer: Issuer, tmp_path: Path) -> None:
    settings = broker_settings(issuer) | {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1"}
    keys = tmp_path / "keys.json"
    keys.write_text(issuer.jwks())
    settings["sasl.oauthbearer.jwks.endpoint.url"] = f"file://{keys}"
    with Inside(tmp_path / "broker", settings) as running:
        node = running.node
        assert node.authentication is not None
        keys.write_text("{}")
        running.run(lambda: refresh(running))
        with client(running) as raw:
            assert bytes(authenticate(raw, issuer.token()).auth_bytes) == b""
        other = Key("other")
        keys.write_text(json.dumps({"keys": [other.public(), {"kty": "oct", "k": "AAAA"}]}))
        running.run(lambda: refresh(running))
        with client(running) as raw:
            assert bytes(authenticate(raw, other.sign(claims())).auth_bytes) == b""


async def refresh(running: Inside) -> None:
    owner = running.node.authentication
    assert owner is not None
    validator_of(running)._fetched_ms -= 3_600_000
    owner.keep_up()
    (future,) = owner._under_way.values()
    await future


def test_the_session_ends_with_the_token(issuer: Issuer, tmp_path: Path) -> None:
    settings = broker_settings(issuer) | {
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "listener.name.sasl_plaintext.oauthbearer.connections.max.reauth.ms": "5000",
    }
    with Inside(tmp_path, settings) as running, client(running) as raw, client(running) as long:
        assert authenticate(long, issuer.token()).session_lifetime_ms == 5000
        # iat and exp of a token have whole seconds in most issuers' tokens; ours has fractions.
        answer = authenticate(raw, issuer.token(exp=time.time() + 0.5))
        assert 0 < answer.session_lifetime_ms <= 500
        # Another principal cannot take the connection over.
        assert raw.call(messages.SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        other = OAuthBearerClient(issuer.token("mallory")).first()
        refused: Any = raw.call(messages.SaslAuthenticateRequest(auth_bytes=other), 2)
        assert refused.error_message.startswith("Cannot change principals during re-authentication")
        assert raw.is_closed_by_peer()
        with client(running) as brief:
            authenticate(brief, issuer.token(exp=time.time() + 0.5))
            answer = authenticate(brief, issuer.token(exp=time.time() + 60))
            assert answer.session_lifetime_ms == 5000
            authenticate(brief, issuer.token(exp=time.time() + 0.05))
            time.sleep(0.06)
            brief.send(messages.MetadataRequest(topics=[]))
            assert brief.is_closed_by_peer()


def test_our_client_fetches_tokens_and_replaces_them(broker: Inside, issuer: Issuer) -> None:
    address = {"bootstrap.servers": f"127.0.0.1:{broker.node.socket_server.ports()['SASL_PLAINTEXT']}"}
    broker.on_loop(lambda: outdate(broker))
    with Admin({**address, **client_settings(issuer)}) as admin:
        admin.list_topics()
    calls: list[float] = []

    def token() -> tuple[str, float]:
        calls.append(1)
        return issuer.token("dora", exp=time.time() + 1), time.time() + 1

    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    with Admin({**address, **login, "sasl.oauthbearer.token.callback": token}) as admin:
        admin.list_topics()
        deadline = time.monotonic() + 20
        while len(calls) < 2 and time.monotonic() < deadline:
            admin.list_topics()
            time.sleep(0.02)
    assert len(calls) >= 2
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        Admin({**address, **login, "sasl.oauthbearer.token.callback": lambda: "abc"}).list_topics()
    wrong = client_settings(issuer)["sasl.jaas.config"].replace(CLIENT_SECRET, "wrong")
    with pytest.raises(AuthenticationFailed, match="answered 401"):
        Admin({**address, **client_settings(issuer), "sasl.jaas.config": wrong}).list_topics()


def test_unsecured_tokens_are_accepted_where_the_operator_says_so(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = 'unsecuredValidatorPrincipalClaimName="sub" unsecuredValidatorRequiredScope="logs"'
    settings = {
        name: text
        for name, text in broker_settings(issuer).items()
        if not name.endswith("handler.class") and not name.endswith("endpoint.url")
    }
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
    with Inside(tmp_path, {**settings, name: f"{MODULE} required {options};"}) as running:
        assert "accepts bearer tokens without a signature" in caplog.text
        with client(running) as raw:
            assert bytes(authenticate(raw, make_unsecured(claims("erin"))).auth_bytes) == b""
        with client(running) as raw:
            answer = authenticate(raw, make_unsecured(claims(scope="others")))
            assert bytes(answer.auth_bytes) == b'{"status":"insufficient_scope", "scope":"logs"}'
        with client(running) as raw:
            assert bytes(authenticate(raw, issuer.token()).auth_bytes).decode() == INVALID
        jaas = f'{MODULE} required unsecuredLoginStringClaim_sub="frank" unsecuredLoginListClaim_scope=",logs,x";'
        port = running.node.socket_server.ports()["SASL_PLAINTEXT"]
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
        with Admin({"bootstrap.servers": f"127.0.0.1:{port}", **login}) as admin:
            admin.list_topics()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://x/keys"}, "is not a URL that begins with https://"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere"}, "the keys of the issuer cannot be fetched"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://127.0.0.1:1/keys"}, "cannot be reached"),
    ],
)
def test_a_listener_without_keys_is_refused_at_the_start(
    issuer: Issuer, tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    settings = broker_settings(issuer) | {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1"} | changes
    with pytest.raises(ConfigError) as refused, Inside(tmp_path, settings):
        pass
    assert text in str(refused.value)
    assert "sasl.oauthbearer.jwks.endpoint.url" in str(refused.value)


@pytest.mark.long
def test_brokers_authenticate_to_each_other_with_tokens(issuer: Issuer) -> None:
    listener = "listener.name.plaintext.oauthbearer.sasl"
    settings = {name: text for name, text in broker_settings(issuer).items() if name.startswith("sasl.")} | {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        f"{listener}.jaas.config": client_settings(issuer)["sasl.jaas.config"],
        "sasl.oauthbearer.token.endpoint.url": issuer.token_url,
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    }
    with Cluster(3, settings) as cluster:
        address = {"bootstrap.servers": cluster.bootstrap_servers, **client_settings(issuer)}
        with Admin(address) as admin:
            admin.create_topics([NewTopic("orders", 3, 3, {"min.insync.replicas": "3"})])
        with Producer({**address, "acks": "all"}) as producer:
            for sent in [producer.send("orders", bytes([index])) for index in range(100)]:
                sent.result(30)
