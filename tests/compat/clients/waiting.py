"""Waiting for what takes a broker a moment: ours answers when it is done, Kafka often before."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.compat.clients.drivers.types import DEADLINE_S

Result = TypeVar("Result")


def wait_until(ask: Callable[[], Result], is_there: Callable[[Result], bool]) -> Result:
    """Ask until the answer is the one waited for; returns the last answer, whatever it is, when time is up."""
    deadline = time.monotonic() + DEADLINE_S
    answer = ask()
    while not is_there(answer) and time.monotonic() < deadline:
        time.sleep(0.02)
        answer = ask()
    return answer
