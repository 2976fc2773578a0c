"""Fails a test that opens a socket or starts a process.

`tests/unit` and `tests/property` import the hook into their `conftest.py`, which makes `make unit` independent of
ports, other processes and the load of the machine. The pair of sockets by which an event loop wakes itself is allowed.

Python reports sockets and processes to audit hooks, whichever library asks for them. uvloop asks libuv instead, so its
own methods are wrapped.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

_TESTS: Final = Path(__file__).parent
_ROOMS: Final = ("unit", "property")
_FORBIDDEN: Final = frozenset(
    {
        *("socket.__new__", "socket.bind", "socket.connect", "socket.sendto", "socket.getaddrinfo"),
        *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"),
    }
)
_UVLOOP_METHODS: Final = (
    *("create_connection", "create_server", "create_unix_connection", "create_unix_server", "create_datagram_endpoint"),
    *("getaddrinfo", "sock_connect", "subprocess_exec", "subprocess_shell"),
)
_FRAMES_TO_THE_LOOP: Final = 4
"""`_make_self_pipe`, `socketpair` and the socket's own `__init__` are on the stack, and one more to be sure."""


class Seclusion:
    """What the running test opened that it may not open. No test runs while `found` is None."""

    def __init__(self) -> None:
        self.found: list[str] | None = None
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in _FORBIDDEN and self.found is not None and not _is_of_a_loop(sys._getframe(1)):
            self.refuse(event)

    def refuse(self, event: str) -> None:
        """Stop the call. The test fails even if the code under test handles the exception."""
        if self.found is not None:
            self.found.append(event)
            raise AssertionError(f"{event}: a test that needs a socket or a process belongs in tests/integration")


def _is_of_a_loop(frame: FrameType | None) -> bool:
    for _ in range(_FRAMES_TO_THE_LOOP):
        if frame is None:
            return False
        if frame.f_code.co_name == "_make_self_pipe":
            return True
        frame = frame.f_back
    return False


_seclusion = Seclusion()


def _wrap_uvloop() -> None:
    try:
        from uvloop import Loop
    except ImportError:
        return

    def refusing(name: str) -> None:
        method = getattr(Loop, name)

        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            _seclusion.refuse(f"uvloop's {name}")
            return method(*arguments, **keywords)

        setattr(Loop, name, wrapped)

    for name in _UVLOOP_METHODS:
        refusing(name)


_wrap_uvloop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch the test from the set-up of its first fixture to the tear-down of its last.

    pytest calls this for the tests of every folder once a session has a test of these two.
    """
    is_secluded = any(item.path.is_relative_to(_TESTS / room) for room in _ROOMS)
    _seclusion.found = [] if is_secluded else None
    try:
        return (yield)
    finally:
        _seclusion.found = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if _seclusion.found and report.outcome == "passed":
        report.outcome = "failed"
        report.longrepr = f"not allowed in tests/unit and tests/property: {', '.join(sorted(set(_seclusion.found)))}"
    return report
