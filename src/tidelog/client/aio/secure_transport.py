"""Connections with TLS.

The context is asked for with every connection, because certificates may be replaced while a client runs.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.client.aio.transport import PlainConnector, tls_failure
from tidelog.client.errors import AuthenticationFailed, ClientConfigError
from tidelog.config.errors import ConfigError

if TYPE_CHECKING:
    from tidelog.client.aio.connection import BrokerConnection
    from tidelog.client.aio.security_settings import SecuritySettings
    from tidelog.client.aio.settings import CommonSettings


def connector_of(settings: "CommonSettings") -> PlainConnector:
    """What opens the connections of a client with these settings. Raises ClientConfigError."""
    sizes = settings.send_buffer_bytes, settings.receive_buffer_bytes
    if settings.security_protocol == "PLAINTEXT":
        return PlainConnector(*sizes)
    context = _context_of(settings)
    return SecureConnector(lambda: context, *sizes)


def _context_of(settings: "SecuritySettings") -> ssl.SSLContext:
    from tidelog.security.tls import client_context, read_tls_options

    try:
        return client_context(read_tls_options(settings))
    except ConfigError as error:
        raise ClientConfigError(str(error)) from error


class SecureConnector(PlainConnector):
    """SSL."""

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext | None],
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        super().__init__(send_buffer_bytes, receive_buffer_bytes)
        self._tls = tls

    async def connect(self, connection: "BrokerConnection", host: str, port: int) -> None:
        context = self._tls()
        if context is None:
            await super().connect(connection, host, port)
            return
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(
                lambda: connection, host, port, ssl=context, server_hostname=host
            )
        except ssl.SSLError as error:
            raise AuthenticationFailed(connection.address, tls_failure(error)) from error
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._tune(sock)
