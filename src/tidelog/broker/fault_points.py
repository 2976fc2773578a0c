"""Places at which a broker can be told to die, to show that it survives that.

`TIDELOG_FAULT=before-markers` ends the process with SIGKILL where `reach("before-markers")` is called, the first time;
`TIDELOG_FAULT=before-markers:3` the third. Only the transaction coordinator's edge has such places, none of them on the
way of a record. Crash tests are the users.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

VARIABLE: Final = "TIDELOG_FAULT"


def fault_points() -> Callable[[str], None]:
    """What to call at each place with its name; nothing happens unless the environment names one."""
    name, _, count = os.environ.get(VARIABLE, "").partition(":")
    if not name:
        return _nothing
    times_left = int(count or 1)

    def reach(point: str) -> None:
        nonlocal times_left
        if point == name:
            times_left -= 1
            if times_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reach


def _nothing(_point: str) -> None:
    """The rule."""
