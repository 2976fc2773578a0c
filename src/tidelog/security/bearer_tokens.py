"""Bearer tokens that are JSON Web Tokens: their signature, their claims, and the keys of their issuer.

PyJWT verifies signatures (`pip install 'tidelog[oauth]'`). The algorithm is bound to the type of the key and never
chosen by the token alone: `none` and the HMAC algorithms are not in the table. Claims are checked as Kafka's validator
does, against the time that is given.
"""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from tidelog.config.errors import ConfigError
from tidelog.security.errors import TokenRejected
from tidelog.security.oauthbearer import BearerToken

logger = logging.getLogger(__name__)

_RSA_BITS_MIN: Final = 2048
_KEYS_MAX: Final = 100
_HEADER_LENGTH_MAX: Final = 8 << 10
"""An algorithm and the id of a key. Anyone may send half a megabyte, and to parse it would hold others up."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
"""By the type of a key and its curve: what it may sign with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """`sasl.oauthbearer.*` of one listener."""

    expected_audience: tuple[str, ...] = ()
    expected_issuer: str | None = None
    clock_skew_ms: int = 30_000
    scope_claim: str = "scope"
    sub_claim: str = "sub"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key of an issuer."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any = field(repr=False)


def parse_keys(text: bytes | str, source: str) -> tuple[SigningKey, ...]:
    """The keys of a JWKS that can verify tokens. Raises ConfigError, which names `source`, if there is none."""
    setting = "sasl.oauthbearer.jwks.endpoint.url"
    library(setting)
    try:
        given = json.loads(text)["keys"]
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(f"{setting}: {source} does not hold a JSON Web Key Set", setting=setting) from error
    keys = [key for each in given[:_KEYS_MAX] if (key := _parse_key(each, source)) is not None]
    if not keys:
        raise ConfigError(
            f"{setting}: {source} holds no RSA, EC or OKP key that signs tokens, of {len(given)} keys", setting=setting
        )
    return tuple(keys)


def _parse_key(jwk: Mapping[str, Any], source: str) -> SigningKey | None:
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    key_id = jwk.get("kid")
    algorithms = _ALGORITHMS.get((str(jwk.get("kty")), str(jwk.get("crv", ""))), ())
    if isinstance(jwk.get("alg"), str):
        algorithms = tuple(each for each in algorithms if each == jwk["alg"])
    if jwk.get("use", "sig") != "sig" or not algorithms:
        return None
    try:
        key = PyJWK(dict(jwk), algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError) as error:
        logger.warning("the key %r of %s is ignored: %s", key_id, source, error)
        return None
    if getattr(key, "key_size", _RSA_BITS_MIN) < _RSA_BITS_MIN and jwk.get("kty") == "RSA":
        logger.warning("the key %r of %s is ignored: RSA keys have at least %d bits", key_id, source, _RSA_BITS_MIN)
        return None
    public = key.public_key() if hasattr(key, "public_key") else key
    return SigningKey(key_id if isinstance(key_id, str) else None, algorithms, public)


def key_id_of(token: str) -> str | None:
    """Which key a token says it is signed with. Nothing is verified."""
    try:
        key_id = _header(token).get("kid")
    except TokenRejected:
        return None
    return key_id if isinstance(key_id, str) else None


def validate_signed(token: str, keys: Sequence[SigningKey], rules: TokenRules, now_ms: int) -> BearerToken:
    """What a signed token says. Raises TokenRejected."""
    header = _header(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    known = [key for key in keys if key_id is None or key.key_id == key_id]
    if not known:
        raise TokenRejected(f"no key of the issuer has the id {_short(key_id)}")
    fitting = [key for key in known if algorithm in key.algorithms]
    if not fitting:
        raise TokenRejected(f"the algorithm {_short(algorithm)} is not one that the issuer's key signs with")
    return _checked_claims(_verified_claims(token, str(algorithm), fitting), rules, now_ms)


def _verified_claims(token: str, algorithm: str, keys: Sequence[SigningKey]) -> Mapping[str, Any]:
    from jwt.api_jws import PyJWS
    from jwt.exceptions import InvalidSignatureError, InvalidTokenError

    verifier = PyJWS(algorithms=[algorithm])
    for key in keys:
        try:
            payload = verifier.decode_complete(token, key.key, [algorithm])["payload"]
        except InvalidSignatureError:
            continue
        except (InvalidTokenError, ValueError, TypeError, RecursionError) as error:
            raise TokenRejected(f"the token cannot be read: {error}") from error
        return _as_object(payload)
    raise TokenRejected("the signature of the token is wrong")


def validate_unsecured(token: str, rules: TokenRules, required_scopes: Sequence[str], now_ms: int) -> BearerToken:
    """What a token without a signature says: whatever its sender wants. For development. Raises TokenRejected."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2] or _json_part(parts[0]).get("alg") != "none":
        raise TokenRejected("an unsecured token has the algorithm none and no signature")
    claims = _json_part(parts[1])
    token_ = _accepted(claims, rules, now_ms)
    missing = sorted(set(required_scopes) - token_.scopes)
    if missing:
        raise TokenRejected(
            f"the token lacks the scopes {missing}", status="insufficient_scope", scope=" ".join(required_scopes)
        )
    return token_


def make_unsecured(claims: Mapping[str, Any]) -> str:
    """A token without a signature. For development."""
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def expiry_of(token: str) -> int | None:
    """When a token expires, in wall-clock milliseconds, by its own words; None if it does not say so."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        expires = _json_part(parts[1]).get("exp")
    except TokenRejected:
        return None
    return int(expires * 1000) if _is_time(expires) else None


def library(setting: str) -> None:
    """Raises ConfigError if the library that verifies signatures is not installed."""
    try:
        import cryptography
        import jwt

        del cryptography, jwt
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{setting}: OAUTHBEARER needs PyJWT and cryptography, which are not installed: pip install "
            "'tidelog[oauth]'",
            setting=setting,
        ) from error


