"""From a frame to its handler and back: the one place where bytes become calls and errors become replies.

Called by connections for every frame. A request that cannot be parsed closes its own connection and no other; a
handler that fails by a defect of the broker is logged and answered with UNKNOWN_SERVER_ERROR, if the response has a
field for it.

Order. The requests of one connection take effect in the order in which they came. A request that is not over when its
handler returns a coroutine, because its work is long or waits for a thread, mutes its connection: the next one begins
when it is done. Requests that have taken effect and only wait (for a commit, for records, for other members) mute
nothing. Records that an earlier request staged are written before a later one of the same connection looks.

Long work. Large requests are read, and the replies of long work written, in slices (`tidelog.broker.runtime.slices`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from struct import Struct, error
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.coordinators.replies import Reply
from tidelog.broker.metadata_errors import storage_error
from tidelog.broker.requests.hooks import Countdowns, RequestHooks, Throttle
from tidelog.broker.requests.routes import REQUEST_BYTES_MAX, Route, request_name
from tidelog.broker.security.demands import ON_CLUSTER
from tidelog.broker.serving.context import ClientLeft, Context
from tidelog.metadata.errors import StoreUnavailableError
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.security.acls import AclResourceType
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.primitives import skip_tagged_fields
from tidelog.wire.schema import Message, elements_in_slices

if TYPE_CHECKING:
    from tidelog.broker.serving.node import Node
    from tidelog.network.connection import Connection, Slot

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

_DECODED_AT_ONCE_BYTES_MAX: Final = 16 << 10
"""A request of one-byte elements that is as large takes some milliseconds to read."""

_RELEASED_AT_ONCE_BYTES_MAX: Final = 64 << 10
"""The objects of a reply that is as large are given back in a few milliseconds."""

_DROPPED_AT_ONCE: Final = 500

_LARGE_REQUESTS_MAX: Final = 4
"""So many large requests are held decoded at once: objects take many times the memory of their bytes."""

_BLIND_TO_LOGS: Final = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT})
"""Requests that read nothing which another request may have staged: what they see of a coordinator is replayed."""

_unpack_header: Final = Struct(">hhih").unpack_from


class Dispatcher:
    """Owns the route table of one broker."""

    def __init__(self, routes: Mapping[int, Route], hooks: RequestHooks | None = None) -> None:
        self.routes = routes
        self._node: Node
        self._countdowns: Countdowns | None = None
        self._hooks: RequestHooks | None = None
        """Set only if there is more to do than to count: a request that is only counted need not look further."""
        self.hooks = RequestHooks()
        """Called for every request; `set_hooks` replaces them at any time."""
        self.set_hooks(hooks or self.hooks)
        self._large = asyncio.Semaphore(_LARGE_REQUESTS_MAX)

    def attach(self, node: Node) -> None:
        """Hand the requests to this node, before the first of them comes."""
        self._node = node

    def set_hooks(self, hooks: RequestHooks) -> None:
        """Call these for every request from now on."""
        self.hooks = hooks
        self._countdowns = hooks.countdowns
        self._hooks = hooks if hooks.throttle is not None or hooks.is_logged else None

    def charge(self, throttle: Throttle | None) -> None:
        """Have every request charged to its client from now on, or none."""
        self.set_hooks(replace(self.hooks, throttle=throttle))

    def request_limit(self, api_key: int) -> int:
        """How many bytes a request of an API may have; what is not served is not read either."""
        route = self.routes.get(api_key)
        return REQUEST_BYTES_MAX if route is None else route.request_bytes_max

    def dispatch(self, connection: Connection, slot: Slot, data: bytearray | memoryview, start: int, stop: int) -> None:
        """Handle the request in `data[start:stop]`; its reply goes to `slot`."""
        route: Route | None = None
        try:
            api_key, version, correlation_id, client_id_bytes = _unpack_header(data, start)
            route = self.routes.get(api_key)
            if route is None or not route.min_version <= version <= route.max_version:
                self._answer_unsupported(connection, slot, api_key, version, correlation_id)
                return
            countdowns = self._countdowns
            if countdowns is not None:
                countdown = countdowns[api_key]
                countdown[version] = left = countdown[version] - 1
                if not left and self.hooks.time is not None:
                    self.hooks.time(slot, route, version)
            hooks = self._hooks
            if hooks is not None:
                if client_id_bytes >= 0:
                    connection.session.client_id = str(data[start + 10 : start + 10 + client_id_bytes], "utf-8")
                if hooks.throttle is not None:
                    hooks.throttle(connection, api_key, stop - start)
            if api_key not in _BLIND_TO_LOGS and len(connection.slots) > 1:
                # An earlier request of this connection may have staged records that this one has to see.
                self._node.replica_manager.write_staged()
            if route.handle is None and route.handle_bytes is None:
                self._load(route)
            handle_bytes = route.handle_bytes
            if handle_bytes is None or stop - start > route.handled_as_bytes_max:
                self._handle_message(route, slot, data, start, stop, version)
                return
            position = start + 10 + (client_id_bytes if client_id_bytes > 0 else 0)
            if version >= route.flexible_from:
                position = skip_tagged_fields(data, position, stop) if data[position] else position + 1
            handle_bytes(self._node, slot, data, position, stop, version, correlation_id)
        except Exception as cause:  # noqa: BLE001 - a defect of one request must not end others
            _fail(slot, "a request" if route is None else route.api_key.name, cause)

    def _load(self, route: Route) -> None:
        route.load()
        if self._node.access is not None and route.handle is not None and not route.checks_access_in_bytes:
            # What a client may do is decided where requests are messages, unless a hot path does it itself.
            route.handled_as_bytes_max = -1

    def _answer_unsupported(
        self, connection: Connection, slot: Slot, api_key: int, version: int, correlation_id: int
    ) -> None:
        """An unknown version of ApiVersions is answered in version 0 with our range; everything else ends here."""
        if api_key == ApiKey.API_VERSIONS:
            slot.fill(encode_response(api_key, 0, correlation_id, self.routes[api_key].refuse_version()))
            return
        logger.warning("closing %s: it asked for API %d in version %d", connection.address, api_key, version)
        slot.close_connection()

    def _handle_message(
        self, route: Route, slot: Slot, data: bytearray | memoryview, start: int, stop: int, version: int
    ) -> None:
        if stop - start > route.request_bytes_max:
            raise WireError(f"{route.api_key.name} of {stop - start} bytes is larger than {route.request_bytes_max}")
        header = parse_request_header(data, start)
        if header.body_offset > stop:
            raise WireError(f"the header ends {header.body_offset - stop} bytes beyond the request")
        context = Context(self._node, slot, route, version, header.correlation_id, header.client_id)
        context.session.client_id = header.client_id
        body = memoryview(data)[header.body_offset : stop]
        if len(body) > _DECODED_AT_ONCE_BYTES_MAX:
            self._start(context, self._serve_large(context, body))
            return
        response = self._handle(context, route.request_class.decode(body, version))
        if type(response) is Reply:
            self._answer_later(context, response)
        elif isinstance(response, Coroutine):
            self._start(context, self._serve(context, response))
        else:
            self._answer(context, response)

    def _handle(self, context: Context, request: Message) -> Any:
        """What the handler returns; what it raises as a response."""
        route = context.route
        assert route.handle is not None, "a loaded route can handle"
        try:
            if (operation := ON_CLUSTER.get(route.api_key)) is not None:
                context.check_allowed(operation, AclResourceType.CLUSTER)
            return route.handle(request, context)
        except Exception as cause:  # noqa: BLE001 - every error becomes a response here
            return self._error_response(route, cause)

    # --- requests whose work is not over when the handler returns ---

    def _start(self, context: Context, work: Coroutine[Any, Any, bytes | Reply[Message]]) -> None:
        """Begin work; if it is not over then, the connection's next request waits for it."""
        slot = context.slot
        if not self._node.slices.start(work, partial(self._on_served, context), partial(self._on_failed, context)):
            slot.connection.mute()
            slot.park()

    async def _serve_large(self, context: Context, body: memoryview) -> bytes | Reply[Message]:
        """Read a large request, then serve it."""
        async with self._large:
            route = context.route
            request = await self._node.slices.run(
                route.request_class.decode_in_slices(body, context.api_version, route.elements_max)
            )
            body.release()
            elements: list[Any] = []
            await self._node.slices.run(elements_in_slices(request, elements))
            work = self._handle(context, request)
            del request
            try:
                return await self._serve(context, work)
            finally:
                self._let_go(elements)

    async def _serve(self, context: Context, response: Any) -> bytes | Reply[Message]:
        """The reply as bytes, or one that comes later."""
        if isinstance(response, Coroutine):
            try:
                response = await response
            except ClientLeft:
                raise
            except Exception as cause:  # noqa: BLE001 - every error becomes a response here
                response = self._error_response(context.route, cause)
        if type(response) is Reply:
            return response
        _note(context, response)
        body = await self._node.slices.run(response.encode_in_slices(context.api_version))
        if len(body) > _RELEASED_AT_ONCE_BYTES_MAX:
            elements: list[Any] = []
            await self._node.slices.run(elements_in_slices(response, elements))
            del response
            self._let_go(elements)
            await self._node.slices.pause()
        return encode_response(context.route.api_key, context.api_version, context.correlation_id, body)

    def _let_go(self, elements: list[Any]) -> None:
        """Drop the elements of a large request or response in slices."""

        async def drop() -> None:
            while elements:
                del elements[-_DROPPED_AT_ONCE:]
                await self._node.slices.pause()

        self._node.slices.start(drop(), _ignore, _ignore)

    def _on_served(self, context: Context, reply: bytes | Reply[Message]) -> None:
        slot = context.slot
        try:
            if isinstance(reply, Reply):
                self._answer_later(context, reply)
            else:
                _fill(slot, reply)
            slot.connection.unmute()
        except Exception as cause:  # noqa: BLE001 - a defect of one request must not end others
            _fail(slot, context.route.api_key.name, cause)

    def _on_failed(self, context: Context, cause: Exception) -> None:
        if not isinstance(cause, ClientLeft):
            _fail(context.slot, context.route.api_key.name, cause)

    # --- answers ---

    def _answer_later(self, context: Context, reply: Reply[Message]) -> None:
        """Answer when a coordinator does. The request has taken effect, unless its reply says otherwise."""
        if reply.is_there:
            self._answer_with(context, reply)
            return
        reply.then(partial(self._answer_with, context))
        if reply.has_effect_pending:
            context.slot.connection.mute()
        # It may wait for long, a JoinGroup for all other members: it must not occupy the request channel.
        context.slot.park()

    def _answer_with(self, context: Context, reply: Reply[Message]) -> None:
        """Respond while another request is carried out, which an error in this response must not affect."""
        try:
            try:
                message = reply.response()
            except Exception as cause:  # noqa: BLE001 - every error becomes a response here
                message = self._error_response(context.route, cause)
            self._answer(context, message)
            if reply.has_effect_pending:
                context.slot.connection.unmute()
        except Exception as cause:  # noqa: BLE001 - a defect of one request must not end others
            _fail(context.slot, context.route.api_key.name, cause)

    @staticmethod
    def _answer(context: Context, response: Message) -> None:
        version = context.api_version
        _note(context, response)
        _fill(
            context.slot,
            encode_response(context.route.api_key, version, context.correlation_id, response.encode(version)),
        )

    def _error_response(self, route: Route, cause: Exception) -> Message:
        """The response that carries an error for the whole request."""
        if isinstance(cause, LogDirFailure):
            self._node.replica_manager.fail_log_dir(cause)
            cause = cause.for_client()
        elif isinstance(cause, StoreUnavailableError):
            cause = storage_error(cause)
        elif not isinstance(cause, ApiError):
            logger.error("%s failed", route.api_key.name, exc_info=cause)
            cause = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        response: Any = route.response_class()
        if not hasattr(response, "error_code"):
            raise cause
        response.error_code = cause.code
        if hasattr(response, "error_message"):
            response.error_message = cause.message
        return response  # type: ignore[no-any-return]


def _note(context: Context, response: Any) -> None:
    """Put into a response how long its client has to wait, if it exceeds a quota, and count its error."""
    traffic = context.node.replica_manager.traffic
    if traffic is not None and getattr(response, "error_code", False):
        traffic.count_error(request_name(context.route.api_key).removesuffix("Request"), response.error_code)
    throttle_ms = context.slot.connection.throttle_ms
    if throttle_ms and "throttle_time_ms" in type(response).fields:
        response.throttle_time_ms = throttle_ms


def _ignore(_outcome: object) -> None:
    return


def _fill(slot: Slot, reply: bytes) -> None:
    slot.connection.hold(len(reply))
    slot.fill(reply)


def _fail(slot: Slot, api: str, cause: Exception) -> None:
    """A request that cannot be answered closes its own connection; the log names the cause."""
    connection = slot.connection
    if isinstance(cause, (WireError, error, IndexError)):
        logger.warning("closing %s: it sent a request that cannot be read: %s", connection.address, cause)
        slot.close_connection()
    elif isinstance(cause, ApiError):
        logger.warning("closing %s: its response has no field for an error: %s", connection.address, cause)
        slot.close_connection()
    else:
        slot.fail(api, cause)
