"""A start that fails at any step undoes the steps before it, the last one first, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidelog.broker.runtime.background import BackgroundPool
from tidelog.broker.runtime.timer_driver import TimerDriver
from tidelog.broker.server import Server
from tidelog.broker.surroundings import Surroundings
from tidelog.config import load_broker_config
from tidelog.metadata.store_queue import StoreQueue
from tidelog.network.limits import NetworkLimits
from tidelog.network.socket_server import SocketServer
from tidelog.network.transport import Transport
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.directories.manager import LogManager

UNDONE = [
    (SocketServer, "close"),
    (StoreQueue, "close"),
    (LogManager, "unlock"),
    (TimerDriver, "stop"),
    (BackgroundPool, "close"),
]
"""The last step first."""


class SilentListener:
    """An address to which no client connects."""

    port = 9092

    def __init__(self, *_: object) -> None:
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        return self._read

    def accept(self, _limits: NetworkLimits) -> tuple[Transport, str]:
        raise BlockingIOError

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


class Broken(Exception):
    """A step that fails."""


def recorded(calls: list[str], label: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        calls.append(label)
        return method(*arguments, **keywords)

    return call


@pytest.mark.parametrize(
    ("step", "undone"),
    [("_build_node", 4), ("_bind", 5), ("_open", 5), ("_follow_tree", 5), ("_start_tasks", 5), ("_accept", 5)],
)
def test_a_start_that_fails_is_undone_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, undone: int
) -> None:
    calls: list[str] = []
    for owner, name in UNDONE:
        label = f"{owner.__name__}.{name}"
        monkeypatch.setattr(owner, name, recorded(calls, label, getattr(owner, name)))

    def fail(*_: object) -> None:
        raise Broken

    monkeypatch.setattr(Server, step, fail)
    surroundings = replace(Surroundings.of_this_machine(), listen=SilentListener)
    config = load_broker_config({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})

    async def start() -> None:
        with pytest.raises(Broken):
            await Server(config, surroundings).start()

    before = set(threading.enumerate())
    asyncio.run(start())

    assert calls == [f"{owner.__name__}.{name}" for owner, name in UNDONE][-undone:]
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive(), f"{thread.name} was left behind"
    directory = LogDirectory(str(tmp_path))
    directory.lock()
    directory.unlock()
