"""Operations that wait for an event or their deadline: the base of delayed produce, fetch and delete-records.

A subclass says when it can complete (`try_complete`) and what to do then (`on_complete`). `Purgatory` holds it while it
waits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from tidelog.timing.timer import TimerTask

if TYPE_CHECKING:
    from tidelog.timing.purgatory import Purgatory


class DelayedOperation(TimerTask):
    """Completes exactly once: by an event, by its deadline, or by a call of `force_complete`.

    `deadline_ms` is monotonic time. Subclasses declare `__slots__` and call `super().__init__(deadline_ms)`.
    """

    __slots__ = ("_purgatory", "_watch_count", "is_completed")

    def __init__(self, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self.is_completed = False
        self._purgatory: Purgatory[Any] | None = None  # the one that holds it, while it waits
        self._watch_count = 0  # number of that purgatory's watch lists it is in

    @abstractmethod
    def try_complete(self) -> bool:
        """When the condition holds, return `self.force_complete()`; otherwise return False. Called again and again."""

    @abstractmethod
    def on_complete(self) -> None:
        """Send the response. Called once, also when the deadline passed."""

    def on_failure(self, error: Exception) -> None:
        """The operation raised `error` instead of completing, and will not be tried again. Must not wait."""
        raise error

    def on_expiration(self) -> None:
        """Called after `on_complete` when the deadline completed the operation; for metrics, mostly."""
        return

    def force_complete(self) -> bool:
        """Complete now, whatever the condition. Does nothing and returns False when it has completed before."""
        if self.is_completed:
            return False
        self._end_waiting()
        try:
            self.on_complete()
        except Exception as error:
            self.on_failure(error)
        return True

    def fail(self, error: Exception) -> None:
        """`try_complete` raised: stop waiting, as it would raise at every event. Does nothing once completed."""
        if not self.is_completed:
            self._end_waiting()
            self.on_failure(error)

    def _end_waiting(self) -> None:
        self.is_completed = True
        if self._entries is not None:
            self.cancel()
        if self._purgatory is not None:
            self._purgatory.release(self)

    def run(self) -> None:
        """The deadline has passed."""
        if self.force_complete():
            self.on_expiration()
