"""SASL on a broker's connections: what a client may say before it is authenticated, and who it is afterwards.

A connection of a SASL listener begins with a `SaslAuthenticator` in place of the dispatcher. It serves ApiVersions,
SaslHandshake and SaslAuthenticate, the last two in that order; any other request closes the connection. Frames are
small until then. After the last step the connection gets the dispatcher that every other has, so that authenticated
clients pay nothing for it; only where sessions end (`connections.max.reauth.ms`, credentials that expire) each request
looks at the clock. What may block in a mechanism runs on threads of its own, so that a slow issuer of tokens delays
logins with tokens and nothing else.

    HANDSHAKE ─SaslHandshake v1→ AUTHENTICATE ─SaslAuthenticate…→ DONE ─SaslHandshake, where sessions end→ HANDSHAKE
    HANDSHAKE ─SaslHandshake v0→ RAW ─tokens without headers…→ DONE
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from struct import Struct, error
from typing import TYPE_CHECKING, Final

from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.network.session import USER
from tidelog.security.errors import SaslError
from tidelog.security.mechanism import ServerMechanism, Work
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.wire.schema import Message

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from tidelog.network.connection import Connection, Slot
    from tidelog.timing import Clock

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

AUTHENTICATION_MS_MAX: Final = 60_000
"""From the first byte to the end of the authentication. Kafka waits `connections.max.idle.ms` for each message."""

_THREADS: Final = 4

_unpack_api_key: Final = Struct(">h").unpack_from
_SIZE: Final = Struct(">i")


class State(Enum):
    """What is expected next."""

    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    RAW = auto()
    DONE = auto()
    FAILED = auto()


_PHASES: Final[Mapping[int, State]] = {
    ApiKey.API_VERSIONS: State.HANDSHAKE,
    ApiKey.SASL_HANDSHAKE: State.HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE: State.AUTHENTICATE,
}
"""In which state each request is served before the end of an authentication. There is none for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """How clients of one listener authenticate."""

    mechanisms: Mapping[str, Callable[[], ServerMechanism]]
    """Makes the broker's side of an exchange, by the name of the mechanism."""
    frame_bytes_max: int
    failure_delay_ms: int
    session_ms_max: Mapping[str, int]
    """By mechanism: after this time a client must authenticate again; 0 for never."""
    upkeep: Sequence[Callable[[], Work | None]] = ()
    """Returns work that has become due, such as fetching the keys of an issuer again."""


