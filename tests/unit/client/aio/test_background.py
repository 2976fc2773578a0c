import asyncio
import threading
from collections.abc import Iterator

import pytest

from tidelog.client.aio import background
from tidelog.client.aio.background import BackgroundLoop
from tidelog.client.errors import ClientClosed


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[BackgroundLoop]:
    """A loop that a callback blocks until the test is over."""
    monkeypatch.setattr(background, "_END_WAIT_S", 0.05)
    loop = BackgroundLoop("blocked")
    over, is_blocking = threading.Event(), threading.Event()

    def block() -> None:
        is_blocking.set()
        over.wait(20)

    loop.call_soon(block)
    assert is_blocking.wait(20)
    yield loop
    over.set()
    loop.wait_ended(20)
    assert not loop.is_alive


async def _nothing() -> None:
    pass


def test_a_blocked_loop_is_left_behind_with_a_warning(
    blocked: BackgroundLoop, caplog: pytest.LogCaptureFixture
) -> None:
    blocked.close()
    assert "thread blocked did not end" in caplog.text


def test_the_last_call_of_a_client_does_not_wait_for_a_blocked_loop(
    blocked: BackgroundLoop, caplog: pytest.LogCaptureFixture
) -> None:
    blocked.run_last(_nothing(), 0)
    assert "thread blocked does not respond" in caplog.text


def test_connections_that_cannot_be_dropped_do_not_keep_the_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "_END_WAIT_S", 0.05)
    loop = BackgroundLoop("stuck")
    owner = threading.Event()
    loop.end_with(owner, lambda: asyncio.sleep(60))
    loop.close()
    assert not loop.is_alive
    assert "connections of client thread stuck were not closed in time" in caplog.text


def test_a_loop_that_ended_refuses_work() -> None:
    loop = BackgroundLoop("ended")
    loop.run_last(_nothing(), 1)
    with pytest.raises(ClientClosed):
        loop.run(_nothing())
