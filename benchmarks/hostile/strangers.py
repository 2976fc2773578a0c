"""Attacks on secured listeners, as a table: handshakes and logins by the thousand, unfinished ones held open, wrong
certificates, passwords, mechanisms and protocols.

An attack is a function that does its worst and returns how many connections it made. What the broker does with each of
them is not looked at here; that is what the tests are for.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from benchmarks.admin import open_socket
from benchmarks.processes import HOST
from benchmarks.secured_brokers import SecurePorts, client_context
from benchmarks.security_load import (
    API_VERSIONS_FRAME,
    HANDSHAKE_FRAME,
    ScramLogin,
    authenticate_frame,
    handshake,
    handshake_frame,
    salt_of,
)

CLIENTS: Final = 8
MANY: Final = 2_000
HELD: Final = 500
SECONDS_MAX: Final = 6.0
"""So long an attack goes on, with fewer connections where they take longer."""
_LAST_CONNECTION_SECONDS_MAX: Final = 60.0
_TLS_RECORD_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Target:
    """A broker that is attacked, and the certificates of strangers."""

    plain: int
    ports: SecurePorts
    stranger: str
    """A file with a key and a certificate of an authority that the broker does not trust."""
    expired: str


Attack = Callable[[Target], int]


def _often(number: int, once: Callable[[], object]) -> int:
    """Call `once` so many times in some threads, or until the time is over; how many times it was called.

    A connection that the broker ends is what is meant.
    """
    numbers, made = count(), count()
    deadline = time.monotonic() + SECONDS_MAX

    def run() -> None:
        while next(numbers) < number and time.monotonic() < deadline:
            next(made)
            with contextlib.suppress(OSError, RuntimeError):
                once()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LAST_CONNECTION_SECONDS_MAX)
    return next(made)


@contextlib.contextmanager
def _held(port: int, data: bytes, number: int = HELD) -> Iterator[list[socket.socket]]:
    """So many connections that have sent this and wait."""
    with contextlib.ExitStack() as stack:
        socks = []
        for _ in range(number):
            sock = stack.enter_context(open_socket((HOST, port)))
            sock.sendall(data)
            socks.append(sock)
        yield socks


def _client_hello(minimum: ssl.TLSVersion | None = None) -> bytes:
    """The first message of a client, whole."""
    context = client_context()
    if minimum is not None:
        context.minimum_version = context.maximum_version = minimum
        context.set_ciphers("ALL:@SECLEVEL=0")
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


def _sent(port: int, data: bytes) -> None:
    """Send, and wait for the broker's end or answer."""
    with open_socket((HOST, port), 30.0) as sock:
        sock.sendall(data)
        sock.recv(1)


def _handshakes(target: Target, context: ssl.SSLContext, number: int = MANY) -> int:
    return _often(number, lambda: handshake((HOST, target.ports.tls), context))


def _with_certificate(path: str) -> ssl.SSLContext:
    context = client_context()
    context.load_cert_chain(path)
    return context


def whole_handshakes(target: Target) -> int:
    return _handshakes(target, client_context())


def strange_certificates(target: Target) -> int:
    return _handshakes(target, _with_certificate(target.stranger), MANY // 2)


def expired_certificates(target: Target) -> int:
    return _handshakes(target, _with_certificate(target.expired), MANY // 2)


def half_hellos(target: Target) -> int:
    """Half of the first message, held open while others negotiate."""
    hello = _client_hello()
    with _held(target.ports.tls, hello[: len(hello) // 2]) as held:
        return len(held) + _handshakes(target, client_context(), HELD)


def unfinished_handshakes(target: Target) -> int:
    """The first message, whose answer costs the broker a signature, and no second one."""
    with _held(target.ports.tls, _client_hello()) as held:
        return len(held) + _handshakes(target, client_context(), HELD)


def signatures_for_nothing(target: Target) -> int:
    """The first message and away."""
    hello = _client_hello()
    return _often(MANY, lambda: _sent(target.ports.tls, hello))


def plaintext_to_tls(target: Target) -> int:
    return _often(MANY, lambda: _sent(target.ports.tls, API_VERSIONS_FRAME))


def tls_to_plaintext(target: Target) -> int:
    hello = _client_hello()
    return _often(MANY, lambda: _sent(target.plain, hello))


def old_tls(target: Target) -> int:
    hello = _client_hello(ssl.TLSVersion.TLSv1_1)
    return _often(MANY, lambda: _sent(target.ports.tls, hello))


def garbage_in_handshakes(target: Target) -> int:
    """Handshake records of the largest size, full of nothing."""
    record = b"\x16\x03\x01" + struct.pack(">H", _TLS_RECORD_BYTES) + bytes(_TLS_RECORD_BYTES)
    return _often(MANY, lambda: _sent(target.ports.tls, record))


def logins(target: Target) -> int:
    address = (HOST, target.ports.scram)
    client = ScramLogin(salt_of(address))
    return _often(MANY, lambda: client.login(address))


def wrong_passwords(target: Target) -> int:
    address = (HOST, target.ports.scram)
    client = ScramLogin(b"another salt")
    return _often(MANY // 2, lambda: client.login(address))


def unknown_users(target: Target) -> int:
    numbers = count()
    port = target.ports.scram
    return _often(
        MANY // 2,
        lambda: _sent(port, HANDSHAKE_FRAME + authenticate_frame(b"n,,n=user%d,r=x" % next(numbers))),
    )


def half_logins(target: Target) -> int:
    first = HANDSHAKE_FRAME + authenticate_frame(b"n,,n=alice,r=x")
    with _held(target.ports.scram, first) as held:
        address = (HOST, target.ports.scram)
        client = ScramLogin(salt_of(address))
        return len(held) + _often(HELD, lambda: client.login(address))


def downgraded_mechanisms(target: Target) -> int:
    frame = handshake_frame("PLAIN")
    return _often(MANY, lambda: _sent(target.ports.scram, frame))


def large_logins(target: Target) -> int:
    """First messages of SCRAM as large as a frame may be before authentication, with a thousand extensions."""
    extensions = b",x=" + b"y" * 100
    first = b"n,,n=alice,r=x" + extensions * (500_000 // len(extensions))
    frame = HANDSHAKE_FRAME + authenticate_frame(first)
    return _often(MANY // 10, lambda: _sent(target.ports.scram, frame))


ATTACKS: Final[Mapping[str, Attack]] = {
    "TLS handshakes": whole_handshakes,
    "TLS: first message and away": signatures_for_nothing,
    "TLS: half of a first message held, others negotiate": half_hellos,
    "TLS: handshakes not finished, others negotiate": unfinished_handshakes,
    "TLS: certificates of another authority": strange_certificates,
    "TLS: expired certificates": expired_certificates,
    "TLS: version 1.1 only": old_tls,
    "TLS: large handshake records of zeros": garbage_in_handshakes,
    "plaintext to a TLS listener": plaintext_to_tls,
    "TLS to a plaintext listener": tls_to_plaintext,
    "SCRAM logins": logins,
    "SCRAM: wrong passwords": wrong_passwords,
    "SCRAM: users that do not exist": unknown_users,
    "SCRAM: logins not finished, others log in": half_logins,
    "SCRAM: first messages of 500 KB": large_logins,
    "SASL: a mechanism that is not enabled": downgraded_mechanisms,
}
