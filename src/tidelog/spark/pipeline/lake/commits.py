"""Commits to a table that others write to as well: repeated after a conflict, with a pause that differs each time."""

import random
import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 120.0
_PAUSE_S_MAX: Final = 0.5


def until_no_conflict(commit: Callable[[], bool], conflicts: tuple[type[Exception], ...]) -> bool:
    """What `commit` returns, as soon as it raises none of `conflicts`.

    `commit` looks at the table again each time. An error that remains is raised after `PATIENCE_S`.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return commit()
        except conflicts:
            if time.monotonic() >= deadline_s:
                raise
        time.sleep(random.uniform(0, _PAUSE_S_MAX))
