"""Whether the client of a remote tree still works, or has to be replaced. A rule without threads or clocks.

A client has a thread that keeps its connection. A server that cannot be reached is no concern of this rule: the thread
goes on looking for one, which is a sign of life. The rule finds a thread that has ended, by an error that the client
did not expect, and one that is stuck. Either would leave a broker that serves and never registers again.

The rule is asked once in a session timeout. Silence is counted in questions and not in seconds: after the whole process
was stopped for a while, its threads get the time of the next questions to give a sign.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

SILENT_TIMEOUTS_MAX: Final = 3
"""After so many session timeouts without a sign of life a client is stuck."""


class Verdict(Enum):
    """What is to be done about a client."""

    KEEP = "keep"
    RENEW = "renew"
    GIVE_UP = "give up"
    """The client that replaced another never had a connection and does not work either."""


class ClientWatch:
    """Watches one client after the other."""

    def __init__(self) -> None:
        self._signs = -1
        self._silent_timeouts = 0
        self._is_replacement = False

    def judge(self, *, is_alive: bool, signs: int, is_connected: bool) -> Verdict:
        """Judge a client once more: whether its threads run, and how many signs of life it has given so far."""
        self._silent_timeouts = self._silent_timeouts + 1 if signs == self._signs else 0
        self._signs = signs
        if is_alive and self._silent_timeouts < SILENT_TIMEOUTS_MAX:
            self._is_replacement = self._is_replacement and not is_connected
            return Verdict.KEEP
        if self._is_replacement:
            return Verdict.GIVE_UP
        self._signs, self._silent_timeouts, self._is_replacement = -1, 0, True
        return Verdict.RENEW
