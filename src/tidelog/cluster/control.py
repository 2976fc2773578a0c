"""Commands to a supervisor: a line of JSON for each request and response, over a Unix socket of its owner.

{"command": "restart", "broker": 2}  →  {"ok": {…}}  or  {"error": "…"}
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from tidelog.cluster.layout import ClusterDirectory, ClusterError

_LINE_BYTES_MAX: Final = 64 << 10
_REPLY_SECONDS: Final = 120.0

Command = Callable[[dict[str, Any]], Awaitable[Any]]


async def serve_commands(path: Path, commands: dict[str, Command]) -> asyncio.Server:
    """Take commands at `path` until the server is closed."""
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - one quick call, before anything else runs

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await _answer(await reader.readline(), commands)
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # the client disconnected, or sent an incomplete line
        finally:
            writer.close()

    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(serve, path, limit=_LINE_BYTES_MAX)
    finally:
        os.umask(before)


async def _answer(line: bytes, commands: dict[str, Command]) -> dict[str, Any]:
    try:
        request = json.loads(line)
        command = commands[request["command"]]
    except (ValueError, KeyError, TypeError):
        return {"error": f"unknown command {line[:200]!r}; commands are {', '.join(sorted(commands))}"}
    try:
        return {"ok": await command(request)}
    except ClusterError as error:
        return {"error": str(error)}


def send_command(directory: ClusterDirectory, command: str, **arguments: Any) -> Any:
    """Send a command to the supervisor and return its result; raises `ClusterError`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_REPLY_SECONDS)
        try:
            connection.connect(str(directory.control_socket))
        except OSError as error:
            directory.read()  # a clearer error if there is no cluster at all
            raise ClusterError(
                f"the cluster in {directory.path} is not running ({error.strerror}): start it with `tidelog cluster up`"
            ) from error
        connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        line = connection.makefile("rb").readline()
    if not line:
        raise ClusterError(f"the supervisor of {directory.path} exited before it replied to {command!r}")
    reply = json.loads(line)
    if "error" in reply:
        raise ClusterError(reply["error"])
    return reply["ok"]
