"""One connection to one broker under asyncio: versions negotiated, requests pipelined, replies matched in order.

`send` writes at once and returns a future. `NetworkClient` decides how many requests may be in flight, when to connect
and which broker to use. A request that gets no reply in time ends the connection with all others on it, as replies come
in order and the one that is late blocks the rest.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from tidelog import __version__
from tidelog.client.addresses import address_text
from tidelog.client.aio.counters import BrokerCounters, name_of_api
from tidelog.client.aio.frame_reader import FrameReader
from tidelog.client.aio.tls_failures import tls_failure
from tidelog.client.errors import (
    AuthenticationFailed,
    BrokerUnavailable,
    ClientError,
    ConnectionLost,
    InvalidReply,
    UnsupportedByBroker,
)
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.primitives import Buffer
from tidelog.wire.schema import Message

Response = TypeVar("Response", bound=Message)
Decode = Callable[[Buffer, int, int], Any]
"""Turns a frame, the version asked for and the position of the body into a reply."""

_SESSION_SHARE: Final = 0.85
"""Of a session's lifetime, the part in which requests are sent. Java authenticates again within the same part."""

_unpack_correlation_id: Final = Struct(">i").unpack_from
_unpack_error: Final = Struct(">h").unpack_from


class _Pending:
    """A request whose reply is due."""

    __slots__ = ("api_key", "correlation_id", "deadline", "decode", "future", "sent", "version")

    def __init__(
        self,
        correlation_id: int,
        api_key: int,
        version: int,
        sent: float,
        deadline: float,
        decode: Decode,
        future: Any,
    ) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.version = version
        self.sent = sent  # not by the loop's clock: uvloop's stands still for a turn
        self.deadline = deadline
        self.decode = decode
        self.future: asyncio.Future[Any] = future


class FinalisedFeatures(NamedTuple):
    """The features of a cluster as a broker named them when it was connected to; a higher epoch is newer."""

    epoch: int
    levels: Mapping[str, int]


NO_FEATURES: Final = FinalisedFeatures(-1, {})


class Connector(Protocol):
    """Opens connections of one security protocol.

    `NetworkClient` is given one. A protocol that needs a handshake of its own on top (SASL) does it in `authenticate`,
    after the versions are known and before anything else.
    """

    async def connect(self, connection: "BrokerConnection", host: str, port: int) -> None:
        """Open a transport to `host:port` for `connection`, whose `connection_made` has run when this returns."""

    async def authenticate(self, connection: "BrokerConnection") -> None:
        """Authenticate, if the protocol needs it."""


