"""Opens sockets without TLS or SASL; `secure_transport` has those that do more."""

import asyncio
import socket

from tidelog.client.aio.connection import BrokerConnection


class PlainConnector:
    """PLAINTEXT: TCP without authentication."""

    def __init__(self, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes

    async def connect(self, connection: BrokerConnection, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: connection, host, port)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._tune(sock)

    async def authenticate(self, connection: BrokerConnection) -> None:
        """Nothing to do."""

    def _tune(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in (
            (socket.SO_SNDBUF, self._send_buffer_bytes),
            (socket.SO_RCVBUF, self._receive_buffer_bytes),
        ):
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
