"""A bucket of tokens that fills at a steady rate: bytes, request time, changes or connections that a client may use.

What a client spends is taken from the bucket, and may be more than it holds: the bucket is then in debt, and the client
waits until the debt is paid. A burst is let through once; over time the rate holds, whatever the size of a request and
the number of connections.

Kafka has such a bucket for changes of topics alone (`TokenBucket`) and measures bytes and time over sampled windows.
Both name the same wait after a burst: what was spent above the burst, over the rate. The windows then forget the burst
all at once when its sample expires, debt included. A client that sends as fast as it may then has bursts eleven seconds
apart, between 0.8 and 1.3 times its rate over 40 s; with requests of seconds' worth, or on many connections, it gets up
to three times its rate for ever. A bucket forgets nothing.
"""

from __future__ import annotations

from typing import Final

_ROUNDING: Final = 1e-6
"""A debt this small is none: tokens are added up in many steps."""

_WAIT_MS_MAX: Final = 2**31 - 1
"""The longest wait that a response can name, 24 days."""


class TokenBucket:
    """Tokens for those who share a quota. Times are in milliseconds of a monotonic clock."""

    __slots__ = ("_burst", "_burst_ms", "_is_debt_bounded", "_rate", "_tokens", "_updated_ms", "taken")

    def __init__(self, rate: float, burst_ms: float, now_ms: float, *, is_debt_bounded: bool = False) -> None:
        """`rate` is in tokens per second; a full bucket holds what the rate lets through in `burst_ms`.

        A bounded debt is paid in `burst_ms`, however much was taken.
        """
        self._is_debt_bounded = is_debt_bounded
        self._rate = rate
        self._burst_ms = burst_ms
        self._burst = self._tokens = rate * burst_ms / 1000
        self._updated_ms = now_ms
        self.taken = 0.0
        """All that was ever taken."""

    @property
    def rate(self) -> float:
        return self._rate

    @property
    def burst(self) -> float:
        """What a full bucket holds."""
        return self._burst

    def set_rate(self, rate: float, now_ms: float) -> None:
        """Follow a changed quota. A debt stays; a full bucket is cut to the new size."""
        self._refill(now_ms)
        self._rate = rate
        self._burst = rate * self._burst_ms / 1000
        self._tokens = min(self._tokens, self._burst)

    def take(self, count: float, now_ms: float) -> None:
        """Take tokens, whether or not there are so many."""
        self._refill(now_ms)
        self._tokens -= count
        if self._is_debt_bounded:
            self._tokens = max(self._tokens, -self._burst)
        self.taken += count

    def is_empty(self, now_ms: float) -> bool:
        """Whether the bucket is in debt."""
        self._refill(now_ms)
        return self._tokens < -_ROUNDING

    def throttle_ms(self, now_ms: float) -> int:
        """How long it takes until the debt is paid; 0 without one."""
        return self.wait_ms(0, now_ms)

    def wait_ms(self, count: float, now_ms: float) -> int:
        """How long until there are so many tokens, or the bucket is full if it does not hold so many; 0 if there are.

        A bucket that nothing flows into stays empty: the wait is then the time of a burst.
        """
        self._refill(now_ms)
        wanted = count if self._rate <= 0 else min(count, self._burst)
        missing = wanted - self._tokens
        if missing <= _ROUNDING:
            return 0
        if self._rate <= 0:
            return round(self._burst_ms)
        return max(round(min(missing * 1000 / self._rate, _WAIT_MS_MAX)), 1)

    def _refill(self, now_ms: float) -> None:
        self._tokens = min(self._tokens + self._rate * (now_ms - self._updated_ms) / 1000, self._burst)
        self._updated_ms = now_ms