def _checked_claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> BearerToken:
    if not _is_time(claims.get("iat")):
        raise TokenRejected("the token has no claim iat")
    _check_audience(claims.get("aud"), rules.expected_audience)
    if rules.expected_issuer is not None and claims.get("iss") != rules.expected_issuer:
        raise TokenRejected(
            f"the token's issuer is {_short(claims.get('iss'))}, not {rules.expected_issuer!r} "
            "(sasl.oauthbearer.expected.issuer)"
        )
    return _accepted(claims, rules, now_ms)


def _check_audience(audience: Any, expected: Sequence[str]) -> None:
    named = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    if expected:
        if not any(each in expected for each in named):
            raise TokenRejected(
                f"the token's audience is {_short(audience)}, not one of {list(expected)} "
                "(sasl.oauthbearer.expected.audience)"
            )
    elif audience is not None:
        # Kafka's rule: a token for a certain audience must not be accepted by another that has not been named.
        raise TokenRejected(
            f"the token is for the audience {_short(audience)}, and sasl.oauthbearer.expected.audience is not set"
        )


def _accepted(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> BearerToken:
    """The claims that every token has."""
    expires, not_before, issued = claims.get("exp"), claims.get("nbf"), claims.get("iat")
    if not _is_time(expires):
        raise TokenRejected("the token has no claim exp")
    if now_ms - rules.clock_skew_ms >= expires * 1000:
        raise TokenRejected(f"the token expired {now_ms - int(expires * 1000)} ms ago")
    if not_before is not None and (not _is_time(not_before) or now_ms + rules.clock_skew_ms < not_before * 1000):
        raise TokenRejected("the token is not valid yet")
    if issued is not None and (not _is_time(issued) or issued > expires):
        raise TokenRejected("the token's claim iat is not a time before it expires")
    subject = claims.get(rules.sub_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenRejected(f"the token has no claim {rules.sub_claim} (sasl.oauthbearer.sub.claim.name)")
    return BearerToken(subject.strip(), _scopes(claims.get(rules.scope_claim), rules.scope_claim), int(expires * 1000))


def _scopes(scope: Any, claim: str) -> frozenset[str]:
    named = scope.split() if isinstance(scope, str) else [] if scope is None else scope
    if not isinstance(named, list) or not all(isinstance(each, str) and each.strip() for each in named):
        raise TokenRejected(f"the token's claim {claim} is not a list of scopes (sasl.oauthbearer.scope.claim.name)")
    return frozenset(each.strip() for each in named)


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def _header(token: str) -> Mapping[str, Any]:
    """What a token says before its signature is verified."""
    part = token.partition(".")[0]
    if len(part) > _HEADER_LENGTH_MAX:
        raise TokenRejected(f"the header of the token has {len(part)} characters, more than {_HEADER_LENGTH_MAX}")
    return _json_part(part)


def _json_part(part: str) -> Mapping[str, Any]:
    try:
        return _as_object(urlsafe_b64decode(part.encode() + b"=" * (-len(part) % 4)))
    except ValueError as error:
        raise TokenRejected("the token is not a JSON Web Token") from error


def _as_object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TokenRejected("the token is not a JSON Web Token") from error
    if not isinstance(found, dict):
        raise TokenRejected("the token is not a JSON Web Token")
    return found


def _encoded(part: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _short(value: Any) -> str:
    """A value of the token for a log line."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
