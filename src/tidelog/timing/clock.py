"""The two clocks of a broker, as an interface, and a clock that tests and the simulator set by hand.

Records carry wall time; deadlines use monotonic time, which no operator and no NTP step can move. Both are whole
milliseconds. The real clock lives at the edge, in `tidelog.broker`.
"""

from typing import Protocol


class Clock(Protocol):
    """Source of the time. `monotonic_ms` never goes backwards; `wall_ms` may."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment in the past that stays the same while the process lives."""
        ...


class ManualClock:
    """A clock that moves only by `advance` and `set_wall_ms`."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` pass on both clocks."""
        if by_ms < 0:
            raise ValueError(f"time cannot pass backwards: {by_ms} ms")
        self._wall_ms += by_ms
        self._monotonic_ms += by_ms

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the wall clock alone, as an operator or NTP would; deadlines do not change."""
        self._wall_ms = wall_ms
