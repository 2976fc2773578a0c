"""From a frame to its handler and back: the one place where bytes become calls and errors become replies.

Called by connections for every frame. A request that cannot be understood costs its own connection and nothing else; a
handler that fails by a mistake of ours is logged and answered with UNKNOWN_SERVER_ERROR where the response has room for
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from struct import Struct, error
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.context import Context
from tidelog.broker.coordinators import Reply
from tidelog.broker.metadata_errors import storage_error
from tidelog.broker.routes import Message, Route, request_name
from tidelog.metadata.errors import StoreUnavailableError
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.primitives import skip_tagged_fields

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Connection, Slot

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

_unpack_header: Final = Struct(">hhih").unpack_from


class Dispatcher:
    """Owns the route table of one node and the tasks of handlers that answer later."""

    def __init__(self, node: Node, routes: Mapping[int, Route]) -> None:
        self.routes = routes
        self._node = node
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatch(self, connection: Connection, slot: Slot, data: bytearray, start: int, stop: int) -> None:
        """Handle the request in `data[start:stop]`; its reply goes to `slot`."""
        try:
            api_key, version, correlation_id, client_id_bytes = _unpack_header(data, start)
            route = self.routes.get(api_key)
            if route is None or not route.min_version <= version <= route.max_version:
                self._answer_unsupported(connection, slot, api_key, version, correlation_id)
                return
            if route.handle is None and route.handle_bytes is None:
                route.load()
            handle_bytes = route.handle_bytes
            if handle_bytes is None:
                self._handle_message(route, slot, data, start, stop, version)
                return
            position = start + 10 + (client_id_bytes if client_id_bytes > 0 else 0)
            if version >= route.flexible_from:
                position = skip_tagged_fields(data, position, stop) if data[position] else position + 1
            handle_bytes(self._node, slot, data, position, stop, version, correlation_id)
        except (WireError, error, IndexError) as cause:
            logger.warning("closing %s: it sent a request that cannot be read: %s", connection.address, cause)
            connection.close()
        except ApiError as cause:
            logger.warning("closing %s: its answer has no place for an error: %s", connection.address, cause)
            connection.close()
        except Exception as cause:
            slot.fail(str(api_key) if route is None else route.api_key.name, cause)

    def _answer_unsupported(
        self, connection: Connection, slot: Slot, api_key: int, version: int, correlation_id: int
    ) -> None:
        """An unknown version of ApiVersions is answered in version 0 with our range; everything else ends here."""
        if api_key == ApiKey.API_VERSIONS:
            from tidelog.broker.handlers import api_versions

            body = api_versions.unsupported_version(self.routes[api_key]).encode(0)
            slot.fill(encode_response(api_key, 0, correlation_id, body))
            return
        logger.warning("closing %s: it asked for API %d in version %d", connection.address, api_key, version)
        connection.close()

    def _handle_message(self, route: Route, slot: Slot, data: bytearray, start: int, stop: int, version: int) -> None:
        if stop - start > route.request_bytes_max:
            raise WireError(f"{route.api_key.name} of {stop - start} bytes is larger than {route.request_bytes_max}")
        header = parse_request_header(data, start)
        if header.body_offset > stop:
            raise WireError(f"the header ends {header.body_offset - stop} bytes beyond the request")
        assert route.decode is not None, "a loaded route can decode"
        assert route.handle is not None, "a loaded route can handle"
        body = memoryview(data)[header.body_offset : stop]
        request = route.decode(body, version, 0)  # type: ignore[arg-type]
        context = Context(self._node, slot, version, header.client_id)
        try:
            response = route.handle(request, context)
        except Exception as cause:
            response = self._error_response(route, cause)
        if type(response) is Reply:
            response.then(lambda reply: self._answer_with(route, slot, version, header.correlation_id, reply))
            # It may wait for long, a JoinGroup for all other members: it must not stand in their way.
            slot.park()
            return
        if isinstance(response, Awaitable):
            task = asyncio.get_running_loop().create_task(
                self._answer_later(route, slot, version, header.correlation_id, response)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            slot.park()
            return
        self._answer(route, slot, version, header.correlation_id, response)

    async def _answer_later(
        self, route: Route, slot: Slot, version: int, correlation_id: int, response: Awaitable[Message]
    ) -> None:
        try:
            try:
                message = await response
            except Exception as cause:
                message = self._error_response(route, cause)
            self._answer(route, slot, version, correlation_id, message)
        except Exception as cause:
            slot.fail(route.api_key.name, cause)

    def _answer_with(self, route: Route, slot: Slot, version: int, correlation_id: int, reply: Reply) -> None:
        """Answer while another request is carried out, which no mistake in this answer may disturb."""
        try:
            try:
                message = reply.result()
            except Exception as cause:
                message = self._error_response(route, cause)
            self._answer(route, slot, version, correlation_id, message)
        except Exception as cause:
            slot.fail(route.api_key.name, cause)

    @staticmethod
    def _answer(route: Route, slot: Slot, version: int, correlation_id: int, response: Message) -> None:
        reply = encode_response(route.api_key, version, correlation_id, response.encode(version))
        slot.connection.hold(len(reply))
        slot.fill(reply)

    def _error_response(self, route: Route, cause: Exception) -> Message:
        """The response that carries an error for the whole request."""
        from tidelog.wire import messages

        if isinstance(cause, LogDirFailure):
            self._node.replica_manager.fail_log_dir(cause)
            cause = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(cause))
        elif isinstance(cause, StoreUnavailableError):
            cause = storage_error(cause)
        elif not isinstance(cause, ApiError):
            logger.error("%s failed", route.api_key.name, exc_info=cause)
            cause = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        response_class: Any = getattr(messages, request_name(route.api_key).replace("Request", "Response"))
        response = response_class()
        if not hasattr(response, "error_code"):
            raise cause
        response.error_code = cause.code
        if hasattr(response, "error_message"):
            response.error_message = cause.message
        return response  # type: ignore[no-any-return]

    async def drain(self) -> None:
        """Wait for handlers that are still at work; for shutdown."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
