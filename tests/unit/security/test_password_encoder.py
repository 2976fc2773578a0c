"""Encrypted passwords in Kafka's format. `tests/compat/security` reads Kafka's own."""

import pytest

from tidelog.config import ConfigError
from tidelog.security.password_encoder import CBC, GCM, PasswordEncoder, PasswordNotDecodedError


@pytest.mark.parametrize("cipher", [CBC, GCM])
@pytest.mark.parametrize("password", ["", "x", "pässwörd 😀", "z" * 33])
def test_a_password_comes_back(cipher: str, password: str) -> None:
    encoder = PasswordEncoder(secret="s", cipher_algorithm=cipher, iterations=1024)
    text = encoder.encode(password)
    assert text != encoder.encode(password), "salt and vector are random"
    assert f"cipherAlgorithm:{cipher}," in text
    # Everything but the secret stands in the text.
    assert PasswordEncoder(secret="s", key_length=256, cipher_algorithm=GCM).decode(text) == password
    with pytest.raises(PasswordNotDecodedError, match="Password could not be decoded"):
        PasswordEncoder(secret="other").decode(text)
    assert "secret" not in repr(encoder)


def test_what_is_no_encoded_password_is_refused() -> None:
    encoder = PasswordEncoder(secret="s", iterations=1024)
    text = encoder.encode("password")
    for bad in (
        "",
        "password",
        "a:b,c:d",
        text.replace("iterations:1024", "iterations:x"),
        text.replace("iterations:1024", "iterations:2000000000"),
        text.replace("keyLength:128", "keyLength:7"),
        text.replace("passwordLength:8", "passwordLength:9"),
        text.replace("SHA512", "MD5"),
        text.replace("CBC", "ECB"),
        text.replace("salt:", "salt:AAAA"),
    ):
        with pytest.raises(PasswordNotDecodedError):
            encoder.decode(bad)


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"cipher_algorithm": "DES/CBC/PKCS5Padding"}, "cipher.algorithm"),
        ({"key_factory_algorithm": "PBEWithMD5AndDES"}, "keyfactory.algorithm"),
        ({"key_length": 64}, "key.length"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(change: dict[str, object], setting: str) -> None:
    encoder = PasswordEncoder(secret="s", **change)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"password.encoder.{setting}"):
        encoder.check()
