"""Subjects as Java prints them. The expected texts were printed by X500Principal.getName() of Java 17."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import NameAttribute as Attribute
from cryptography.x509.oid import NameOID

from tidelog.security.distinguished_name import subject_of


def certificate(subject: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([Attribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(key.public_key())
        .serial_number(5)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


SUBJECTS = [
    (
        [
            Attribute(NameOID.COUNTRY_NAME, "DE"),
            Attribute(NameOID.STATE_OR_PROVINCE_NAME, "Bay"),
            Attribute(NameOID.LOCALITY_NAME, "M, x"),
            Attribute(NameOID.ORGANIZATION_NAME, 'O="a"+b;<c>#d\\e=f'),
            Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, " lead trail "),
            Attribute(NameOID.COMMON_NAME, "#Ünï"),
        ],
        r"CN=\#Ünï,OU=\ lead trail\ ,O=O\=\"a\"\+b\;\<c\>\#d\\e\=f,L=M\, x,ST=Bay,C=DE",
    ),
    (
        [
            Attribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
            Attribute(NameOID.USER_ID, "u1"),
            Attribute(NameOID.DOMAIN_COMPONENT, "ex"),
            Attribute(NameOID.STREET_ADDRESS, "st 1"),
            Attribute(NameOID.SURNAME, "sn"),
            Attribute(NameOID.SERIAL_NUMBER, "77"),
        ],
        "2.5.4.5=#13023737,2.5.4.4=#0c02736e,STREET=st 1,DC=ex,UID=u1,1.2.840.113549.1.9.1=#16056140622e63",
    ),
    ([], ""),
]


@pytest.mark.parametrize(("attributes", "text"), SUBJECTS)
def test_a_subject_reads_as_in_java(attributes: list[Attribute[str]], text: str) -> None:
    assert subject_of(certificate(x509.Name(attributes))) == text


def test_parts_of_one_relative_name_are_joined() -> None:
    both = [Attribute(NameOID.COMMON_NAME, "x"), Attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "y")]
    assert subject_of(certificate(x509.Name([x509.RelativeDistinguishedName(both)]))) == "CN=x+OU=y"


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x85\x01\x01\x01\x01\x01", b"\x30\x03\x30\x01\x00"])
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="the certificate"):
        subject_of(data)
