"""Passwords in the metadata tree, encrypted in Kafka's format (KIP-226):

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:…,iterations:4096,
    encryptedPassword:…,passwordLength:12,initializationVector:…

The key is derived from `password.encoder.secret`. Everything else stands in the text, so that passwords which were
encrypted with other settings can be read.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidelog.config.errors import ConfigError

_HASHES: Final = {f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in (1, 224, 256, 384, 512)}
CBC: Final = "AES/CBC/PKCS5Padding"
GCM: Final = "AES/GCM/NoPadding"
_CIPHERS: Final = (CBC, GCM)
_KEY_BITS: Final = (128, 192, 256)
_SALT_BYTES: Final = 256
_VECTOR_BYTES: Final = {CBC: 16, GCM: 12}
_TAG_BITS: Final = 128
_ITERATIONS_MAX: Final = 10_000_000
_BLOCK: Final = 16


class PasswordNotDecodedError(Exception):
    """A text that is not a password in this format, or one of another secret. The message shows nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordEncoder:
    """Encrypts and decrypts with one secret."""

    secret: str = field(repr=False)
    key_factory_algorithm: str = "PBKDF2WithHmacSHA512"
    cipher_algorithm: str = CBC
    key_length: int = 128
    iterations: int = 4096

    def check(self) -> None:
        """Raise ConfigError for settings that cannot be honoured."""
        for name, value, known in (
            ("keyfactory.algorithm", self.key_factory_algorithm, tuple(_HASHES)),
            ("cipher.algorithm", self.cipher_algorithm, _CIPHERS),
            ("key.length", self.key_length, _KEY_BITS),
        ):
            if value not in known:
                setting = f"password.encoder.{name}"
                raise ConfigError(
                    f"{setting}={value} is not supported; use one of {', '.join(map(str, known))}", setting=setting
                )
        _ciphers()

    def encode(self, password: str) -> str:
        """The text for the tree; another one at each call."""
        salt, vector = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_VECTOR_BYTES[self.cipher_algorithm])
        key = self._key(self.key_factory_algorithm, salt, self.iterations, self.key_length)
        parts = {
            "keyFactoryAlgorithm": self.key_factory_algorithm,
            "cipherAlgorithm": self.cipher_algorithm,
            "keyLength": str(self.key_length),
            "salt": b64encode(salt).decode(),
            "iterations": str(self.iterations),
            "encryptedPassword": b64encode(_encrypt(self.cipher_algorithm, key, vector, password.encode())).decode(),
            "passwordLength": str(_java_length(password)),
            "initializationVector": b64encode(vector).decode(),
        }
        if self.cipher_algorithm == GCM:
            parts["authenticationTagLength"] = str(_TAG_BITS)
        return ",".join(f"{name}:{value}" for name, value in parts.items())

    def decode(self, text: str) -> str:
        """Raises PasswordNotDecodedError."""
        try:
            parts = dict(part.split(":", 1) for part in text.split(","))
            cipher, iterations = parts["cipherAlgorithm"], int(parts["iterations"])
            if cipher not in _CIPHERS or not 0 < iterations <= _ITERATIONS_MAX:
                raise ValueError
            factory = parts.get("keyFactoryAlgorithm", self.key_factory_algorithm)
            key = self._key(factory, b64decode(parts["salt"]), iterations, int(parts["keyLength"]))
            vector, data = b64decode(parts["initializationVector"]), b64decode(parts["encryptedPassword"])
            password = _decrypt(cipher, key, vector, data).decode()
            if _java_length(password) != int(parts["passwordLength"]):
                raise ValueError
        except (ValueError, KeyError, _ciphers().invalid_tag):
            raise PasswordNotDecodedError("Password could not be decoded") from None
        return password

    def _key(self, algorithm: str, salt: bytes, iterations: int, bits: int) -> bytes:
        if bits not in _KEY_BITS:
            raise ValueError(bits)
        return hashlib.pbkdf2_hmac(_HASHES[algorithm], self.secret.encode(), salt, iterations, bits // 8)


def encoder_of(settings: Any, secret: str) -> PasswordEncoder:
    """By `password.encoder.*` of `settings`. Raises ConfigError."""
    encoder = PasswordEncoder(
        secret=secret,
        key_factory_algorithm=settings.password_encoder_keyfactory_algorithm or "PBKDF2WithHmacSHA512",
        cipher_algorithm=settings.password_encoder_cipher_algorithm,
        key_length=settings.password_encoder_key_length,
        iterations=settings.password_encoder_iterations,
    )
    encoder.check()
    return encoder


def _encrypt(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    library = _ciphers()
    if cipher == GCM:
        sealed: bytes = library.gcm(key).encrypt(vector, data, None)
        return sealed
    padding = _BLOCK - len(data) % _BLOCK
    encryptor = library.cipher(library.aes(key), library.cbc(vector)).encryptor()
    encrypted: bytes = encryptor.update(data + bytes([padding]) * padding) + encryptor.finalize()
    return encrypted


def _decrypt(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    library = _ciphers()
    if cipher == GCM:
        opened: bytes = library.gcm(key).decrypt(vector, data, None)
        return opened
    decryptor = library.cipher(library.aes(key), library.cbc(vector)).decryptor()
    padded: bytes = decryptor.update(data) + decryptor.finalize()
    count = padded[-1] if padded else 0
    if not 1 <= count <= _BLOCK or padded[-count:] != bytes([count]) * count:
        raise ValueError("padding")
    return padded[:-count]


def _java_length(text: str) -> int:
    """In UTF-16, as Java counts."""
    return len(text.encode("utf-16-le")) // 2


class _Library(NamedTuple):
    cipher: Any
    aes: Any
    cbc: Any
    gcm: Any
    invalid_tag: type[Exception]


def _ciphers() -> _Library:
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        raise ConfigError(
            "password.encoder.secret: encrypted passwords need cryptography, which is not installed: pip install "
            "'tidelog[security]'",
            setting="password.encoder.secret",
        ) from error
    return _Library(Cipher, algorithms.AES, modes.CBC, AESGCM, InvalidTag)
