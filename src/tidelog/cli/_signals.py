"""SIGTERM as an end in order: for commands that hold something a cluster would miss, such as a place in a group."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TERMINATED_EXIT_CODE = 128 + signal.SIGTERM


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Inside, SIGTERM raises SystemExit, so that whatever is open is closed on the way out."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED_EXIT_CODE)
