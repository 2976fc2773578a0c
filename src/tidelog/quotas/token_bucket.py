"""A bucket of tokens that fills at a steady rate: Kafka's `TokenBucket`, for the quota on topic and partition changes.

A change takes tokens, and may take more than there are: the bucket is then in debt, and the next change waits until the
debt is paid. So a burst is let through once, and the rate holds over time.
"""

from __future__ import annotations

from typing import Final

from tidelog.quotas.rates import RateWindows

_ROUNDING: Final = 1e-6
"""A debt this small is none: tokens are added up in many steps."""


class TokenBucket:
    """Tokens for one user or client."""

    __slots__ = ("_burst", "_rate", "_tokens", "_updated_ms", "windows")

    def __init__(self, rate: float, windows: RateWindows, now_ms: int) -> None:
        """`rate` is in tokens per second; the bucket holds what all windows let through."""
        self.windows = windows
        self._rate = rate
        self._burst = rate * windows.total_ms / 1000
        self._tokens = self._burst
        self._updated_ms = now_ms

    @property
    def rate(self) -> float:
        return self._rate

    def set_rate(self, rate: float, now_ms: int) -> None:
        """Follow a changed quota. A debt stays; a full bucket is cut to the new size."""
        self._refill(now_ms)
        self._rate = rate
        self._burst = rate * self.windows.total_ms / 1000
        self._tokens = min(self._tokens, self._burst)

    def is_empty(self, now_ms: int) -> bool:
        """Whether a change has to wait."""
        self._refill(now_ms)
        return self._tokens < -_ROUNDING

    def take(self, count: float, now_ms: int) -> None:
        """Take tokens, whether or not there are so many."""
        self._refill(now_ms)
        self._tokens -= count

    def throttle_ms(self, now_ms: int) -> int:
        """How long it takes until the debt is paid; 0 without one."""
        self._refill(now_ms)
        if self._tokens >= -_ROUNDING:
            return 0
        if self._rate <= 0:
            return self.windows.total_ms
        return max(round(-self._tokens * 1000 / self._rate), 1)

    def _refill(self, now_ms: int) -> None:
        self._tokens = min(self._tokens + self._rate * (now_ms - self._updated_ms) / 1000, self._burst)
        self._updated_ms = now_ms