class BrokerConnection(asyncio.BufferedProtocol):
    """A connection to `host:port`. `open` it first; once `is_open` is false again it is of no more use."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        request_timeout_ms: int,
        counters: BrokerCounters | None = None,
        on_reply: Callable[[], None] = lambda: None,
        on_lost: Callable[["BrokerConnection"], None] = lambda _: None,
    ) -> None:
        self.address = address_text(host, port)
        self.host = host
        self.port = port
        self.client_id = client_id
        self.served: dict[int, tuple[int, int]] = {}
        self.features = NO_FEATURES
        self.is_open = False
        self.last_used = 0.0
        self.throttled_until = 0.0
        """The loop's time until which the broker throttles this client (KIP-219)."""
        self.session_ends = float("inf")
        """The loop's time from which on no new request should be sent: the broker ends the session soon after."""
        self._request_timeout_ms = request_timeout_ms
        self._counters = BrokerCounters() if counters is None else counters
        self._on_reply = on_reply
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._reason: ClientError | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._version_cache: dict[type[Message], int] = {}

    @property
    def in_flight(self) -> int:
        """Requests whose replies are due."""
        return len(self._pending)

    async def open(self, connector: Connector, timeout_ms: int) -> None:
        """Connect, learn the versions that the broker serves, authenticate."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await connector.connect(self, self.host, self.port)
                await self._negotiate()
                await connector.authenticate(self)
        except TimeoutError:
            self.abort(None)
            raise BrokerUnavailable(self.address, f"no connection within {timeout_ms} ms") from None
        except OSError as error:
            self.abort(None)
            raise BrokerUnavailable(self.address, _reason(error)) from error
        except BaseException:
            self.abort(None)
            raise
        self.is_open = self._reason is None
        if not self.is_open:
            raise ConnectionLost(self.address, "closed by the broker after the handshake")

    def version_of(self, request: type[Message], at_most: int | None = None) -> int:
        """The highest version of `request` that both sides speak."""
        version = self._version_cache.get(request)
        if version is None or (at_most is not None and version > at_most):
            version = common_version(request, self.served, self.address, at_most)
            if at_most is None:
                self._version_cache[request] = version
        return version

    def send(
        self,
        request: Message,
        response: type[Response],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> "asyncio.Future[Response]":
        """Write `request` now; the future is its reply, or fails with ConnectionLost."""
        version = self.version_of(type(request), at_most)
        return self._send(request, version, response.decode, timeout_ms)

    def send_frame(
        self,
        parts: Sequence[Buffer],
        api_key: int,
        version: int,
        correlation_id: int,
        decode: Decode,
        timeout_ms: int | None = None,
    ) -> "asyncio.Future[Any]":
        """Write a frame that the caller has encoded with a number from `next_correlation_id`."""
        future = self._expect(correlation_id, api_key, version, decode, timeout_ms)
        self._live_transport().writelines(parts)
        self._counters.bytes_sent += sum(map(len, parts))
        return future

    def send_frame_without_reply(self, parts: Sequence[Buffer]) -> None:
        """Write a frame that the broker will not answer: Produce with acks=0."""
        self._live_transport().writelines(parts)
        self._counters.requests += 1
        self._counters.bytes_sent += sum(map(len, parts))
        self.last_used = self._loop.time()

    def next_correlation_id(self) -> int:
        """The number of the next frame; frames must be sent in the order of their numbers."""
        self._correlation_id = correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        return correlation_id

    def limit_session(self, lifetime_ms: int) -> None:
        """The broker wants another authentication after this time; 0 for never (KIP-368)."""
        if lifetime_ms > 0:
            self.session_ends = self._loop.time() + lifetime_ms / 1000 * _SESSION_SHARE

    @property
    def is_expiring(self) -> bool:
        """Whether the session is about to end: nothing new should be sent."""
        return self._loop.time() >= self.session_ends

    def abort(self, reason: ClientError | None) -> None:
        """Drop the connection now. Requests still open fail with `reason`."""
        if self._reason is None:
            self._reason = reason or ConnectionLost(self.address, "closed by this client")
        if self._transport is not None:
            self._transport.abort()
        self._end()

    async def wait_closed(self) -> None:
        """Return when the socket is closed."""
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does what one does, without being one
        if self._reason is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._counters.bytes_received += nbytes
        try:
            for frame in self._reader.advance(nbytes):
                self._accept(frame)
        except WireError as error:
            self.abort(InvalidReply(f"{self.address}: {error}"))
        except ClientError as error:
            self.abort(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reason is None:
            self._reason = self._why_lost(exc)
        self._transport = None
        if not self._closed.done():
            self._closed.set_result(None)
        self._end()

    def _why_lost(self, exc: Exception | None) -> ClientError:
        if isinstance(exc, ssl.SSLError) and not self.is_open:
            # With TLS 1.3 a broker rejects a client's certificate when the handshake is over for the client.
            return AuthenticationFailed(self.address, tls_failure(exc))
        if not self.served and (exc is None or isinstance(exc, ConnectionError)):
            return ConnectionLost(self.address, "closed by the broker without a reply; check security.protocol")
        if isinstance(exc, OSError):
            return ConnectionLost(self.address, _reason(exc))
        return ConnectionLost(self.address, "closed by the broker")

    # Requests and replies.

    def _send(self, request: Message, version: int, decode: Decode, timeout_ms: int | None) -> "asyncio.Future[Any]":
        body = request.encode(version)
        correlation_id = self.next_correlation_id()
        future = self._expect(correlation_id, request.api_key, version, decode, timeout_ms)
        frame = encode_request(request.api_key, version, correlation_id, self.client_id, body)
        self._live_transport().write(frame)
        self._counters.bytes_sent += len(frame)
        return future

    def _expect(
        self, correlation_id: int, api_key: int, version: int, decode: Decode, timeout_ms: int | None
    ) -> "asyncio.Future[Any]":
        self._live_transport()
        self.last_used = now = self._loop.time()
        deadline = now + (self._request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        future = self._loop.create_future()
        self._pending.append(_Pending(correlation_id, api_key, version, perf_counter(), deadline, decode, future))
        self._counters.requests += 1
        if self._timer is None or deadline < self._timer.when():
            self._arm(deadline)
        return future

    def _accept(self, frame: bytes | memoryview) -> None:
        (correlation_id,) = _unpack_correlation_id(frame)
        pending = self._pending.popleft() if self._pending else None
        if pending is None or pending.correlation_id != correlation_id:
            due = "none" if pending is None else pending.correlation_id
            if pending is not None:
                self._pending.appendleft(pending)
            raise InvalidReply(f"{self.address} sent a reply to request {correlation_id}; the next due is {due}")
        self._counters.replied(pending.api_key, perf_counter() - pending.sent)
        future = pending.future
        if future.done():
            self._on_reply()
            return
        try:
            body = response_body_offset(pending.api_key, pending.version, frame)
            reply = pending.decode(frame, pending.version, body)
        except WireError as error:
            self._pending.appendleft(pending)
            name = name_of_api(pending.api_key)
            raise InvalidReply(f"{self.address} sent an invalid reply to {name} v{pending.version}: {error}") from error
        throttle_ms = getattr(reply, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_until = self._loop.time() + throttle_ms / 1000
        future.set_result(reply)
        self._on_reply()

    def _live_transport(self) -> asyncio.Transport:
        if self._transport is None or self._reason is not None:
            raise self._reason or ConnectionLost(self.address, "not open")
        return self._transport

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """One timer for all requests: it fires when the earliest may be late, and is set again if none is."""
        self._timer = None
        if not self._pending:
            return
        earliest = min(self._pending, key=lambda pending: pending.deadline)
        if earliest.deadline > self._loop.time():
            self._arm(earliest.deadline)
            return
        name = name_of_api(earliest.api_key)
        self.abort(ConnectionLost(self.address, f"no reply to {name} in time"))

    def _end(self) -> None:
        """Fail open requests and notify the owner, once."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.future.done():
                each.future.set_exception(self._reason or ConnectionLost(self.address, "closed"))
                # The caller may have been cancelled; that alone is not an error.
                each.future.exception()
        on_lost, self._on_lost = self._on_lost, lambda _: None
        on_lost(self)

    async def _negotiate(self) -> None:
        """Ask with our highest version; a broker that does not know it answers in version 0 with what it does know."""
        answer = await self._ask_versions(ApiVersionsRequest.versions[1])
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = {api.api_key: api.max_version for api in answer.api_keys}
            answer = await self._ask_versions(theirs.get(ApiKey.API_VERSIONS, 0))
        if answer.error_code != ErrorCode.NONE:
            raise UnsupportedByBroker(f"{self.address} rejected ApiVersions with error {answer.error_code}")
        self.served = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        self.features = FinalisedFeatures(answer.finalized_features_epoch, levels)

    async def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
        answer: ApiVersionsResponse = await self._send(request, version, _decode_versions, None)
        return answer


