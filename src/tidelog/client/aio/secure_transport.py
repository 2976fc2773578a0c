"""Connections with TLS, with SASL, or with both.

The TLS context is asked for with every connection, because certificates may be replaced while a client runs. A broker
may limit how long a SASL session lasts (KIP-368); a connection whose session is about to end is replaced by another
between two requests (`BrokerConnection.session_ends`).
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tidelog.client.aio.tls_failures import NO_TLS_HANDSHAKE, tls_failure
from tidelog.client.aio.transport import PlainConnector
from tidelog.client.errors import AuthenticationFailed, BrokerUnavailable, ClientConfigError
from tidelog.client.logins import login_of
from tidelog.config.errors import ConfigError
from tidelog.security.errors import SaslError
from tidelog.security.login import Login
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from tidelog.client.aio.connection import BrokerConnection
    from tidelog.client.aio.settings import CommonSettings
    from tidelog.client.security_settings import SecuritySettings

T = TypeVar("T")


def connector_of(settings: "CommonSettings") -> PlainConnector:
    """What opens the connections of a client with these settings. Raises ClientConfigError."""
    sizes = settings.send_buffer_bytes, settings.receive_buffer_bytes
    protocol = settings.security_protocol
    if protocol == "PLAINTEXT":
        return PlainConnector(*sizes)
    context = _context_of(settings) if protocol.endswith("SSL") else None
    login = _login_of(settings) if protocol.startswith("SASL") else None
    return SecureConnector(lambda: context, login, *sizes)


def _context_of(settings: "SecuritySettings") -> ssl.SSLContext:
    from tidelog.security.tls import client_context, read_tls_options

    try:
        return client_context(read_tls_options(settings))
    except ConfigError as error:
        raise ClientConfigError(str(error)) from error


def _login_of(settings: "SecuritySettings") -> Login:
    try:
        return login_of(settings.sasl_mechanism, settings.sasl_jaas_config, settings)
    except ConfigError as error:
        raise ClientConfigError(str(error)) from error


class SecureConnector(PlainConnector):
    """SSL, SASL_PLAINTEXT and SASL_SSL."""

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext | None],
        login: Login | None = None,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        super().__init__(send_buffer_bytes, receive_buffer_bytes)
        self._tls = tls
        self._login = login

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
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError) as error:
            raise BrokerUnavailable(connection.address, NO_TLS_HANDSHAKE) from error
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._tune(sock)

    async def authenticate(self, connection: "BrokerConnection") -> None:
        if self._login is None:
            return
        try:
            await self._authenticate(connection, self._login)
        except SaslError as error:
            raise AuthenticationFailed(connection.address, str(error)) from error

    async def _authenticate(self, connection: "BrokerConnection", login: Login) -> None:
        handshake = await connection.send(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse)
        if handshake.error_code:
            raise AuthenticationFailed(connection.address, _why_refused(handshake, login))
        run = _on_thread if login.blocks else _at_once
        exchange = await run(lambda: login.begin(connection.host))
        message: bytes | None = await run(exchange.first)
        while message is not None:
            answer = await connection.send(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
            if answer.error_code:
                reason = answer.error_message or ErrorCode(answer.error_code).name
                raise AuthenticationFailed(connection.address, reason)
            message = await run(partial(exchange.respond, bytes(answer.auth_bytes)))
        if not exchange.is_complete:
            raise AuthenticationFailed(connection.address, "the broker ended the exchange early")
        connection.limit_session(answer.session_lifetime_ms)


async def _at_once(step: Callable[[], T]) -> T:
    return step()


async def _on_thread(step: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, step)


def _why_refused(handshake: SaslHandshakeResponse, login: Login) -> str:
    if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return "the broker's listener has no SASL (security.protocol)"
    offered = ", ".join(handshake.mechanisms)
    return f"the broker does not enable sasl.mechanism={login.mechanism}; it offers {offered}"
