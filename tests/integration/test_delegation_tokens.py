"""Delegation tokens: made by a user, logged in with by others, renewed, expired, and refused afterwards."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient
from tidelog.cli.app import main
from tidelog.client import Admin, AuthenticationFailed
from tidelog.security.login import PasswordLogin
from tidelog.wire import messages as m
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_delegation_token, describe_delegation_token

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "inter.broker.listener.name": "PLAINTEXT",
    "delegation.token.secret.key": "the brokers' own secret",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        + " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        + ";"
    ),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with Inside(tmp_path_factory.mktemp("tokens"), SETTINGS) as running:
        yield running


def port_of(broker: Inside, listener: str = "SASL_PLAINTEXT") -> int:
    return int(broker.node.socket_server.ports()[listener])


def authenticate(client: RawClient, login: PasswordLogin) -> RawClient:
    handshake = client.call(m.SaslHandshakeRequest(mechanism=login.mechanism))
    assert handshake.error_code == 0
    exchange = login.begin("127.0.0.1")
    token: bytes | None = exchange.first()
    while token is not None:
        answer = client.call(m.SaslAuthenticateRequest(auth_bytes=token))
        assert answer.error_code == 0, answer.error_message
        token = exchange.respond(bytes(answer.auth_bytes)) if answer.auth_bytes or not exchange.is_complete else None
        if exchange.is_complete:
            break
    return client


def user(broker: Inside, name: str) -> RawClient:
    return authenticate(RawClient(port_of(broker)), PasswordLogin("PLAIN", name, USERS[name]))


def create(client: RawClient, **fields: Any) -> Any:
    return client.call(m.CreateDelegationTokenRequest(max_lifetime_ms=-1, **fields))


def with_token(broker: Inside, made: Any) -> PasswordLogin:
    return PasswordLogin("SCRAM-SHA-256", made.token_id, b64encode(made.hmac).decode(), is_token=True)


def test_a_token_opens_a_session_of_its_owner_that_cannot_make_tokens(broker: Inside) -> None:
    with user(broker, "alice") as alice:
        made = create(alice)
    assert made.error_code == 0
    assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
    assert made.issue_timestamp_ms < made.expiry_timestamp_ms < made.max_timestamp_ms
    with authenticate(RawClient(port_of(broker)), with_token(broker, made)) as client:
        assert create(client).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert client.call(m.ListGroupsRequest()).error_code == 0
    sessions = [each.session for each in broker.node.socket_server.connections.values()]
    assert all(session.principal != "User:" + made.token_id for session in sessions)


def test_a_client_of_ours_logs_in_with_a_token(broker: Inside) -> None:
    with user(broker, "alice") as alice:
        made = create(alice)
    settings = {
        "bootstrap.servers": f"127.0.0.1:{port_of(broker)}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{made.token_id}" password="{b64encode(made.hmac).decode()}" tokenauth="true";'
        ),
    }
    with Admin(settings) as admin:
        assert admin.list_topics() is not None
    with user(broker, "alice") as alice:
        assert alice.call(m.ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)).error_code == 0
    with pytest.raises(AuthenticationFailed):
        Admin(settings)


def test_a_token_that_expired_or_never_was_opens_nothing(broker: Inside) -> None:
    with user(broker, "alice") as alice:
        made = create(alice)
        soon = alice.call(m.ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=0))
        assert soon.error_code == 0
        assert soon.expiry_timestamp_ms < made.expiry_timestamp_ms
    while broker.node.clock.wall_ms() <= soon.expiry_timestamp_ms:
        pass  # it is a millisecond at most
    for token_id in (made.token_id, "never-was"):
        login = PasswordLogin("SCRAM-SHA-256", token_id, b64encode(made.hmac).decode(), is_token=True)
        with RawClient(port_of(broker)) as client, pytest.raises(AssertionError, match="invalid credentials"):
            authenticate(client, login)


def test_owners_and_renewers_renew_and_nobody_else(broker: Inside) -> None:
    renewer = create_delegation_token.CreatableRenewers(principal_type="User", principal_name="bob")
    with user(broker, "alice") as alice, user(broker, "bob") as bob:
        shared, own = create(alice, renewers=[renewer]), create(alice)
        renewed = bob.call(m.RenewDelegationTokenRequest(hmac=shared.hmac, renew_period_ms=60_000))
        assert renewed.error_code == 0
        assert renewed.expiry_timestamp_ms < shared.expiry_timestamp_ms
        refused = bob.call(m.RenewDelegationTokenRequest(hmac=own.hmac, renew_period_ms=-1))
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        unknown = bob.call(m.RenewDelegationTokenRequest(hmac=b"x" * 64, renew_period_ms=-1))
        assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        seen = {each.token_id for each in bob.call(m.DescribeDelegationTokenRequest(owners=None)).tokens}
        assert shared.token_id in seen
        assert own.token_id not in seen
        owner = describe_delegation_token.DescribeDelegationTokenOwner(principal_type="User", principal_name="bob")
        assert alice.call(m.DescribeDelegationTokenRequest(owners=[owner])).tokens == []


def test_a_client_that_is_not_authenticated_makes_no_tokens(broker: Inside) -> None:
    with RawClient(port_of(broker, "PLAINTEXT")) as client:
        assert create(client).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        described = client.call(m.DescribeDelegationTokenRequest(owners=None))
        assert described.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_tokens_outlast_a_restart_and_expired_ones_are_removed(tmp_path: Path) -> None:
    settings = {**SETTINGS, "delegation.token.expiry.check.interval.ms": "20"}
    with Inside(tmp_path, settings) as first, user(first, "alice") as alice:
        kept, gone = create(alice), create(alice)
        alice.call(m.ExpireDelegationTokenRequest(hmac=gone.hmac, expiry_time_period_ms=1))
    with Inside(tmp_path, settings) as second:
        with authenticate(RawClient(port_of(second)), with_token(second, kept)):
            pass
        with user(second, "alice") as alice:
            deadline = time.monotonic() + 30
            while len(alice.call(m.DescribeDelegationTokenRequest(owners=None)).tokens) > 1:
                assert time.monotonic() < deadline, "the expired token is still there"
            (left,) = alice.call(m.DescribeDelegationTokenRequest(owners=None)).tokens
            assert left.token_id == kept.token_id


def test_the_command_line_makes_lists_renews_and_ends_tokens(
    broker: Inside, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "alice.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="alice" password="{USERS["alice"]}";\n'
    )

    def token(*words: str, code: int = 0) -> str:
        capfd.readouterr()
        server = f"127.0.0.1:{port_of(broker)}"
        assert main(["token", *words, "--bootstrap-server", server, "--command-config", str(properties)]) == code
        found = capfd.readouterr()
        assert USERS["alice"] not in found.out + found.err
        return found.err if code else found.out

    made = json.loads(token("create", "--renewer", "bob", "--format", "json"))
    assert (made["owner"], made["renewers"]) == ("User:alice", ["bob"])
    listed = token("list")
    assert made["token_id"] in listed
    assert made["hmac"] not in listed
    assert "UTC" in token("renew", "--hmac", made["hmac"], "--period-s", "1")
    assert json.loads(token("expire", "--hmac", made["hmac"], "--format", "json"))["expires_ms"] > made["issued_ms"]
    assert made["token_id"] not in token("list")
    assert "No such delegation token" in token("renew", "--hmac", made["hmac"], code=1)
    assert "base64" in token("renew", "--hmac", "§", code=1)
