"""Proxies between brokers, and between brokers and the metadata tree: the network of a cluster under chaos.

Every proxy forwards to one target. A proxy of a broker learns the source of a connection from the client id in its
first request (`broker-2`, `controller-2`). A cut direction holds its bytes back, as a network does that loses packets:
connections stay open, and what was held back arrives when the cut is healed. All proxies run on one event loop, in a
thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from tidelog.testing.zookeeper import HOST

CHUNK_BYTES: Final = 1 << 16
CONNECT_SECONDS: Final = 30.0
_CLIENT_ID: Final = re.compile(rb"(?:broker|controller)-(\d+)")

TREE: Final = 0
"""Stands for the metadata tree where a broker id is expected."""


class Session(NamedTuple):
    """A ZooKeeper session, as it was seen on its way to a broker."""

    session_id: int
    password: bytes


class _Link:
    """One connection through a proxy: its two halves, and whose it is."""

    def __init__(self, source: int | None, target: int) -> None:
        self.source = source
        self.target = target
        self.writers: list[asyncio.StreamWriter] = []

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Network:
    """All proxies of a cluster, and the cuts between its members."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-network", daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []
        self._links: set[_Link] = set()
        self._cuts: dict[tuple[int, int], int] = {}
        self._healed = asyncio.Event()
        self.sessions: dict[int, Session] = {}
        """The last ZooKeeper session of each broker."""

    # --- proxies ---

    def to_broker(self, target: int, port: int) -> int:
        """The port of a proxy of a broker's listener for other brokers."""
        return self._proxy_port(None, target, port)

    def to_zookeeper(self, source: int, port: int) -> int:
        """The port of a broker's own proxy of ZooKeeper."""
        return self._proxy_port(source, TREE, port)

    def to_shared_tree(self, source: int, path: str) -> str:
        """The socket of a broker's own proxy of the tree that `tidelog cluster` serves."""

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_unix_connection(path)

        async def serve() -> asyncio.Server:
            return await asyncio.start_unix_server(self._serving(source, TREE, connect), own)

        own = f"{path}.{source}"
        self._call(self._listen(serve()))
        return own

    def _proxy_port(self, source: int | None, target: int, port: int) -> int:
        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection(HOST, port)

        async def serve() -> asyncio.Server:
            return await asyncio.start_server(self._serving(source, target, connect), HOST, 0)

        return int(self._call(self._listen(serve())).sockets[0].getsockname()[1])

    def close(self) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- faults ---

    def cut(self, source: int, target: int) -> None:
        """Let nothing through from one member to another, until as many calls of `heal` as of this."""
        self._soon(lambda: self._count(source, target, 1))

    def heal(self, source: int, target: int) -> None:
        self._soon(lambda: self._count(source, target, -1))

    def heal_all(self) -> None:
        def heal() -> None:
            self._cuts.clear()
            self._wake()

        self._soon(heal)

    def break_connections(self, first: int, second: int | None = None) -> None:
        """Reset the connections of a member, or between two."""

        def abort() -> None:
            for link in list(self._links):
                ends = {link.source, link.target}
                if first in ends and (second is None or second in ends):
                    link.abort()

        self._soon(abort)

    # --- on the loop ---

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CONNECT_SECONDS)

    def _soon(self, work: Callable[[], object]) -> None:
        done = threading.Event()

        def run() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(CONNECT_SECONDS)

    async def _listen(self, serving: Coroutine[Any, Any, asyncio.Server]) -> asyncio.Server:
        server = await serving
        self._servers.append(server)
        return server

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for link in list(self._links):
            link.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _count(self, source: int, target: int, change: int) -> None:
        self._cuts[source, target] = max(0, self._cuts.get((source, target), 0) + change)
        self._wake()

    def _wake(self) -> None:
        self._healed.set()
        self._healed = asyncio.Event()

    async def _pass(self, source: int | None, target: int | None) -> None:
        """Return when nothing is cut from `source` to `target`."""
        while source is not None and target is not None and self._cuts.get((source, target), 0):
            await self._healed.wait()

    def _serving(
        self,
        source: int | None,
        target: int,
        connect: Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]],
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = _Link(source, target)
            link.writers.append(writer)
            self._links.add(link)
            try:
                with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                    await self._forward(link, reader, writer, connect)
            finally:
                link.abort()
                self._links.discard(link)

        return serve

    async def _forward(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connect) -> None:
        first = await reader.read(CHUNK_BYTES)
        if link.source is None:
            named = _CLIENT_ID.search(first[:64])
            link.source = int(named[1]) if named else None
        await self._pass(link.source, link.target)
        theirs, to_them = await connect()
        link.writers.append(to_them)
        to_them.write(first)
        back = asyncio.ensure_future(self._answer(link, theirs, writer))
        try:
            await asyncio.wait(
                [asyncio.ensure_future(self._pump(reader, to_them, link.source, link.target)), back],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            # Aborted connections end both pumps.
            link.abort()

    async def _answer(self, link: _Link, theirs: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if link.target == TREE and link.source is not None:
            first = await theirs.read(CHUNK_BYTES)
            session = _session_in(first)
            if session is not None:
                self.sessions[link.source] = session
            await self._pass(link.target, link.source)
            writer.write(first)
        await self._pump(theirs, writer, link.target, link.source)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: int | None, target: int | None
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._pass(source, target)
                writer.write(chunk)
                await writer.drain()


def _session_in(reply: bytes) -> Session | None:
    """The session that ZooKeeper's reply to a new connection opens."""
    if len(reply) < 40:
        return None
    size, _version, _timeout_ms, session_id, password_bytes = struct.unpack_from(">iiiqi", reply)
    if password_bytes != 16 or size < 36 or session_id == 0:
        return None
    return Session(session_id, reply[24:40])