class Authentication:
    """The authentications of one broker. `listeners` may change while it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, listeners: Mapping[str, SaslListener]) -> None:
        self.loop = loop
        self.clock = clock
        self.listeners = listeners
        self._unfinished: dict[Connection, int] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._under_way: dict[Work, asyncio.Future[object]] = {}
        self.succeeded: Counter[str] = Counter()
        """Authentications that succeeded, by listener; those that renew a session are in `renewed`."""
        self.renewed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def on_open(self, connection: Connection) -> None:
        """A client connects: if its listener demands so, it is served nothing before it has authenticated itself."""
        listener = self.listeners.get(connection.session.listener)
        if listener is None:
            assert not connection.session.security_protocol.startswith("SASL"), "a SASL listener has its mechanisms"
            return
        connection.session.is_authenticated = False
        connection.frame_bytes_max = min(listener.frame_bytes_max, connection.frame_bytes_max)
        connection.dispatch = SaslAuthenticator(self, listener).dispatch
        self._unfinished[connection] = self.clock.monotonic_ms() + AUTHENTICATION_MS_MAX

    def finished(self, connection: Connection) -> None:
        self._unfinished.pop(connection, None)

    def run(self, work: Work) -> asyncio.Future[object]:
        """Run `work` on a thread; equal work that is under way is shared."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tidelog-authentication")
        future = self._under_way.get(work)
        if future is None:
            future = self._under_way[work] = self.loop.run_in_executor(self._threads, work)
            future.add_done_callback(partial(self._ended, work))
        return future

    def _ended(self, work: Work, future: asyncio.Future[object]) -> None:
        del self._under_way[work]
        if not future.cancelled() and (cause := future.exception()) is not None:
            # The traceback says where. The work itself may hold what a client has sent: a ticket, a token.
            logger.error("the work of an authentication failed", exc_info=cause)

    def close(self) -> None:
        """Wait for nothing: what runs on threads ends by its own deadlines."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def keep_up(self) -> None:
        """Close connections that are late and start the work that is due. Called regularly."""
        self.close_late()
        for listener in self.listeners.values():
            for due in listener.upkeep:
                work = due()
                if work is not None:
                    self.run(work)

    def close_late(self) -> None:
        """Close connections that take too long to authenticate, and forget those that are gone."""
        now_ms = self.clock.monotonic_ms()
        for connection, deadline_ms in list(self._unfinished.items()):
            if connection.is_closed:
                del self._unfinished[connection]
            elif deadline_ms <= now_ms:
                del self._unfinished[connection]
                logger.warning(
                    "closing %s: it did not authenticate within %d ms", connection.address, AUTHENTICATION_MS_MAX
                )
                connection.close()


class SaslAuthenticator:
    """One connection's authentications: the first, and those that renew it."""

    __slots__ = ("_ends_ms", "_listener", "_mechanism", "_name", "_owner", "_state")

    def __init__(self, owner: Authentication, listener: SaslListener) -> None:
        self._owner = owner
        self._listener = listener
        self._state = State.HANDSHAKE
        self._name = ""
        self._mechanism: ServerMechanism | None = None
        self._ends_ms = 0

    def dispatch(self, connection: Connection, slot: Slot, data: bytearray | memoryview, start: int, stop: int) -> None:
        """Takes the frames of a connection that is not authenticated."""
        try:
            if self._state is State.RAW:
                self._take_token(slot, bytes(data[start:stop]), None)
            else:
                self._take_request(connection, slot, data, start, stop)
        except (WireError, error, IndexError, ValueError) as cause:
            logger.warning("closing %s: it sent a request that cannot be read: %s", connection.address, cause)
            slot.close_connection()

    def _take_request(
        self, connection: Connection, slot: Slot, data: bytearray | memoryview, start: int, stop: int
    ) -> None:
        (api_key,) = _unpack_api_key(data, start)
        if _PHASES.get(api_key) is not self._state:
            logger.warning("closing %s: %s before it is authenticated", connection.address, _api_name(api_key))
            slot.close_connection()
            return
        if api_key == ApiKey.API_VERSIONS:
            connection.server.dispatch(connection, slot, data, start, stop)
            return
        header = parse_request_header(data, start)
        request_class = SaslHandshakeRequest if api_key == ApiKey.SASL_HANDSHAKE else SaslAuthenticateRequest
        first, last = request_class.versions
        if not first <= header.api_version <= last:
            logger.warning("closing %s: %s in version %d", connection.address, _api_name(api_key), header.api_version)
            slot.close_connection()
            return
        request = request_class.decode(memoryview(data)[header.body_offset : stop], header.api_version)
        answer = _Answer(slot, api_key, header.api_version, header.correlation_id)
        if isinstance(request, SaslHandshakeRequest):
            self._shake_hands(request.mechanism, answer)
        else:
            self._take_token(slot, bytes(request.auth_bytes), answer)

    def _shake_hands(self, mechanism: str, answer: _Answer) -> None:
        enabled = list(self._listener.mechanisms)
        make = self._listener.mechanisms.get(mechanism)
        response = SaslHandshakeResponse(mechanisms=enabled)
        if make is None or (self._name and self._name != mechanism):
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self._fail(
                answer.slot, f"it asks for the SASL mechanism {mechanism!r}; enabled are {enabled}", answer, response
            )
            return
        self._name = mechanism
        self._mechanism = make()
        self._state = State.RAW if answer.version == 0 else State.AUTHENTICATE
        answer.send(response)

    def _take_token(self, slot: Slot, token: bytes, answer: _Answer | None) -> None:
        """One message of the mechanism; `answer` is None for a client that sends them without headers."""
        assert self._mechanism is not None, "the handshake has chosen one"
        try:
            work = self._mechanism.prepare(token)
        except SaslError as cause:
            self._reject(slot, cause, answer)
            return
        if work is None:
            self._respond(slot, token, answer)
            return
        slot.connection.mute()
        slot.park()
        self._owner.run(work).add_done_callback(partial(self._prepared, slot, token, answer))

    def _prepared(self, slot: Slot, token: bytes, answer: _Answer | None, future: asyncio.Future[object]) -> None:
        """What could block is done, well or not."""
        if slot.connection.is_closed or future.cancelled():
            return
        if future.exception() is not None:
            self._reject(slot, SaslError("Authentication failed: the broker could not check the credentials"), answer)
            return
        try:
            self._respond(slot, token, answer)
        except Exception as cause:  # noqa: BLE001 - it belongs to the request, and no caller knows that
            # The loop would log the token with the callback.
            slot.fail("SaslAuthenticate", cause)
            return
        if self._state is not State.FAILED:
            slot.connection.unmute()

    def _respond(self, slot: Slot, token: bytes, answer: _Answer | None) -> None:
        assert self._mechanism is not None, "the handshake has chosen one"
        mechanism, connection, lifetime_ms = self._mechanism, slot.connection, 0
        try:
            reply = mechanism.respond(token)
            if mechanism.user is not None:
                connection.session.has_token = mechanism.has_token
                lifetime_ms = self._accept(connection, mechanism.user, mechanism.expires_ms)
        except SaslError as cause:
            self._reject(slot, cause, answer)
            return
        if answer is None:
            _fill(slot, _SIZE.pack(len(reply)) + reply)
            return
        answer.send(SaslAuthenticateResponse(auth_bytes=reply, session_lifetime_ms=lifetime_ms, error_message=None))

    def _reject(self, slot: Slot, cause: SaslError, answer: _Answer | None) -> None:
        response = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=cause.reason)
        self._fail(slot, f"authentication with {self._name} failed: {cause}", answer, response)

    def _accept(self, connection: Connection, user: str, expires_ms: int | None) -> int:
        """The client is who it claims to be: requests go where those of other clients go.

        Returns how long the session lasts; 0 for ever, or for credentials that expire just now.
        """
        session, clock = connection.session, self._owner.clock
        principal = USER + user
        if session.is_authenticated and session.principal != principal:
            raise SaslError(
                f"Cannot change principals during re-authentication from {session.principal} to {principal}"
            )
        owner = self._owner
        (owner.renewed if session.is_authenticated else owner.succeeded)[session.listener] += 1
        session.principal = principal
        session.is_authenticated = True
        self._state, self._mechanism = State.DONE, None
        connection.frame_bytes_max = connection.server.request_bytes_max
        self._owner.finished(connection)
        limits = [limit for limit in (self._listener.session_ms_max[self._name],) if limit]
        if expires_ms is not None:
            limits.append(max(0, expires_ms - clock.wall_ms()))
        if not limits:
            connection.dispatch = connection.server.dispatch
            return 0
        self._ends_ms = clock.monotonic_ms() + min(limits)
        connection.dispatch = self.dispatch_until_end
        return min(limits)

    def dispatch_until_end(
        self, connection: Connection, slot: Slot, data: bytearray | memoryview, start: int, stop: int
    ) -> None:
        """Takes the frames of an authenticated connection whose session ends (KIP-368)."""
        if stop - start >= 2 and _unpack_api_key(data, start)[0] == ApiKey.SASL_HANDSHAKE:
            self._state = State.HANDSHAKE
            connection.dispatch = self.dispatch
            self.dispatch(connection, slot, data, start, stop)
        elif self._owner.clock.monotonic_ms() >= self._ends_ms:
            logger.info(
                "closing %s: the session of %s has ended and it did not authenticate again",
                connection.address,
                connection.session.principal,
            )
            slot.close_connection()
        else:
            connection.server.dispatch(connection, slot, data, start, stop)

    def _fail(self, slot: Slot, why: str, answer: _Answer | None, response: Message) -> None:
        """Answer after a delay, which slows guessing down, and close; nothing else is read meanwhile."""
        connection = slot.connection
        logger.warning("closing %s (listener %s): %s", connection.address, connection.session.listener, why)
        self._state = State.FAILED
        self._owner.failed[connection.session.listener] += 1
        self._owner.finished(connection)

        def end() -> None:
            if not connection.is_closed:
                if answer is None:
                    slot.close_connection()
                else:
                    slot.fill_last(answer.encode(response))

        if self._listener.failure_delay_ms:
            connection.mute()
            slot.park()
            self._owner.loop.call_later(self._listener.failure_delay_ms / 1000, end)
        else:
            end()


class _Answer:
    """Where the response to a request goes, and in which version."""

    __slots__ = ("_api_key", "_correlation_id", "slot", "version")

    def __init__(self, slot: Slot, api_key: int, version: int, correlation_id: int) -> None:
        self.slot = slot
        self.version = version
        self._api_key = api_key
        self._correlation_id = correlation_id

    def encode(self, response: Message) -> bytes:
        return encode_response(self._api_key, self.version, self._correlation_id, response.encode(self.version))

    def send(self, response: Message) -> None:
        _fill(self.slot, self.encode(response))


def _fill(slot: Slot, reply: bytes) -> None:
    slot.connection.hold(len(reply))
    slot.fill(reply)


def _api_name(api_key: int) -> str:
    try:
        return f"it sent {ApiKey(api_key).name}"
    except ValueError:
        return f"it sent a request with the API key {api_key}"
