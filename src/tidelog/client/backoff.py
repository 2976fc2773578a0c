"""How long to wait before the next attempt: exponentially longer, with jitter, up to a limit (KIP-144, KIP-580).

Without jitter, a thousand clients that lost the same broker would all come back in the same millisecond. Reconnecting,
metadata, coordinator lookup and the retries of every client use this one class.
"""

import random
from collections.abc import Callable
from typing import Final

_MULTIPLIER: Final = 2
_JITTER: Final = 0.2


class Backoff:
    """The waiting times between `initial_ms` and `most_ms`. Holds no state: the number of failures is the argument."""

    __slots__ = ("_exponent_max", "_initial_ms", "_most_ms", "_random")

    def __init__(self, initial_ms: int, most_ms: int, random_unit: Callable[[], float] = random.random) -> None:
        self._initial_ms = min(initial_ms, most_ms)
        self._most_ms = most_ms
        self._random = random_unit
        # Beyond this many failures the limit is reached; larger powers would only grow without use.
        self._exponent_max = max((most_ms // max(initial_ms, 1)).bit_length(), 1)

    def after(self, failures: int) -> int:
        """Milliseconds to wait after the `failures`-th failure in a row, counted from 1; 0 after none."""
        if failures <= 0:
            return 0
        plain_ms = self._initial_ms * _MULTIPLIER ** min(failures - 1, self._exponent_max)
        jitter = 1 - _JITTER + 2 * _JITTER * self._random()
        return int(min(plain_ms, self._most_ms) * jitter)
