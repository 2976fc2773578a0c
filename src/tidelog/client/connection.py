"""One socket to one broker: versions negotiated once, requests pipelined, replies in order.

`ClusterClient` keeps one of these per broker. `send` is one request and its reply; `write` and `read` are the two
halves for those who keep several requests under way. A connection that raised `ConnectionLost`
is closed.
"""

import socket
import struct
import time
from collections import deque
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from tidelog import __version__
from tidelog.client.errors import BrokerUnavailable, ConnectionLost, InvalidReply, UnsupportedByBroker
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.schema import Message

DEFAULT_CLIENT_ID = "tidelog"
DEFAULT_TIMEOUT_S = 30.0

# A web server's "HTTP" or a TLS alert, read as a length, is above this; no reply we ask for is.
_REPLY_BYTES_MAX = 256 * 1024 * 1024
_READ_BYTES = 1024 * 1024
_ROOM_BYTES_MAX = 16 * 1024 * 1024

_unpack_length = Struct(">i").unpack_from
_unpack_error = Struct(">h").unpack_from


Answer = TypeVar("Answer", bound=Message)


class _Pending(NamedTuple):
    correlation_id: int
    api_key: int
    version: int


class Connection:
    """A connection to `host:port`, opened and negotiated by the first use or by `open`."""

    def __init__(
        self, host: str, port: int, client_id: str = DEFAULT_CLIENT_ID, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.served: dict[int, tuple[int, int]] = {}
        self._socket: socket.socket | None = None
        self._pending: deque[_Pending] = deque()
        self._correlation_id = 0
        self._room = bytearray()

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether requests can be written without connecting first."""
        return self._socket is not None

    @property
    def pending(self) -> int:
        """Requests written whose replies were not read yet."""
        return len(self._pending)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect and learn which versions the broker serves."""
        if self._socket is not None:
            return
        try:
            sock = socket.create_connection((self.host, self.port), self.timeout_s)
        except OSError as error:
            raise BrokerUnavailable(
                self.address, _reason(error), "check bootstrap.servers or --bootstrap-server"
            ) from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._pending.clear()
        self._negotiate()

    def close(self) -> None:
        """Close the socket; replies still due are gone."""
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def version_of(self, request: type[Message], at_most: int | None = None) -> int:
        """The highest version of `request` that both sides speak."""
        name = request.__name__.removesuffix("Request")
        if request.api_key not in self.served:
            raise UnsupportedByBroker(f"the broker at {self.address} does not serve {name} (api key {request.api_key})")
        lowest_theirs, highest_theirs = self.served[request.api_key]
        lowest_ours, highest_ours = request.versions
        version = min(highest_ours, highest_theirs, highest_ours if at_most is None else at_most)
        if version < max(lowest_ours, lowest_theirs):
            raise UnsupportedByBroker(
                f"no common version of {name}: the broker at {self.address} serves "
                f"{lowest_theirs}-{highest_theirs}, this client speaks {lowest_ours}-{highest_ours}"
            )
        return version

    def send(self, request: Message, answer: type[Answer], *, at_most: int | None = None) -> Answer:
        """Send `request` in the highest common version and return its reply."""
        self.write(request, at_most=at_most)
        return self.read(answer)

    def write(self, request: Message, *, at_most: int | None = None, expect_reply: bool = True) -> None:
        """Send `request` and return at once. Its reply is read by a later `read`, in the order of the writes."""
        self.open()
        version = self.version_of(type(request), at_most)
        self._write(request.api_key, version, request.encode(version), expect_reply)

    def read(self, answer: type[Answer]) -> Answer:
        """The reply to the oldest request that has none yet."""
        version, reply, body = self.read_raw()
        try:
            return answer.decode(reply, version, body)
        except WireError as error:
            self.close()
            raise InvalidReply(
                f"{self.address} answered {answer.__name__} version {version} wrongly: {error}"
            ) from error

    def read_raw(self, *, is_passing: bool = False) -> tuple[int, bytearray | memoryview, int]:
        """The oldest reply due: its version, its frame without the length, and where the body begins.

        One that `is_passing` is gone when the next such is read: it is kept in memory that is used again, because
        pages that are new to a process cost it more than what is read into them.
        """
        assert self._pending, "a reply was read that no request asked for"
        pending = self._pending.popleft()
        deadline = time.monotonic() + self.timeout_s
        (length,) = _unpack_length(self._receive(4, deadline))
        if not 4 <= length <= _REPLY_BYTES_MAX:
            self.close()
            raise InvalidReply(
                f"{self.address} announced a reply of {length} bytes; is that a Kafka listener without TLS?"
            )
        reply = self._receive_passing(length, deadline) if is_passing else self._receive(length, deadline)
        (correlation_id,) = _unpack_length(reply)
        if correlation_id != pending.correlation_id:
            self.close()
            raise InvalidReply(f"{self.address} answered request {correlation_id}, {pending.correlation_id} was due")
        try:
            return pending.version, reply, response_body_offset(pending.api_key, pending.version, reply)
        except WireError as error:
            self.close()
            raise InvalidReply(f"{self.address} answered with a malformed header: {error}") from error

    def _write(self, api_key: int, version: int, body: bytes, expect_reply: bool = True) -> None:
        self._correlation_id = correlation_id = self._correlation_id + 1 & 0x7FFFFFFF
        frame = encode_request(api_key, version, correlation_id, self.client_id, body)
        sock = self._live_socket()
        try:
            sock.settimeout(self.timeout_s)
            sock.sendall(frame)
        except OSError as error:
            self.close()
            raise ConnectionLost(self.address, _reason(error)) from error
        if expect_reply:
            self._pending.append(_Pending(correlation_id, api_key, version))

    def _receive(self, count: int, deadline: float) -> bytearray:
        received = bytearray()
        while (filled := len(received)) < count:
            # The buffer grows with what arrives, so that a wrong length costs little.
            received += bytes(min(max(filled, _READ_BYTES), count - filled))
            with memoryview(received) as view, view[filled:] as rest:
                self._fill(rest, deadline)
        return received

    def _receive_passing(self, count: int, deadline: float) -> bytearray | memoryview:
        if count > _ROOM_BYTES_MAX:
            return self._receive(count, deadline)
        if count > len(self._room):
            self._room = bytearray(min(count + count // 4, _ROOM_BYTES_MAX))
        view = memoryview(self._room)[:count]
        self._fill(view, deadline)
        return view

    def _fill(self, room: memoryview, deadline: float) -> None:
        sock = self._live_socket()
        filled = 0
        try:
            while filled < len(room):
                sock.settimeout(max(deadline - time.monotonic(), 0.001))
                with room[filled:] as rest:
                    arrived = sock.recv_into(rest)
                if not arrived:
                    raise ConnectionResetError("closed by the broker")
                filled += arrived
        except OSError as error:
            self.close()
            raise ConnectionLost(self.address, _reason(error)) from error

    def _live_socket(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionLost(self.address, "already closed")
        return self._socket

    def _negotiate(self) -> None:
        """Ask with our highest version; a broker that does not know it answers in version 0 with what it does know."""
        try:
            answer = self._ask_versions(ApiVersionsRequest.versions[1])
            if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
                theirs = {api.api_key: api.max_version for api in answer.api_keys}
                answer = self._ask_versions(theirs.get(ApiKey.API_VERSIONS, 0))
        except BaseException:
            self.close()
            raise
        if answer.error_code != ErrorCode.NONE:
            self.close()
            raise UnsupportedByBroker(f"{self.address} refused ApiVersions with error {answer.error_code}")
        self.served = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
        self._write(ApiKey.API_VERSIONS, version, request.encode(version))
        _, reply, body = self.read_raw()
        try:
            (error_code,) = _unpack_error(reply, body)
            return ApiVersionsResponse.decode(
                reply, 0 if error_code == ErrorCode.UNSUPPORTED_VERSION else version, body
            )
        except (WireError, struct.error) as error:
            raise InvalidReply(f"{self.address} does not answer as a Kafka broker: {error}") from error


def _reason(error: OSError) -> str:
    """The words of an OS error without its number: `Connection refused`, `timed out`."""
    return error.strerror or str(error) or type(error).__name__
