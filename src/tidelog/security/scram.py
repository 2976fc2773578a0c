"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), without channel binding, as Kafka has it.

A broker stores for each user a salt, an iteration count and two keys from which the password cannot be computed. Both
sides prove that they know the password, or its keys, and neither sends it. The server answers an unknown user with a
salt like any other, so that the exchange does not tell which users exist.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.security.errors import SaslMalformed, SaslRejected
from tidelog.security.mechanism import nothing_to_prepare

HASHES: Final[Mapping[str, str]] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The name of the hash by the name of the mechanism."""

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""What Kafka stores for users."""

_SALT_BYTES: Final = 24

_CLIENT_ITERATIONS_MAX: Final = 1_000_000
"""More would let a false broker keep a client busy for long."""

_CLIENT_MESSAGE_BYTES_MAX: Final = 8 << 10
"""Names, nonces and extensions take some hundreds. `sasl.server.max.receive.size` allows far more, for the tokens of
other mechanisms; to match half a megabyte takes milliseconds, and any client may send it."""

_SASL_NAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(
    rf"(n,(?:a=({_SASL_NAME}))?,)(n=({_SASL_NAME}),r=([\x21-\x2b\x2d-\x7e]+)((?:,[A-Za-z]+=[^,\x00]*)*))"
)
_SERVER_FIRST: Final = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?", re.DOTALL)
_CLIENT_FINAL: Final = re.compile(
    r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]*)*),p=([A-Za-z0-9+/=]+)"
)
_SERVER_FINAL: Final = re.compile(r"(?:v=([A-Za-z0-9+/=]+)|e=([^,]*))(?:,.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker stores for a user and a mechanism."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    def __str__(self) -> str:
        """As it stands in the tree."""
        parts = ("salt", self.salt), ("stored_key", self.stored_key), ("server_key", self.server_key)
        texts = [f"{name}={b64encode(value).decode()}" for name, value in parts]
        return ",".join([*texts, f"iterations={self.iterations}"])


def parse_credential(text: str) -> ScramCredential:
    """A credential from the tree. Raises ValueError, which shows nothing of the text."""
    found = dict(part.strip().partition("=")[::2] for part in text.split(","))
    try:
        return ScramCredential(
            _decoded(found["salt"]),
            _decoded(found["stored_key"]),
            _decoded(found["server_key"]),
            int(found["iterations"]),
        )
    except (KeyError, ValueError, SaslMalformed) as error:
        raise ValueError("not a SCRAM credential of the form salt=…,stored_key=…,server_key=…,iterations=…") from error


def new_salt() -> bytes:
    """For a user whose password is set. All have the same length, so that it does not tell users from others."""
    return secrets.token_bytes(_SALT_BYTES)


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes some milliseconds on purpose."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def make_credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What is stored for a user whose salted password this is."""
    stored_key = _hash(mechanism, _sign(mechanism, salted, b"Client Key"))
    return ScramCredential(salt, stored_key, _sign(mechanism, salted, b"Server Key"), iterations)


CredentialOf = Callable[[str], ScramCredential | None]
"""By the user's name."""
TokenOf = Callable[[str], tuple[str, ScramCredential, int] | None]
"""By the id of a delegation token: its owner, its credential and when it expires."""


class ScramServer:
    """One authentication. `nonce` must be random, and `secret` the same for all of a broker's exchanges."""

    __slots__ = (
        "_credential_of",
        "_mechanism",
        "_nonce",
        "_secret",
        "_state",
        "_token_of",
        "expires_ms",
        "has_token",
        "user",
    )
    prepare = nothing_to_prepare

    def __init__(
        self,
        mechanism: str,
        credential_of: CredentialOf,
        nonce: str,
        secret: bytes,
        token_of: TokenOf | None = None,
    ) -> None:
        """`token_of` finds delegation tokens; None where there are none."""
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._secret = secret
        self._state: _ServerState | None = None
        self._token_of = token_of
        self.has_token = False
        self.expires_ms: int | None = None
        self.user: str | None = None

    def respond(self, message: bytes) -> bytes:
        if len(message) > _CLIENT_MESSAGE_BYTES_MAX:
            raise SaslMalformed(
                f"Invalid {self._mechanism} message: it has {len(message)} bytes, more than {_CLIENT_MESSAGE_BYTES_MAX}"
            )
        text = _text(message)
        return self._begin(text) if self._state is None else self._finish(text, self._state)

    def _begin(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise SaslMalformed(f"Invalid {self._mechanism} client first message")
        header, authorized, bare, name, nonce, extensions = match.groups()
        user = _plain_name(name)
        if authorized is not None and _plain_name(authorized) != user:
            raise SaslRejected(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        shown_as = user
        if "tokenauth=true" in extensions.lower().split(","):
            user, credential = self._find_token(user)
        else:
            credential = self._credential_of(user)
        shown = credential or self._decoy(shown_as)
        first = f"r={nonce}{self._nonce},s={b64encode(shown.salt).decode()},i={shown.iterations}"
        self._state = _ServerState(user, credential, header, nonce + self._nonce, f"{bare},{first}")
        return first.encode()

    def _find_token(self, token_id: str) -> tuple[str, ScramCredential | None]:
        """The owner of a delegation token and its credential; for one that does not exist, nothing that proves it."""
        if self._token_of is None:
            raise SaslRejected(
                "Authentication failed: this broker has no delegation tokens, delegation.token.secret.key is not set"
            )
        self.has_token = True
        found = self._token_of(token_id)
        if found is None:
            return token_id, None
        owner, credential, self.expires_ms = found
        return owner, credential

    def _decoy(self, user: str) -> ScramCredential:
        """What a user would have who does not exist: the same at every attempt, so that it does not stand out."""
        salt = hmac.digest(self._secret, user.encode(), "sha256")[:_SALT_BYTES]
        return ScramCredential(salt, b"", b"", ITERATIONS_MIN)

    def _finish(self, text: str, state: _ServerState) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or self.user is not None:
            raise SaslMalformed(f"Invalid {self._mechanism} client final message")
        without_proof, binding, nonce, proof = match.groups()
        if _decoded(binding) != state.header.encode() or not hmac.compare_digest(nonce, state.nonce):
            raise SaslMalformed(f"Invalid {self._mechanism} client final message: another exchange's nonce or header")
        signed = f"{state.signed},{without_proof}".encode()
        if not self._is_proven(_decoded(proof), signed, state.credential):
            raise SaslRejected(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            )
        assert state.credential is not None, "nothing is proven without a credential"
        self.user = state.user
        return b"v=" + b64encode(_sign(self._mechanism, state.credential.server_key, signed))

    def _is_proven(self, proof: bytes, signed: bytes, credential: ScramCredential | None) -> bool:
        stored_key = b"" if credential is None else credential.stored_key
        signature = _sign(self._mechanism, stored_key, signed)
        if len(proof) != len(signature):
            return False
        found = _hash(self._mechanism, _xor(proof, signature))
        return hmac.compare_digest(found, stored_key) and credential is not None


@dataclass(frozen=True, slots=True)
class _ServerState:
    """Between the client's two messages."""

    user: str
    credential: ScramCredential | None
    header: str
    nonce: str
    signed: str


class ScramClient:
    """One authentication. `nonce` must be random."""

    __slots__ = ("_bare", "_expected", "_mechanism", "_nonce", "_password", "_salted_password", "is_complete")

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        nonce: str,
        salted_password: Callable[[str, str, bytes, int], bytes] = salted_password,
        *,
        is_token: bool = False,
    ) -> None:
        """`salted_password` may remember what it computed: it takes long. A token is named by `user`, its id."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._salted_password = salted_password
        self._bare = f"n={_sasl_name(user)},r={nonce}{',tokenauth=true' if is_token else ''}"
        self._expected: bytes | None = None
        self.is_complete = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def respond(self, message: bytes) -> bytes | None:
        text = _text(message)
        if self._expected is None:
            return self._prove(text)
        self._check(text, self._expected)
        return None

    def _prove(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise SaslMalformed(f"the broker's first {self._mechanism} message is malformed")
        nonce, salt, iterations = match[1], _decoded(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslMalformed("the broker's nonce does not continue this client's")
        if not ITERATIONS_MIN <= iterations <= _CLIENT_ITERATIONS_MAX:
            raise SaslMalformed(
                f"the broker asks for {iterations} iterations, which are not from {ITERATIONS_MIN} to "
                f"{_CLIENT_ITERATIONS_MAX}"
            )
        salted = self._salted_password(self._mechanism, self._password, salt, iterations)
        without_proof = f"c={b64encode(b'n,,').decode()},r={nonce}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        client_key = _sign(self._mechanism, salted, b"Client Key")
        proof = _xor(client_key, _sign(self._mechanism, _hash(self._mechanism, client_key), signed))
        self._expected = _sign(self._mechanism, _sign(self._mechanism, salted, b"Server Key"), signed)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _check(self, text: str, expected: bytes) -> None:
        match = _SERVER_FINAL.fullmatch(text)
        if match is None:
            raise SaslMalformed(f"the broker's final {self._mechanism} message is malformed")
        if match[2] is not None:
            raise SaslRejected(f"the broker rejected the credentials: {match[2]}")
        if not hmac.compare_digest(_decoded(match[1]), expected):
            raise SaslRejected("the broker does not know this user's password: it may not be the broker that it claims")
        self.is_complete = True


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise SaslMalformed("a SCRAM message is not UTF-8") from error


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise SaslMalformed("a SCRAM message has a value that is not base64") from error


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _hash(mechanism: str, data: bytes) -> bytes:
    return hashlib.new(HASHES[mechanism], data).digest()


def _sign(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
