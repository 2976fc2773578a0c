"""Signatures and claims of bearer tokens, and the messages of OAUTHBEARER."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tidelog.config import ConfigError
from tidelog.security.bearer_tokens import (
    TokenRules,
    expiry_of,
    key_id_of,
    make_unsecured,
    parse_keys,
    validate_signed,
    validate_unsecured,
)
from tidelog.security.errors import SaslMalformed, SaslRejected, TokenRejected
from tidelog.security.oauthbearer import BearerToken, OAuthBearerClient, OAuthBearerServer, extensions_of, parse_first

NOW_MS = 1_000_000_000
RULES = TokenRules(clock_skew_ms=30_000)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
EC_JWK = {**ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec"}
ED_JWK = {**OKPAlgorithm.to_jwk(ED_KEY.public_key(), as_dict=True), "kid": "ed"}


def claims(**changes: Any) -> dict[str, Any]:
    usual = {"sub": "alice", "iat": 1_000_000, "exp": 1_000_100}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def signed(**changes: Any) -> str:
    return jwt.encode(claims(**changes), EC_KEY, "ES256", headers={"kid": "ec"})


KEYS = parse_keys(json.dumps({"keys": [EC_JWK, ED_JWK]}), "here")


def test_keys_of_every_type_verify() -> None:
    token = validate_signed(signed(scope="a b"), KEYS, RULES, NOW_MS)
    assert token == BearerToken("alice", frozenset({"a", "b"}), 1_000_100_000)
    other = jwt.encode(claims(sub=" bob ", scope=["c"]), ED_KEY, "EdDSA", headers={"kid": "ed"})
    assert validate_signed(other, KEYS, RULES, NOW_MS).principal == "bob"
    without_id = jwt.encode(claims(), EC_KEY, "ES256")
    assert validate_signed(without_id, KEYS, RULES, NOW_MS).principal == "alice"


@pytest.mark.parametrize(
    ("changes", "rules", "reason"),
    [
        ({"exp": 999_970}, RULES, "iat is not a time before it expires|expired"),
        ({"exp": 999_970, "iat": 1}, RULES, "the token expired 30000 ms ago"),
        ({"exp": None}, RULES, "no claim exp"),
        ({"exp": "soon"}, RULES, "no claim exp"),
        ({"exp": True}, RULES, "no claim exp"),
        ({"iat": None}, RULES, "no claim iat"),
        ({"iat": 2_000_000}, RULES, "iat is not a time before"),
        ({"nbf": 1_000_031}, RULES, "not valid yet"),
        ({"aud": "x"}, RULES, r"expected\.audience is not set"),
        ({"aud": ["x", "y"]}, TokenRules(expected_audience=("z",)), "audience is"),
        ({}, TokenRules(expected_issuer="me"), "issuer is None"),
        ({"sub": " "}, RULES, "no claim sub"),
        ({"sub": 7}, RULES, "no claim sub"),
        ({}, TokenRules(sub_claim="upn"), r"no claim upn \(sasl\.oauthbearer\.sub\.claim\.name\)"),
        ({"scope": 7}, RULES, "not a list of scopes"),
    ],
)
def test_a_claim_that_does_not_hold_is_rejected(changes: dict[str, Any], rules: TokenRules, reason: str) -> None:
    with pytest.raises(TokenRejected, match=reason) as rejected:
        validate_signed(signed(**changes), KEYS, rules, NOW_MS)
    assert rejected.value.reason == '{"status":"invalid_token"}'


def test_clocks_may_differ_by_the_skew() -> None:
    assert validate_signed(signed(exp=999_971, iat=1), KEYS, RULES, NOW_MS).expires_ms == 999_971_000
    assert validate_signed(signed(nbf=1_000_030), KEYS, RULES, NOW_MS).principal == "alice"


def test_a_token_cannot_choose_how_it_is_verified() -> None:
    """The public key as the secret of an HMAC, and no algorithm at all."""
    hmac = jwt.encode(claims(), bytes.fromhex("04") + b"the public key, as bytes, of the EC key" * 2, "HS256")
    for token in (hmac, make_unsecured(claims()), signed()[:-4] + "AAAA", "a.b.c", "", "a", ".."):
        with pytest.raises(TokenRejected):
            validate_signed(token, KEYS, RULES, NOW_MS)


def test_keys_that_cannot_sign_are_left_out() -> None:
    weak = {**RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key(), as_dict=True), "kid": "weak"}
    given = [EC_JWK, weak, {"kty": "oct", "k": "AAAA"}, {**ED_JWK, "use": "enc"}, {"kty": "EC", "crv": "P-256"}, {}]
    keys = parse_keys(json.dumps({"keys": given}), "here")
    assert [(key.key_id, key.algorithms) for key in keys] == [("ec", ("ES256",))]
    for text in ("", "[]", "{}", '{"keys": 1}', '{"keys": [1]}', '{"keys": []}', "[" * 100_000):
        with pytest.raises(ConfigError, match="here"):
            parse_keys(text, "here")


def test_what_a_token_says_of_itself() -> None:
    assert (key_id_of(signed()), expiry_of(signed())) == ("ec", 1_000_100_000)
    for text in ("", "a.b.c", "opaque", "....", make_unsecured({"exp": "x"})):
        assert (key_id_of(text), expiry_of(text)) == (None, None)


def test_unsecured_tokens_have_no_signature() -> None:
    token = make_unsecured(claims(scope="a"))
    assert validate_unsecured(token, RULES, ("a",), NOW_MS).principal == "alice"
    for other in (signed(), token + "AAAA", token[:-1]):
        with pytest.raises(TokenRejected):
            validate_unsecured(other, RULES, (), NOW_MS)
    with pytest.raises(TokenRejected) as rejected:
        validate_unsecured(token, RULES, ("a", "b"), NOW_MS)
    assert rejected.value.reason == '{"status":"insufficient_scope", "scope":"a b"}'


class Validator:
    def due_work(self, _token: str) -> None:
        return None

    def validate(self, token: str) -> BearerToken:
        return validate_signed(token, KEYS, RULES, NOW_MS)


def test_an_exchange_succeeds_or_ends_as_rfc_7628_says() -> None:
    server, client = OAuthBearerServer(Validator()), OAuthBearerClient(signed(), {"traceId": "1"})
    assert client.first().endswith(b"\x01traceId=1\x01\x01")
    assert client.respond(server.respond(client.first())) is None
    assert (server.user, server.expires_ms, client.is_complete) == ("alice", 1_000_100_000, True)
    forgotten: list[bool] = []
    server, client = OAuthBearerServer(Validator()), OAuthBearerClient("abc", None, lambda: forgotten.append(True))
    answer = client.respond(server.respond(client.first()))
    assert (answer, forgotten, client.is_complete) == (b"\x01", [True], False)
    with pytest.raises(TokenRejected):
        server.respond(b"\x01")
    assert server.user is None


def test_an_authorization_id_must_be_the_subject() -> None:
    for name, is_accepted in (("alice", True), ("bob", False)):
        server = OAuthBearerServer(Validator())
        message = f"n,a={name},\x01auth=Bearer {signed()}\x01\x01".encode()
        if is_accepted:
            assert server.respond(message) == b""
        else:
            with pytest.raises(SaslRejected, match=r"authorization id \(bob\)"):
                server.respond(message)
            assert server.user is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01a1=x\x01auth=Bearer abc\x01\x01",
        "n,,\x01auth=Bearer ä\x01\x01".encode(),
        b"\xff\xfe",
    ],
)
def test_what_is_no_first_message_is_malformed(message: bytes) -> None:
    with pytest.raises(SaslMalformed):
        parse_first(message)


def test_extensions_come_from_the_login_module() -> None:
    assert extensions_of({"extension_a": "x y", "clientId": "z"}, "s") == {"a": "x y"}
    for name, value in (("extension_auth", "x"), ("extension_a1", "x"), ("extension_a", "")):
        with pytest.raises(ConfigError, match="is not a SASL extension"):
            extensions_of({name: value}, "s")


def test_what_anyone_may_send_is_not_parsed_for_long() -> None:
    """A message has up to half a megabyte, and its sender is not authenticated."""
    large = base64.urlsafe_b64encode(b'{"kid":"ec","x":[' + b"1e9," * 90_000 + b"0]}").rstrip(b"=").decode() + ".x.y"
    with pytest.raises(TokenRejected, match="header"):
        validate_signed(large, KEYS, RULES, NOW_MS)
    assert key_id_of(large) is None
    with pytest.raises(SaslMalformed, match="extensions"):
        parse_first(b"n,,\x01auth=Bearer x\x01" + b"a=b\x01" * 100_000 + b"\x01")
    assert parse_first(b"n,,\x01auth=Bearer x\x01" + b"a=b\x01" * 99 + b"\x01").token == "x"
