"""Key stores and trust stores in the formats that Java has, as PEM: PEM itself, PKCS12, and JKS that is PKCS12.

keytool has written PKCS12 under the name JKS since Java 9, and Java reads it as such. The older format of the same name
is not read; the error says how to convert it.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.config.errors import ConfigError

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = 0x30


def key_store_pem(data: bytes, store_type: str, password: str | None, setting: str) -> bytes:
    """Private key and certificate chain as PEM. A PEM store is returned as it is, its key may be encrypted."""
    if store_type.upper() == "PEM":
        return data
    _check_is_pkcs12(data, store_type, setting)
    return _pkcs12_key_pem(data, password, setting)


def trust_store_pem(data: bytes, store_type: str, password: str | None, setting: str) -> bytes:
    """Trusted certificates as PEM."""
    if store_type.upper() == "PEM":
        return data
    _check_is_pkcs12(data, store_type, setting)
    return _pkcs12_certificates_pem(data, password, setting)


def _check_is_pkcs12(data: bytes, store_type: str, setting: str) -> None:
    type_setting = setting.replace(".location", ".type")
    if store_type.upper() not in ("PKCS12", "JKS"):
        raise ConfigError(f"{type_setting}={store_type} is none of PEM, PKCS12 and JKS", setting=type_setting)
    if data.startswith(_JKS_MAGIC):
        raise ConfigError(
            f"{setting}: the file has the old format JKS, which only Java reads; convert it with keytool "
            "-importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12 and set "
            f"{type_setting}=PKCS12",
            setting=setting,
        )
    if data.lstrip().startswith(b"-----BEGIN"):
        raise ConfigError(f"{setting}: the file is PEM; set {type_setting}=PEM", setting=setting)
    if not data or data[0] != _DER_SEQUENCE:
        raise ConfigError(f"{setting}: the file is not a PKCS12 store", setting=setting)


def _pkcs12_key_pem(data: bytes, password: str | None, setting: str) -> bytes:
    pkcs12, serialization = _cryptography(setting)
    store = _load(pkcs12, data, password, setting)
    if store.key is None or store.cert is None:
        raise ConfigError(f"{setting}: the store holds no private key with a certificate", setting=setting)
    pem: bytes = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for each in (store.cert, *store.additional_certs):
        pem += each.certificate.public_bytes(serialization.Encoding.PEM)
    return pem


def _pkcs12_certificates_pem(data: bytes, password: str | None, setting: str) -> bytes:
    pkcs12, serialization = _cryptography(setting)
    store = _load(pkcs12, data, password, setting)
    found = [*store.additional_certs, *((store.cert,) if store.cert is not None else ())]
    if not found:
        raise ConfigError(f"{setting}: the store holds no certificate", setting=setting)
    return b"".join(each.certificate.public_bytes(serialization.Encoding.PEM) for each in found)


def _load(pkcs12: Any, data: bytes, password: str | None, setting: str) -> Any:
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except ValueError as error:
        password_setting = setting.replace(".location", ".password")
        raise ConfigError(
            f"{setting}: the PKCS12 store cannot be read; check {password_setting}", setting=password_setting
        ) from error


def _cryptography(setting: str) -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{setting}: PKCS12 needs cryptography, which is not installed: pip install 'tidelog[security]', or use "
            "a PEM file",
            setting=setting,
        ) from error
    return pkcs12, serialization
