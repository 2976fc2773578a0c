"""Loops that connect again and again: TLS handshakes, SCRAM logins.

Several threads, because one client waits for the network most of its time; what OpenSSL computes and what sockets wait
for needs no interpreter lock.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from benchmarks import frames
from benchmarks.admin import open_socket, read_frame
from benchmarks.load import Sample, measured
from benchmarks.secured_brokers import ITERATIONS, MECHANISM, PASSWORD, USER
from tidelog.security.scram import salted_password

CLIENTS: Final = 4
_SECONDS_MAX: Final = 60.0
_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 18, 17, 36


def again_and_again(once: Callable[[], None], seconds: float, clients: int = CLIENTS) -> Sample:
    """Call `once` in some threads until the time is over; counts the calls. The first error ends it, and is raised."""
    sample = Sample()
    failures: list[BaseException] = []
    counts = [0] * clients

    def run(number: int) -> None:
        try:
            while time.perf_counter() < deadline and not failures:
                once()
                counts[number] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(clients)]
    with measured(sample):
        deadline = time.perf_counter() + seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_SECONDS_MAX)
    if failures:
        raise failures[0]
    sample.requests = sum(counts)
    return sample


def handshake(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """Connect, negotiate, and be answered once: only then has the broker finished too."""
    with open_socket(address) as plain, context.wrap_socket(plain) as secure:
        secure.sendall(API_VERSIONS_FRAME)
        read_frame(secure)


class ScramLogin:
    """Logs in with a salted password that was computed once, as clients that reconnect do."""

    def __init__(self, salt: bytes) -> None:
        salted = salted_password(MECHANISM, PASSWORD, salt, ITERATIONS)
        self._client_key = hmac.digest(salted, b"Client Key", "sha256")
        self._stored_key = hashlib.sha256(self._client_key).digest()
        self._server_key = hmac.digest(salted, b"Server Key", "sha256")

    def login(self, address: tuple[str, int]) -> None:
        with open_socket(address) as sock:
            sock.sendall(HANDSHAKE_FRAME)
            read_frame(sock)
            first = _exchange(sock, _CLIENT_FIRST)
            final, signed = self._final(first.decode())
            answer = _exchange(sock, final)
        if answer != b"v=" + b64encode(hmac.digest(self._server_key, signed, "sha256")):
            raise RuntimeError("the broker does not know the password")

    def _final(self, server_first: str) -> tuple[bytes, bytes]:
        without_proof = f"c=biws,r={server_first.partition(',')[0][2:]}"
        signed = f"{_BARE},{server_first},{without_proof}".encode()
        signature = hmac.digest(self._stored_key, signed, "sha256")
        proof = (int.from_bytes(self._client_key, "big") ^ int.from_bytes(signature, "big")).to_bytes(32, "big")
        return f"{without_proof},p={b64encode(proof).decode()}".encode(), signed


def salt_of(address: tuple[str, int]) -> bytes:
    """The salt of the user, as a broker shows it."""
    with open_socket(address) as sock:
        sock.sendall(HANDSHAKE_FRAME)
        read_frame(sock)
        parts = dict(part.split("=", 1) for part in _exchange(sock, _CLIENT_FIRST).decode().split(","))
        return b64decode(parts["s"])


def _exchange(sock: socket.socket, token: bytes) -> bytes:
    sock.sendall(authenticate_frame(token))
    reply = read_frame(sock)
    (error_code,) = struct.unpack_from(">h", reply, 4)
    (message_bytes,) = struct.unpack_from(">h", reply, 6)
    position = 8 + max(0, message_bytes)
    if error_code:
        raise RuntimeError(f"SaslAuthenticate: error {error_code}: {reply[8:position].decode()}")
    (size,) = struct.unpack_from(">i", reply, position)
    return reply[position + 4 : position + 4 + size]


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 1, len(frames.CLIENT_ID)) + frames.CLIENT_ID
    return struct.pack(">i", len(header) + len(body)) + header + body


def handshake_frame(mechanism: str) -> bytes:
    """A SaslHandshake."""
    return _frame(_SASL_HANDSHAKE, 1, struct.pack(">h", len(mechanism)) + mechanism.encode())


def authenticate_frame(token: bytes) -> bytes:
    """A SaslAuthenticate."""
    return _frame(_SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token)


API_VERSIONS_FRAME: Final = _frame(_API_VERSIONS, 0, b"")
HANDSHAKE_FRAME: Final = handshake_frame(MECHANISM)
_BARE: Final = f"n={USER},r=a-nonce-that-may-repeat"
_CLIENT_FIRST: Final = f"n,,{_BARE}".encode()
