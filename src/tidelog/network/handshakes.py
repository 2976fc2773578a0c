"""TLS handshakes in progress: each step in turn, a little of each event-loop turn, within a deadline.

A handshake costs one signature, a tenth of a millisecond to some milliseconds depending on the key. Steps that are due
wait in a queue, of which a turn takes what fits its share of time and at least one step; so hundreds of handshakes that
begin, go on or end at once delay other connections by one signature a turn, and no more. A peer that does not finish in
time is closed; what it may send before it has finished is limited.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter, time
from typing import Final

from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.network.session import ANONYMOUS, USER
from tidelog.network.tls import TlsStream, TlsTransport
from tidelog.network.transport import Transport
from tidelog.security.distinguished_name import subject_of
from tidelog.security.principal_mapping import PrincipalMapping

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

HANDSHAKE_SECONDS_MAX: Final = 30.0
"""From the connection to the end of its handshake. Kafka waits `connections.max.idle.ms`, ten minutes."""

STEPS_SECONDS_PER_TURN: Final = 0.001
"""What the steps of one turn may take, before the last of them begins."""

_HELD_BYTES_MAX: Final = 128 << 10
"""What a peer may have sent during its handshake: the certificates of a long chain fit several times."""

_SCRATCH_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """What a listener negotiates with, and how it names the clients that show a certificate."""

    context: ssl.SSLContext
    mapping: PrincipalMapping


OnDone = Callable[[TlsTransport, str], None]
"""Takes the transport and the principal of a peer that has finished its handshake."""
OnFailed = Callable[[Transport], None]
"""Takes the transport below, to be closed, of one that has not."""


class Handshakes:
    """All handshakes of one broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.scratch = bytearray(_SCRATCH_BYTES)
        self._loop = loop
        self._due: deque[_Handshake] = deque()
        self._running: dict[int, _Handshake] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, tls: ListenerTls, below: Transport, address: str, on_done: OnDone, on_failed: OnFailed) -> None:
        """Begin the handshake of a new connection; one of the two functions is called when it has ended."""
        handshake = _Handshake(self, TlsStream(tls.context, below, self.scratch), tls.mapping, address)
        handshake.on_done, handshake.on_failed = on_done, on_failed
        handshake.timer = self._loop.call_later(HANDSHAKE_SECONDS_MAX, handshake.on_late)
        self._running[handshake.fd] = handshake
        self.wait(handshake)

    def wait(self, handshake: _Handshake) -> None:
        self._loop.add_reader(handshake.fd, handshake.on_readable)

    def wait_for_room(self, handshake: _Handshake) -> None:
        self._loop.add_writer(handshake.fd, handshake.on_writable)

    def stop_waiting_for_room(self, handshake: _Handshake) -> None:
        self._loop.remove_writer(handshake.fd)

    def is_due(self, handshake: _Handshake) -> None:
        """Bytes came, or the end: take the next step soon, and look for no more before that."""
        self._loop.remove_reader(handshake.fd)
        self._due.append(handshake)
        self._schedule()

    def forget(self, handshake: _Handshake) -> None:
        del self._running[handshake.fd]
        self._loop.remove_reader(handshake.fd)
        self._loop.remove_writer(handshake.fd)

    def close(self) -> None:
        """End all of them."""
        for handshake in list(self._running.values()):
            handshake.fail(None)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._take_steps)

    def _take_steps(self) -> None:
        self._is_scheduled = False
        # A clock of its own: uvloop's stands still during a turn.
        end = perf_counter() + STEPS_SECONDS_PER_TURN
        while self._due:
            handshake = self._due.popleft()
            if handshake.fd in self._running and self._running[handshake.fd] is handshake:
                handshake.step()
            if perf_counter() >= end:
                break
        if self._due:
            self._schedule()


