"""Retries for blocking callers.

    patience = Patience(timeout_s)
    while True:
        try:
            return attempt()
        except BrokerUnavailable:
            if not patience.pause():
                raise

Pauses grow with the failures in a row and have jitter, as between the attempts of the asyncio clients.
"""

import time
from collections.abc import Callable
from typing import Final

from tidelog.client.backoff import Backoff

_FIRST_MS: Final = 10
_MOST_MS: Final = 500


class Patience:
    """How long attempts are repeated, and the pauses between them."""

    def __init__(
        self,
        limit_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit_s = limit_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._backoff = Backoff(_FIRST_MS, _MOST_MS)
        self.renew()

    def renew(self) -> None:
        """An attempt succeeded: the time and the pauses begin again."""
        self._deadline = self._monotonic() + self._limit_s
        self._failures = 0

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._monotonic() >= self._deadline

    def pause(self) -> bool:
        """Wait before the next attempt. False, without waiting, if the time would be up by then."""
        wait_s = self._backoff.after(self._failures + 1) / 1000
        if self._monotonic() + wait_s > self._deadline:
            return False
        self._failures += 1
        self._sleep(wait_s)
        return True
