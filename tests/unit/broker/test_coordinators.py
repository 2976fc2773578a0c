"""A reply that comes later, and the errors in making it."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.broker.coordinators.replies import Reply


def divide(outcome: int) -> int:
    return 1 // outcome


def test_a_response_that_cannot_be_made_fails_where_it_is_asked_for() -> None:
    """Where the outcome comes from, other requests are carried out."""
    reply = Reply(divide)
    reply(0)
    assert reply.is_there
    with pytest.raises(ZeroDivisionError):
        reply.result()


def test_the_callback_is_called_when_a_response_cannot_be_made() -> None:
    reply = Reply(divide)
    called: list[Reply] = []
    reply.then(called.append)
    assert reply.result() is reply
    reply(0)
    assert called == [reply]


@pytest.mark.parametrize("is_early", [True, False])
def test_awaiting_a_response_that_cannot_be_made_raises(is_early: bool) -> None:
    async def main() -> None:
        reply = Reply(divide)
        if is_early:
            reply(0)
        else:
            asyncio.get_running_loop().call_soon(reply, 0)
        with pytest.raises(ZeroDivisionError):
            await reply

    asyncio.run(main())