class _Handshake:
    """One connection until it is encrypted."""

    __slots__ = ("_address", "_has_sent", "_mapping", "_owner", "_stream", "fd", "on_done", "on_failed", "timer")

    on_done: OnDone
    on_failed: OnFailed
    timer: asyncio.TimerHandle

    def __init__(self, owner: Handshakes, stream: TlsStream, mapping: PrincipalMapping, address: str) -> None:
        self.fd = stream.below.fileno()
        self._owner = owner
        self._stream = stream
        self._mapping = mapping
        self._address = address
        self._has_sent = False

    def on_readable(self) -> None:
        self._owner.is_due(self)

    def on_writable(self) -> None:
        try:
            if self._stream.flush():
                self._owner.stop_waiting_for_room(self)
        except OSError:
            self.fail("it closed the connection during the TLS handshake")

    def on_late(self) -> None:
        self.fail(f"it did not finish the TLS handshake within {HANDSHAKE_SECONDS_MAX:g} s")

    def step(self) -> None:
        """Take what has arrived and go as far as it allows."""
        try:
            received = self._stream.receive()
        except (BlockingIOError, InterruptedError):
            self._owner.wait(self)
            return
        except OSError:
            received = 0
        if not received:
            # Health checks of load balancers connect, send nothing and leave.
            self.fail("it closed the connection during the TLS handshake" if self._has_sent else None)
        elif self._stream.incoming.pending > _HELD_BYTES_MAX:
            self.fail(f"it sent more than {_HELD_BYTES_MAX} bytes during the TLS handshake")
        else:
            self._has_sent = True
            self._negotiate()

    def _negotiate(self) -> None:
        try:
            self._stream.object.do_handshake()
        except ssl.SSLWantReadError:
            self._answer()
        except ssl.SSLError as error:
            self._answer(is_last=True)
            self.fail(_why(error))
        else:
            self._complete()

    def _answer(self, *, is_last: bool = False) -> None:
        try:
            is_sent = self._stream.flush()
        except OSError:
            if not is_last:
                self.fail("it closed the connection during the TLS handshake")
            return
        if not is_last:
            if not is_sent:
                self._owner.wait_for_room(self)
            self._owner.wait(self)

    def _complete(self) -> None:
        try:
            principal = self._principal()
            self._stream.flush()
        except (ValueError, OSError) as error:
            self.fail(str(error))
            return
        self._end()
        self.on_done(TlsTransport(self._stream), principal)

    def _principal(self) -> str:
        certificate = self._stream.object.getpeercert(binary_form=True)
        if certificate is None:
            return ANONYMOUS
        if self._stream.object.session_reused:
            self._check_not_expired()
        name = subject_of(certificate)
        user = self._mapping.user_of(name)
        if user is None:
            raise ValueError(f"no rule of ssl.principal.mapping.rules applies to its certificate's name {name!r}")
        return USER + user

    def _check_not_expired(self) -> None:
        """OpenSSL verifies a certificate when it is shown, and a session of TLS 1.2 is resumed without it for hours."""
        found = self._stream.object.getpeercert()
        if found is None or ssl.cert_time_to_seconds(str(found["notAfter"])) < time():
            raise ValueError("its certificate has expired since the session began that it resumes")

    def fail(self, why: str | None) -> None:
        """Close the connection; `why` is logged."""
        if why is not None:
            logger.warning("closing %s: %s", self._address, why)
        self._end()
        self.on_failed(self._stream.below)

    def _end(self) -> None:
        self.timer.cancel()
        self._owner.forget(self)


_NOT_TLS: Final = (
    "it does not speak TLS, and this listener does; set security.protocol of the client to SSL or SASL_SSL"
)
_REASONS: Final = {
    "HTTP_REQUEST": _NOT_TLS,
    "HTTPS_PROXY_REQUEST": _NOT_TLS,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "UNKNOWN_PROTOCOL": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": "it offers no TLS version of ssl.enabled.protocols",
    "VERSION_TOO_LOW": "it offers no TLS version of ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "it shares no cipher suite with this listener (ssl.cipher.suites)",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "it takes no signature that this listener's key can make",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this broker's certificate (unknown CA)",
    "TLSV1_ALERT_DECRYPT_ERROR": "it rejected this broker's signature",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it rejected this broker's certificate (bad certificate)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it rejected this broker's certificate (unknown CA, host name, or expired)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it rejected this broker's certificate, which has expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it takes no TLS version of ssl.enabled.protocols",
}
"""What happened, by OpenSSL's reason, and where it helps the setting to change."""


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    reason = error.reason or str(error)
    return _REASONS.get(reason) or f"the TLS handshake failed: {reason.replace('_', ' ').lower()}"
