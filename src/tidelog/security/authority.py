"""A certificate authority of one's own: for `tidelog security init`, and for tests that need certificates.

Keys are on P-256: a signature of the broker takes a tenth of a millisecond, and every TLS client of today takes them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW: Final = timedelta(minutes=5)
"""Certificates are valid from a little earlier on: clocks differ."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and the certificate chain of it, in PEM."""

    key_pem: str = field(repr=False)
    certificate_pem: str

    @property
    def pem(self) -> str:
        """Both, as a PEM key store holds them."""
        return self.key_pem + self.certificate_pem


class Authority:
    """Signs certificates. The key exists in memory until `identity` is written somewhere."""

    def __init__(self, name: str, now: datetime, valid_days: int) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), now, valid_days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(is_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate_pem(self) -> str:
        """What others have to trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def identity(self) -> Identity:
        """The authority's own key and certificate."""
        return Identity(_key_pem(self._key), self.certificate_pem)

    def issue(self, name: str, now: datetime, valid_days: int, hosts: Sequence[str] = ()) -> Identity:
        """A key and its certificate. `hosts` are names and addresses under which a broker is reached."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(_name(name), self._name, key.public_key(), now, valid_days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Identity(_key_pem(key), certificate.public_bytes(serialization.Encoding.PEM).decode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, valid_days: int
) -> x509.CertificateBuilder:
    end = now + timedelta(days=valid_days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _SKEW)
        .not_valid_after(end)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
