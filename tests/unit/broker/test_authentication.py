"""What is logged of an authentication that fails by a defect."""

import asyncio
from functools import partial

import pytest

from tidelog.broker.security.authentication import Authentication
from tidelog.broker.surroundings import SystemClock


def test_work_that_fails_is_logged_without_the_token_that_it_was_to_check(caplog: pytest.LogCaptureFixture) -> None:
    def check(_token: bytes) -> None:
        raise RuntimeError("a defect")

    async def fail() -> None:
        authentication = Authentication(asyncio.get_running_loop(), SystemClock(), {})
        with pytest.raises(RuntimeError):
            await authentication.run(partial(check, b"ticket of alice"))
        authentication.close()

    asyncio.run(fail())
    assert "a defect" in caplog.text
    assert "ticket of alice" not in caplog.text
