"""An HTTP endpoint at which a registry's page is read, on an event loop that has other work to do.

The page is made in pieces, with a pause after each; `pause` decides whether other work comes in between. One page is
made at a time: scrapers that come together wait for each other. Connections are few, limited in time, and closed when
they send anything but small GET requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from threading import Event, Thread
from typing import Final, Self

from tidelog.metrics.exposition import CONTENT_TYPE_OPENMETRICS, CONTENT_TYPE_TEXT
from tidelog.metrics.http import (
    HEAD_BYTES_MAX,
    HttpError,
    Request,
    accepts_openmetrics,
    parse_request,
    response_head,
)
from tidelog.metrics.registry import Registry

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 16
_IDLE_SECONDS: Final = 60.0
"""Longer than the interval at which most scrapers come."""
_SEND_SECONDS: Final = 30.0
_INDEX: Final = b"Metrics are at /metrics.\n"


async def _next_turn() -> None:
    await asyncio.sleep(0)


class MetricsEndpoint:
    """Serves the pages of one registry."""

    def __init__(self, registry: Registry, pause: Callable[[], Awaitable[None]] = _next_turn) -> None:
        self._registry = registry
        self._pause = pause
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._making = asyncio.Lock()

    async def listen(self, host: str, port: int) -> int:
        """Serve at an address; the port, which the system chooses if `port` is 0. Raises OSError."""
        server = await asyncio.start_server(self._accept, host or None, port, limit=HEAD_BYTES_MAX)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening, and end the connections."""
        for server in self._servers:
            server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "streams call this in a task"
        self._connections.add(task)
        try:
            if len(self._connections) > CONNECTIONS_MAX:
                await self._send(writer, _error(503, f"{CONNECTIONS_MAX} connections are open already"))
            else:
                await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client left, or was too slow
        except asyncio.CancelledError:
            pass  # the endpoint is closed
        except Exception:
            logger.exception("a request for metrics failed")
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other."""
        is_last = False
        while not is_last:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                request = parse_request(head)
            except asyncio.LimitOverrunError:
                await self._send(writer, _error(431, f"the head of a request may have {HEAD_BYTES_MAX} bytes"))
                return
            except HttpError as error:
                await self._send(writer, _error(error.status, error.text))
                return
            is_last = request.is_last
            await self._send(writer, await self._respond(request))

    async def _respond(self, request: Request) -> list[bytes]:
        """Head and body of the response."""
        is_last = request.is_last
        if request.method not in ("GET", "HEAD"):
            pieces = _error(405, f"{request.method} is not served, only GET and HEAD are", is_last=is_last)
        elif request.path == "/":
            pieces = [response_head(200, len(_INDEX), is_last=is_last), _INDEX]
        elif request.path != "/metrics":
            pieces = _error(404, "there is nothing here; metrics are at /metrics", is_last=is_last)
        else:
            pieces = await self._page(request)
        return pieces[:1] if request.method == "HEAD" else pieces

    async def _page(self, request: Request) -> list[bytes]:
        openmetrics = accepts_openmetrics(request.accept)
        pieces: list[bytes] = []
        try:
            async with self._making:
                for piece in self._registry.exposition_pieces(openmetrics):
                    pieces.append(piece)
                    await self._pause()
        except Exception:
            logger.exception("a page of metrics cannot be made")
            return _error(500, "a metric cannot be read; the log has the reason", is_last=request.is_last)
        content_type = CONTENT_TYPE_OPENMETRICS if openmetrics else CONTENT_TYPE_TEXT
        return [response_head(200, sum(map(len, pieces)), content_type, is_last=request.is_last), *pieces]

    async def _send(self, writer: asyncio.StreamWriter, pieces: list[bytes]) -> None:
        async with asyncio.timeout(_SEND_SECONDS):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            # What is left is sent before the connection may be aborted.
            writer.transport.set_write_buffer_limits(0)
            await writer.drain()
            writer.transport.set_write_buffer_limits()


def _error(status: int, text: str, *, is_last: bool = True) -> list[bytes]:
    body = f"{text}\n".encode()
    return [response_head(status, len(body), is_last=is_last), body]


class MetricsServer:
    """The same on a thread of its own, for programs without an event loop. Collectors run on that thread.

    with MetricsServer(registry, port=9404) as server:
        print(server.url)
    """

    def __init__(self, registry: Registry, host: str = "127.0.0.1", port: int = 0) -> None:
        """Port 0 is any free port. Raises OSError when the address cannot be had."""
        self._registry = registry
        self._host, self.port = host, port
        self._error: OSError | None = None
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._is_started = Event()
        self._thread = Thread(target=self._run, name="tidelog-metrics", daemon=True)
        self._thread.start()
        self._is_started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host or "localhost"
        return f"http://{host}:{self.port}/metrics"

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        endpoint = MetricsEndpoint(self._registry)
        self._stop = asyncio.Event()
        try:
            self.port = await endpoint.listen(self._host, self.port)
        except OSError as error:
            self._error = error
            return
        finally:
            self._is_started.set()
        await self._stop.wait()
        await endpoint.close()

    def close(self) -> None:
        """Stop serving."""
        if self._thread.is_alive() and self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed already
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
