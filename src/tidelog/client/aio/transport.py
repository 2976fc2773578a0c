"""The transport: opens sockets. TLS and SASL plug in here (`secure_transport`).

A `Connector` opens a connection and hands it to a protocol. `NetworkClient` is given one; a protocol that needs a
handshake of its own on top (SASL) does it in `authenticate`, after the versions are known and before anything else.
"""

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from tidelog.client.aio.connection import BrokerConnection


class Connector(Protocol):
    """Opens connections of one security protocol."""

    async def connect(self, connection: "BrokerConnection", host: str, port: int) -> None:
        """Open a transport to `host:port` for `connection`, whose `connection_made` has run when this returns."""
        ...

    async def authenticate(self, connection: "BrokerConnection") -> None:
        """Authenticate, if the protocol needs it."""
        ...


class PlainConnector:
    """PLAINTEXT: TCP without authentication."""

    def __init__(self, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes

    async def connect(self, connection: "BrokerConnection", host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: connection, host, port)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._tune(sock)

    async def authenticate(self, connection: "BrokerConnection") -> None:
        """Nothing to do."""

    def _tune(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in (
            (socket.SO_SNDBUF, self._send_buffer_bytes),
            (socket.SO_RCVBUF, self._receive_buffer_bytes),
        ):
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)


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
