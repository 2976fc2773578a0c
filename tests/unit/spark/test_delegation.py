"""When a token is renewed and when it is replaced; what executors get; what is refused."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, Self

import pytest

from tidelog.client.aio.admin.types import DelegationToken
from tidelog.spark import delegation
from tidelog.spark.delegation import TokenSource, take_token_source
from tidelog.spark.options import OptionError
from tidelog.wire.errors import ApiError, ErrorCode

PERIOD_MS, LIFETIME_MS = 1_000, 2_400
CREDENTIALS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'x.PlainLoginModule required username="a" password="driver-secret";',
    "ssl.truststore.type": "PEM",
}


class FakeAdmin:
    """Makes tokens by its own clock and counts what it is asked for."""

    now_ms = 0
    calls: list[str]
    is_gone = False

    def __init__(self, settings: dict[str, str], *, bootstrap_servers: str) -> None:
        assert settings == CREDENTIALS
        assert bootstrap_servers == "auth:1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def create_delegation_token(self) -> DelegationToken:
        self.calls.append("create")
        name, now_ms = f"token-{len(self.calls)}", FakeAdmin.now_ms
        return DelegationToken(name, "aG1hYw==", "User:a", (), now_ms, now_ms + PERIOD_MS, now_ms + LIFETIME_MS)

    def renew_delegation_token(self, hmac: str) -> int:
        assert hmac == "aG1hYw=="
        self.calls.append("renew")
        if self.is_gone:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return FakeAdmin.now_ms + PERIOD_MS


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[FakeAdmin]:
    monkeypatch.setattr(delegation, "Admin", FakeAdmin)
    monkeypatch.setattr(FakeAdmin, "calls", [], raising=False)
    monkeypatch.setattr(FakeAdmin, "now_ms", 0)
    monkeypatch.setattr(FakeAdmin, "is_gone", False)
    monkeypatch.setenv(delegation.DIRECTORY_VARIABLE, str(tmp_path / "tokens"))
    return FakeAdmin


def source() -> TokenSource:
    found = take_token_source({**CREDENTIALS, "auth.bootstrap.servers": "auth:1"}, "any:1")
    assert found is not None
    return found


def at(now_ms: int) -> dict[str, str]:
    FakeAdmin.now_ms = now_ms
    return dict(source().security(lambda: now_ms))


def test_executors_get_the_token_and_not_the_password() -> None:
    given = at(0)
    assert given["sasl.mechanism"] == "SCRAM-SHA-512"
    assert 'username="token-1" password="aG1hYw==" tokenauth="true";' in given["sasl.jaas.config"]
    assert given["ssl.truststore.type"] == "PEM"
    assert "driver-secret" not in repr(given) + repr(source())


def test_a_token_is_shared_renewed_at_half_of_its_time_and_replaced_before_its_end(fake: type[FakeAdmin]) -> None:
    for now_ms in (0, 1, 499):
        assert "token-1" in at(now_ms)["sasl.jaas.config"]
    assert fake.calls == ["create"]
    at(500)
    at(999)
    assert fake.calls == ["create", "renew"]
    at(1_000)
    assert fake.calls == ["create", "renew", "renew"]
    assert "token-4" in at(1_900)["sasl.jaas.config"], "another renewal would add too little"
    assert fake.calls == ["create", "renew", "renew", "create"]


def test_a_token_that_is_gone_is_replaced(fake: type[FakeAdmin]) -> None:
    at(0)
    fake.is_gone = True
    assert "token-3" in at(600)["sasl.jaas.config"]
    assert fake.calls == ["create", "renew", "create"]


def test_tokens_are_kept_where_only_this_user_can_read(tmp_path: Path) -> None:
    at(0)
    found = [tmp_path / "tokens", *(tmp_path / "tokens").iterdir()]
    assert len(found) == 3
    assert all(stat.S_IMODE(each.stat().st_mode) & 0o077 == 0 for each in found)
    (tmp_path / "tokens").chmod(0o755)
    with pytest.raises(OptionError, match="TIDELOG_TOKEN_DIR"):
        at(1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"security.protocol": "SSL"}, "kafka.security.protocol"),
        ({}, "'PLAINTEXT'"),
        ({**CREDENTIALS, "sasl.token.mechanism": "PLAIN"}, "SCRAM-SHA-512"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        take_token_source({**settings, "auth.bootstrap.servers": "auth:1"}, "any:1")


def test_without_these_settings_nothing_changes() -> None:
    settings: dict[str, Any] = dict(CREDENTIALS)
    assert take_token_source(settings, "any:1") is None
    assert settings == CREDENTIALS
