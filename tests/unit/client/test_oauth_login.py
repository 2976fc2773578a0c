"""Where bearer tokens come from, and when another is due."""

from pathlib import Path
from typing import Any

import pytest

from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.settings import load_settings
from tidelog.client.oauth_login import OAuthLogin, RefreshRule, oauth_login
from tidelog.config import ConfigError
from tidelog.security.bearer_tokens import make_unsecured
from tidelog.security.errors import SaslRejected

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def login_with(jaas: str | None = None, **settings: Any) -> OAuthLogin:
    return oauth_login(jaas, load_settings(AdminSettings, {"bootstrap.servers": "x:1"}, settings), "sasl.jaas.config")


def test_a_token_is_replaced_within_its_life() -> None:
    rule = RefreshRule(0.8, 0.05, 60_000, 300_000)
    assert rule.refresh_ms(0, 3_600_000, 0.0) == 2_880_000
    assert rule.refresh_ms(0, 3_600_000, 1.0) == 3_060_000
    assert rule.refresh_ms(0, 1_000_000, 0.5) == 700_000, "the buffer remains"
    assert rule.refresh_ms(0, 361_000, 0.0) == 61_000
    assert rule.refresh_ms(0, 100_000, 0.0) == 80_000, "no room for period and buffer"


def test_a_token_is_kept_until_it_is_due_or_rejected() -> None:
    calls: list[int] = []

    def callback() -> tuple[str, float]:
        calls.append(1)
        return f"token-{len(calls)}", 4e9

    login = login_with(sasl_oauthbearer_token_callback=callback)
    first = login.begin("host")
    assert login.begin("host").first() == first.first() == b"n,,\x01auth=Bearer token-1\x01\x01"
    assert first.respond(b'{"status":"invalid_token"}') == b"\x01"
    assert login.begin("host").first() == b"n,,\x01auth=Bearer token-2\x01\x01"
    assert "token-" not in repr(login)


def test_a_token_that_cannot_be_replaced_is_used_while_it_is_valid() -> None:
    answers: list[Any] = [("one", 4e9), RuntimeError("down")]

    def callback() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    login = login_with(sasl_oauthbearer_token_callback=callback)
    login.begin("host")
    assert login._token is not None
    object.__setattr__(login._token, "refresh_ms", 0)
    assert b"one" in login.begin("host").first()
    assert not answers


def test_an_opaque_token_without_an_end_is_asked_for_with_every_connection() -> None:
    tokens = ["one", "two"]
    login = login_with(sasl_oauthbearer_token_callback=lambda: tokens.pop(0))
    assert b"one" in login.begin("host").first()
    assert b"two" in login.begin("host").first()


@pytest.mark.parametrize("found", [None, 7, ("a",), ("a", "b"), b"x"])
def test_a_function_that_returns_no_token_is_named(found: Any) -> None:
    with pytest.raises(SaslRejected, match=r"sasl\.oauthbearer\.token\.callback must return"):
        login_with(sasl_oauthbearer_token_callback=lambda: found).begin("host")


def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    url = f"file://{file}"
    login = login_with(sasl_oauthbearer_token_endpoint_url=url)
    with pytest.raises(SaslRejected, match="cannot be read: No such file"):
        login.begin("host")
    file.write_text(make_unsecured({"sub": "a", "exp": 4e9}) + "\n")
    assert login.begin("host").first().endswith(b".\x01\x01")


@pytest.mark.parametrize(
    ("jaas", "settings", "text"),
    [
        (None, {}, r"set sasl\.oauthbearer\.token\.endpoint\.url"),
        (f"{MODULE};", {}, "for development only"),
        (f"{MODULE};", {"sasl_oauthbearer_token_endpoint_url": "http://x/"}, "clientId and clientSecret are needed"),
        (f"{MODULE} clientId=a clientSecret=b;", {"sasl_oauthbearer_token_endpoint_url": "x"}, "is not a URL"),
        (f"{MODULE} unsecuredLoginLifetimeSeconds=1;", {}, "unsecuredLoginStringClaim_sub"),
        (f"{MODULE} unsecuredLoginLifetimeSeconds=x;", {}, "is not a number"),
        ("x.PlainLoginModule required;", {}, "needs the login module OAuthBearerLoginModule"),
    ],
)
def test_a_login_without_a_source_of_tokens_is_refused(jaas: str | None, settings: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        login_with(jaas, **settings)


def test_tls_options_of_the_login_module_are_for_the_endpoint() -> None:
    url = {"sasl_oauthbearer_token_endpoint_url": "https://issuer.test/token"}
    options = f'{MODULE} clientId=a clientSecret=b ssl.truststore.type=PEM ssl.truststore.location="/nowhere";'
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: /nowhere cannot be read"):
        login_with(options, **url)
