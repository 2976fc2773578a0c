"""Clean exit on SIGTERM, for commands that must release something in the cluster, such as a group membership."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED_EXIT_CODE = 128 + signal.SIGINT
TERMINATED_EXIT_CODE = 128 + signal.SIGTERM


@contextmanager
def ending_in_order() -> Iterator[None]:
    """In this block SIGTERM raises SystemExit, so that clients are closed."""
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED_EXIT_CODE)