def common_version(
    request: type[Message], served: dict[int, tuple[int, int]], address: str, at_most: int | None = None
) -> int:
    """The highest version of `request` that we and a broker that serves `served` speak."""
    name = request.__name__.removesuffix("Request")
    if request.api_key not in served:
        raise UnsupportedByBroker(f"the broker at {address} does not support {name} (api key {request.api_key})")
    lowest_theirs, highest_theirs = served[request.api_key]
    lowest_ours, highest_ours = request.versions
    version = min(highest_ours, highest_theirs, highest_ours if at_most is None else at_most)
    if version < max(lowest_ours, lowest_theirs):
        raise UnsupportedByBroker(
            f"no common version of {name}: the broker at {address} supports "
            f"{lowest_theirs}-{highest_theirs}, this client supports {lowest_ours}-{highest_ours}"
        )
    return version


def _decode_versions(frame: Buffer, version: int, position: int) -> ApiVersionsResponse:
    if len(frame) < position + 2:
        raise WireError("the reply to ApiVersions is incomplete")
    (error_code,) = _unpack_error(frame, position)
    return ApiVersionsResponse.decode(frame, 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version, position)


def _reason(error: OSError) -> str:
    """The words of an OS error without its number: `Connection refused`, `timed out`."""
    return error.strerror or str(error) or type(error).__name__
