"""Why a TLS handshake failed, in words that name the setting to change."""

import ssl
from typing import Final

NO_TLS_HANDSHAKE: Final = (
    "the connection was closed during the TLS handshake; check security.protocol, as the port may not use TLS"
)
"""Such a listener takes the handshake for a request that is far too large, and closes the connection."""
_NO_TLS: Final = "the broker does not speak TLS on this port (security.protocol)"
_CERTIFICATE_REJECTED: Final = "the broker rejects this client's certificate (ssl.keystore.*)"
_REASONS: Final = {
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker requires a client certificate (ssl.keystore.*)",
    "TLSV1_ALERT_UNKNOWN_CA": f"{_CERTIFICATE_REJECTED}: unknown CA",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_CERTIFICATE_REJECTED}: it has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": _CERTIFICATE_REJECTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _CERTIFICATE_REJECTED,
    "TLSV1_ALERT_PROTOCOL_VERSION": "the broker takes none of ssl.enabled.protocols",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the broker takes none of the TLS versions and cipher suites of this client, or "
    "requires a client certificate (ssl.keystore.*)",
}


def tls_failure(error: ssl.SSLError) -> str:
    """Why a TLS handshake failed, and where it helps the setting to change."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted: {error.verify_message} (ssl.truststore.*)"
    reason = error.reason or str(error)
    return _REASONS.get(reason) or f"the TLS handshake failed: {reason.replace('_', ' ').lower()}"
