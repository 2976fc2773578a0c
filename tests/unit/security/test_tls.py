"""Contexts from `ssl.*` settings, shaking hands in memory."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from tidelog.config import BrokerConfig, ConfigError
from tidelog.security.authority import Authority, Identity
from tidelog.security.tls import client_context, read_tls_options, server_context

NOW = datetime.now(UTC)
AUTHORITY = Authority("authority", NOW, 2)
BROKER = AUTHORITY.issue("broker", NOW, 2, ["localhost"])
ALICE = AUTHORITY.issue("alice", NOW, 2)


def settings(identity: Identity | None = BROKER, **more: Any) -> BrokerConfig:
    """Inline PEM, as `ssl.keystore.key` takes it."""
    keys = {} if identity is None else inline(identity)
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_certificates": AUTHORITY.certificate_pem}
    return BrokerConfig(**{**keys, **trust, **more})


def inline(identity: Identity) -> dict[str, str]:
    return {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": identity.key_pem,
        "ssl_keystore_certificate_chain": identity.certificate_pem,
    }


def shake(server: BrokerConfig, client: BrokerConfig, host: str = "localhost") -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after the handshake; raises what one of them raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server_context(read_tls_options(server)).wrap_bio(to_server, to_client, server_side=True),
        client_context(read_tls_options(client)).wrap_bio(to_client, to_server, server_hostname=host),
    )
    left = list(ends)
    for _ in range(10):
        for end in list(left):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(end)
        if not left:
            return ends
    raise AssertionError("the handshake does not end")


def test_a_client_that_trusts_the_authority_is_connected_with_tls_1_3() -> None:
    server, client = shake(settings(), settings(None))
    assert server.version() == client.version() == "TLSv1.3"
    assert server.getpeercert(binary_form=True) is None


def test_a_client_certificate_is_asked_for_and_checked() -> None:
    server, _ = shake(settings(ssl_client_auth="required"), settings(ALICE))
    certificate = server.getpeercert()
    assert certificate is not None
    assert certificate["subject"] == ((("commonName", "alice"),),)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(settings(ssl_client_auth="required"), settings(None))


def test_a_certificate_of_another_authority_is_rejected_on_either_side() -> None:
    other = Authority("other", NOW, 2)
    trusting_other = settings(None, ssl_truststore_certificates=other.certificate_pem)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(settings(), trusting_other)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(settings(ssl_client_auth="requested"), settings(other.issue("mallory", NOW, 2)))


def test_an_expired_certificate_is_rejected() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake(settings(AUTHORITY.issue("broker", NOW, -1, ["localhost"])), settings(None))


def test_the_host_name_is_checked_unless_that_is_disabled() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(settings(), settings(None), "elsewhere")
    shake(settings(), settings(None, ssl_endpoint_identification_algorithm=""), "elsewhere")


@pytest.mark.parametrize(
    ("server", "client", "version"),
    [
        ({"ssl_enabled_protocols": ("TLSv1.2",)}, {}, "TLSv1.2"),
        ({"ssl_protocol": "TLSv1.2"}, {}, "TLSv1.2"),
        ({}, {"ssl_enabled_protocols": ("TLSv1.3",)}, "TLSv1.3"),
    ],
)
def test_versions_are_those_of_the_settings(server: dict[str, Any], client: dict[str, Any], version: str) -> None:
    assert shake(settings(**server), settings(None, **client))[0].version() == version


def test_versions_that_are_not_supported_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A list that was written for Kafka may allow older versions, too."""
    server = settings(ssl_enabled_protocols=("TLSv1.2", "TLSv1.1", "TLSv1"))
    assert shake(server, settings(None))[0].version() == "TLSv1.2"
    text = "ssl.enabled.protocols: TLSv1.1, TLSv1 are not supported and left out; used are TLSv1.2"
    assert text in [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_cipher_suite_goes_by_the_name_that_java_has_for_it() -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)
    server, _ = shake(settings(ssl_cipher_suites=suites), settings(None))
    assert server.version() == "TLSv1.2", "no suite of TLS 1.3 is allowed"
    assert server.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ssl_cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "cannot be chosen one by one"),
        ({"ssl_cipher_suites": ("TLS_NO_WITH_SUCH_SUITE",)}, "OpenSSL knows none"),
        ({"ssl_cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_X_WITH_Y")}, "does not know TLS_X"),
        ({"ssl_enabled_protocols": ("TLSv1.1",)}, "TLSv1.1 is none of"),
        ({"ssl_enabled_protocols": ("SSLv3", "TLSv1")}, "ssl.enabled.protocols=SSLv3,TLSv1: SSLv3, TLSv1 are none of"),
        ({"ssl_protocol": "TLSv1.2", "ssl_enabled_protocols": ("TLSv1.3",)}, "leaves none"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "neither https nor empty"),
        ({"ssl_keystore_certificate_chain": None}, "set together"),
        ({"ssl_keystore_location": "/x"}, "either a file or inline"),
        ({"ssl_keystore_type": "PKCS12"}, "inline keys and certificates are PEM"),
        ({"ssl_keystore_key": ALICE.key_pem}, "cannot be loaded"),
        ({"ssl_truststore_certificates": "no certificate"}, "cannot be loaded"),
        ({"ssl_client_auth": "required", "ssl_truststore_certificates": None}, "ssl.client.auth=required needs"),
        ({"ssl_keystore_key": None, "ssl_keystore_certificate_chain": None}, "needs a certificate"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_the_name_of_its_setting(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as refused:
        server_context(read_tls_options(settings(**changes)))
    assert refused.value.setting is not None
    assert BROKER.key_pem not in str(refused.value)


def test_inline_pem_on_one_line_is_read() -> None:
    """In a properties file the line ends of a PEM text may have become spaces."""
    folded = {name: text.replace("\n", " ") for name, text in inline(BROKER).items()}
    shake(settings(None, **folded), settings(None))


def test_key_and_trust_stores_are_read_from_pem_and_pkcs12_files(tmp_path: Path) -> None:
    pem, p12, trusted = tmp_path / "broker.pem", tmp_path / "broker.p12", tmp_path / "trusted.p12"
    pem.touch(mode=0o600)
    pem.write_text(BROKER.pem)
    key = serialization.load_pem_private_key(BROKER.key_pem.encode(), None)
    authority = load_pem_x509_certificate(AUTHORITY.certificate_pem.encode())
    encryption = serialization.BestAvailableEncryption(b"secret")
    p12.touch(mode=0o600)
    p12.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"broker",
            key,  # type: ignore[arg-type]
            load_pem_x509_certificate(BROKER.certificate_pem.encode()),
            None,
            encryption,
        )
    )
    trusted.write_bytes(pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], encryption))
    client = settings(
        None,
        ssl_truststore_type="JKS",
        ssl_truststore_certificates=None,
        ssl_truststore_location=str(trusted),
        ssl_truststore_password="secret",
    )
    shake(settings(None, ssl_keystore_type="PEM", ssl_keystore_location=str(pem)), client)
    in_p12 = {"ssl_keystore_type": "PKCS12", "ssl_keystore_location": str(p12)}
    shake(settings(None, **in_p12, ssl_keystore_password="secret"), client)
    with pytest.raises(ConfigError, match=r"check ssl\.keystore\.password"):
        read_tls_options(settings(None, **in_p12, ssl_keystore_password="wrong"))
    with pytest.raises(ConfigError, match=r"the file is PEM; set ssl\.keystore\.type=PEM"):
        read_tls_options(settings(None, ssl_keystore_location=str(pem)))


