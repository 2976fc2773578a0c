"""TLS contexts from Kafka's `ssl.*` settings.

`server_context` is for listeners, `client_context` for connections to brokers. Both refuse what OpenSSL cannot honour
instead of ignoring it: the suites of TLS 1.3 cannot be chosen one by one, and a listener without a certificate could
serve no client. A context never changes; other settings, or other bytes in the same files, make another one.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.config.errors import ConfigError
from tidelog.security._stores import key_store_pem, trust_store_pem
from tidelog.security.files import as_path, read_file
from tidelog.security.tls_versions import VERSIONS, usable_versions

_PEM_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_PEM_END: Final = "-----END CERTIFICATE-----"
_CLIENT_AUTHENTICATION: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_TLS_1_3: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""The suites of TLS 1.3. Python cannot choose among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """The `ssl.*` settings of one listener or of one client, and the bytes of the files that they name."""

    key_store: bytes | None = field(default=None, repr=False)
    """Private key and certificate chain, in PEM."""
    key_password: str | None = field(default=None, repr=False)
    trust_store: bytes | None = field(default=None, repr=False)
    """Trusted certificates, in PEM."""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_authentication: str = "none"
    checks_host_name: bool = True

    def certificate(self) -> bytes | None:
        """The first certificate of the key store, in DER; None without one."""
        text = (self.key_store or b"").decode("ascii", "replace")
        start, end = text.find(_PEM_BEGIN), text.find(_PEM_END)
        return ssl.PEM_cert_to_DER_cert(text[start : end + len(_PEM_END)]) if 0 <= start < end else None

    def fingerprint(self) -> bytes:
        """Equal for options that make equal contexts: to notice that a context is stale."""
        digest = hashlib.sha256()
        for part in (self.key_store, self.key_password, self.trust_store):
            data = part.encode() if isinstance(part, str) else part
            digest.update(b"-" if data is None else b"+%d:" % len(data) + data)
        digest.update(repr((self.versions, self.cipher_suites, self.client_authentication)).encode())
        return digest.digest()


def read_tls_options(settings: Any) -> TlsOptions:
    """The options that the `ssl_…` fields of `settings` describe; reads the files they name. Raises ConfigError."""
    return TlsOptions(
        key_store=_key_store(settings),
        key_password=settings.ssl_key_password or _pem_password(settings),
        trust_store=_trust_store(settings),
        versions=_versions(settings),
        cipher_suites=tuple(settings.ssl_cipher_suites or ()),
        client_authentication=getattr(settings, "ssl_client_auth", "none"),
        checks_host_name=_checks_host_name(settings),
    )


def server_context(options: TlsOptions) -> ssl.SSLContext:
    """What a listener negotiates with. Raises ConfigError."""
    if options.key_store is None:
        raise ConfigError(
            "a listener with TLS needs a certificate: set ssl.keystore.location, or ssl.keystore.key and "
            "ssl.keystore.certificate.chain, with ssl.keystore.type=PEM",
            setting="ssl.keystore.location",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _negotiate(context, options)
    # A peer that renegotiates makes the broker compute; TLS 1.3 has no renegotiation.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_key_store(context, options)
    context.verify_mode = _CLIENT_AUTHENTICATION[options.client_authentication]
    if context.verify_mode is not ssl.CERT_NONE:
        if options.trust_store is None:
            raise ConfigError(
                f"ssl.client.auth={options.client_authentication} needs the certificates that sign those of clients: "
                "set ssl.truststore.location or ssl.truststore.certificates",
                setting="ssl.client.auth",
            )
        # A resumed session would keep the name of a certificate that has expired since. Python cannot switch off
        # sessions of TLS 1.2 that are resumed by their id: `network.handshakes` looks at the certificate again.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    if options.trust_store is not None:
        _load_trust_store(context, options.trust_store)
    return context


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """What a connection to a broker negotiates with; without a trust store the system's certificates are trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.checks_host_name
    context.verify_mode = ssl.CERT_REQUIRED
    _negotiate(context, options)
    if options.key_store is not None:
        _load_key_store(context, options)
    if options.trust_store is not None:
        _load_trust_store(context, options.trust_store)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _key_store(settings: Any) -> bytes | None:
    store_type: str = settings.ssl_keystore_type
    key, chain, location = (
        settings.ssl_keystore_key,
        settings.ssl_keystore_certificate_chain,
        settings.ssl_keystore_location,
    )
    if key is not None or chain is not None:
        _check_is_inline_pem("ssl.keystore", store_type, location)
        if key is None or chain is None:
            raise ConfigError(
                "ssl.keystore.key and ssl.keystore.certificate.chain must be set together", setting="ssl.keystore.key"
            )
        return b"\n".join((_unfolded(key).encode(), _unfolded(chain).encode(), b""))
    if location is None:
        return None
    setting = "ssl.keystore.location"
    data = read_file(location, setting, is_secret=True)
    return key_store_pem(data, store_type, settings.ssl_keystore_password, setting)


def _pem_password(settings: Any) -> str | None:
    """Kafka forbids a store password for PEM; in PKCS12 the key has the password of its store and is plain by now."""
    if settings.ssl_keystore_type.upper() == "PEM" and settings.ssl_keystore_password is not None:
        raise ConfigError(
            "ssl.keystore.password: a PEM file has no password of its own; set ssl.key.password",
            setting="ssl.keystore.password",
        )
    return None


