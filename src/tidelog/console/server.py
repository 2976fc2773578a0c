"""Serves the console with uvicorn until SIGTERM, SIGINT, or the end of the process that started it."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from tidelog.console.app import build_app
from tidelog.console.settings import ConsoleError, ConsoleSettings, Listen

NICENESS = 10


class _Server(uvicorn.Server):
    """A server that reports the address it listens on."""

    def __init__(self, app: Starlette, config: uvicorn.Config, on_ready: Callable[[Listen], None]) -> None:
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop in order at SIGTERM and SIGINT, with exit code 0; uvicorn would end by the signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        yield

    def _stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and report where."""
        await super().startup(sockets=sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_ready(Listen(host, port))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the responses that would not end by themselves, then all others."""
        await self._app.state.console.tails.close()
        await super().shutdown(sockets=sockets)


def run(settings: ConsoleSettings, on_ready: Callable[[Listen], None], *, ends_with_stdin: bool = False) -> None:
    """Serve. With `ends_with_stdin` the console also ends when its standard input does: with its parent."""
    app = build_app(settings)
    server = _Server(
        app,
        uvicorn.Config(
            app,
            host=settings.listen.host,
            port=settings.listen.port,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=2,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        ),
        on_ready,
    )
    try:
        asyncio.run(_serve(server, ends_with_stdin))
    except SystemExit:
        # uvicorn has logged why it could not listen.
        raise ConsoleError(f"--listen {settings.listen}: the console cannot listen there") from None


async def _serve(server: uvicorn.Server, ends_with_stdin: bool) -> None:
    if ends_with_stdin:
        # It shares the machine with the broker that started it, which goes first.
        os.nice(NICENESS)
        loop = asyncio.get_running_loop()

        def on_input() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                loop.remove_reader(sys.stdin.fileno())
                server.should_exit = True

        loop.add_reader(sys.stdin.fileno(), on_input)
    await server.serve()