def test_the_old_format_of_java_is_named_with_the_way_to_convert_it(tmp_path: Path) -> None:
    store = tmp_path / "old.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    with pytest.raises(ConfigError, match="keytool -importkeystore"):
        read_tls_options(settings(None, ssl_keystore_location=str(store)))


def test_an_encrypted_key_needs_its_password() -> None:
    key = serialization.load_pem_private_key(BROKER.key_pem.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    shake(settings(ssl_keystore_key=encrypted, ssl_key_password="secret"), settings(None))
    for wrong in ("other", None):
        with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
            server_context(read_tls_options(settings(ssl_keystore_key=encrypted, ssl_key_password=wrong)))


def test_a_key_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pem = tmp_path / "broker.pem"
    pem.write_text(BROKER.pem)
    pem.chmod(0o640)
    read_tls_options(settings(None, ssl_keystore_type="PEM", ssl_keystore_location=str(pem)))
    assert "chmod 600" in caplog.text
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_tls_options(settings(None, ssl_keystore_type="PEM", ssl_keystore_location=str(tmp_path / "none")))


def test_options_show_no_secret_and_differ_with_every_setting() -> None:
    options = read_tls_options(settings(ssl_key_password="hunter2"))
    assert "hunter2" not in repr(options)
    assert "PRIVATE" not in repr(options)
    others = [settings(ALICE), settings(ssl_client_auth="required"), settings(ssl_protocol="TLSv1.2")]
    fingerprints = {read_tls_options(each).fingerprint() for each in (settings(), settings(), *others)}
    assert len(fingerprints) == 4