def _trust_store(settings: Any) -> bytes | None:
    location, certificates = settings.ssl_truststore_location, settings.ssl_truststore_certificates
    if certificates is not None:
        _check_is_inline_pem("ssl.truststore", settings.ssl_truststore_type, location)
        return _unfolded(certificates).encode()
    if location is None:
        return None
    setting = "ssl.truststore.location"
    data = read_file(location, setting, is_secret=False)
    return trust_store_pem(data, settings.ssl_truststore_type, settings.ssl_truststore_password, setting)


def _check_is_inline_pem(store: str, store_type: str, location: str | None) -> None:
    if store_type.upper() != "PEM":
        raise ConfigError(f"{store}.type={store_type}: inline keys and certificates are PEM", setting=f"{store}.type")
    if location is not None:
        raise ConfigError(f"{store}.location: set either a file or inline PEM", setting=f"{store}.location")


def _unfolded(pem: str) -> str:
    """A PEM text that a properties file had to put on one line has spaces where it had line ends."""
    if "\n" in pem:
        return pem
    lines: list[str] = []
    for part in pem.split("-----"):
        word = part.strip()
        is_label = word.startswith(("BEGIN ", "END "))
        lines.extend((f"-----{word}-----",) if is_label else word.split())
    return "\n".join(lines)


def _versions(settings: Any) -> tuple[str, ...]:
    enabled = usable_versions(settings.ssl_enabled_protocols or (settings.ssl_protocol,), "ssl.enabled.protocols")
    if settings.ssl_protocol not in (*VERSIONS, "TLS"):
        raise ConfigError(
            f"ssl.protocol={settings.ssl_protocol} is none of {', '.join(VERSIONS)}", setting="ssl.protocol"
        )
    # With ssl.protocol=TLSv1.2 Java makes a context that cannot negotiate TLS 1.3, whatever is enabled.
    usable = tuple(name for name in enabled if name == "TLSv1.2" or settings.ssl_protocol != "TLSv1.2")
    if not usable:
        raise ConfigError(
            f"ssl.protocol={settings.ssl_protocol} leaves none of ssl.enabled.protocols={','.join(enabled)}",
            setting="ssl.protocol",
        )
    return usable


def _checks_host_name(settings: Any) -> bool:
    algorithm = (settings.ssl_endpoint_identification_algorithm or "").strip().lower()
    if algorithm not in ("", "https"):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm} is neither https nor empty",
            setting="ssl.endpoint.identification.algorithm",
        )
    return bool(algorithm)


def _negotiate(context: ssl.SSLContext, options: TlsOptions) -> None:
    versions = [each for each in options.versions if not options.cipher_suites or _has_suite(each, options)]
    if not versions:
        raise ConfigError("ssl.cipher.suites names no suite of ssl.enabled.protocols", setting="ssl.cipher.suites")
    context.minimum_version = min(VERSIONS[each] for each in versions)
    context.maximum_version = max(VERSIONS[each] for each in versions)
    if options.cipher_suites:
        _choose_ciphers(context, options.cipher_suites, with_tls_1_3="TLSv1.3" in versions)


def _has_suite(version: str, options: TlsOptions) -> bool:
    return any((each in _TLS_1_3) == (version == "TLSv1.3") for each in options.cipher_suites)


def _choose_ciphers(context: ssl.SSLContext, suites: Sequence[str], *, with_tls_1_3: bool) -> None:
    setting = "ssl.cipher.suites"
    if with_tls_1_3 and (missing := _TLS_1_3.difference(suites)):
        raise ConfigError(
            f"{setting}: the suites of TLS 1.3 cannot be chosen one by one; add {', '.join(sorted(missing))}, or name "
            "none of them",
            setting=setting,
        )
    chosen = [each for each in suites if each not in _TLS_1_3]
    names = [_openssl_name(each) for each in chosen]
    if not names:
        return
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError as error:
        raise ConfigError(f"{setting}: OpenSSL knows none of {', '.join(suites)}", setting=setting) from error
    known = {each["name"] for each in context.get_ciphers()}
    for name, suite in zip(names, chosen, strict=True):
        if name not in known:
            raise ConfigError(f"{setting}: OpenSSL does not know {suite}", setting=setting)


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite that is named as in Java and the RFCs; other names are OpenSSL's already.

    `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` is `ECDHE-RSA-AES256-GCM-SHA384`.
    """
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_CBC_", "_")
    for bits in ("128", "256"):
        cipher = cipher.replace(f"AES_{bits}", f"AES{bits}")
    parts = [*([] if exchange == "RSA" else exchange.split("_")), *cipher.split("_")]
    return "-".join(parts)


def _load_key_store(context: ssl.SSLContext, options: TlsOptions) -> None:
    assert options.key_store is not None, "the caller has looked"
    password = options.key_password

    def answer() -> str:
        # Without a password this is called for an encrypted key only, and must not ask on a terminal.
        return password or ""

    try:
        with as_path(options.key_store) as path:
            context.load_cert_chain(path, password=answer)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"ssl.keystore: the private key and its certificate cannot be loaded ({_reason(error)}); the store must "
            "hold an unencrypted key or one that ssl.key.password decrypts, and the certificate chain of that key, "
            "the broker's or client's own certificate first",
            setting="ssl.keystore.location",
        ) from error


def _load_trust_store(context: ssl.SSLContext, pem: bytes) -> None:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"ssl.truststore: the trusted certificates cannot be loaded ({_reason(error)})",
            setting="ssl.truststore.location",
        ) from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()
