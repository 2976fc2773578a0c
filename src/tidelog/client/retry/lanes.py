"""Which records may be handled now: a number at once, and those of one key one after another, in order. Pure."""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Work = TypeVar("Work")


class Lanes(Generic[Work]):
    """Work that waits and work that runs. Work without a key waits for nothing but its turn."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._ready: deque[tuple[Hashable | None, Work]] = deque()
        self._behind: dict[Hashable, deque[Work]] = {}
        """Keys with work that is ready or runs, and what comes after it."""
        self.running = 0

    @property
    def waiting(self) -> int:
        """How much has not begun."""
        return len(self._ready) + sum(map(len, self._behind.values()))

    def add(self, key: Hashable | None, work: Work) -> None:
        """Work to be done after all that was added before with the same key."""
        if key is None:
            self._ready.append((None, work))
        elif key in self._behind:
            self._behind[key].append(work)
        else:
            self._behind[key] = deque()
            self._ready.append((key, work))

    def begin(self) -> tuple[Hashable | None, Work] | None:
        """The next work to run; None if there is none or enough runs."""
        if self.running >= self._concurrency or not self._ready:
            return None
        self.running += 1
        return self._ready.popleft()

    def finish(self, key: Hashable | None) -> None:
        """Work of this key has ended: the next of the key is ready."""
        self.running -= 1
        if key is not None:
            self._advance(key)

    def _advance(self, key: Hashable) -> None:
        behind = self._behind[key]
        if behind:
            self._ready.append((key, behind.popleft()))
        else:
            del self._behind[key]

    def drop(self, is_dropped: Callable[[Work], bool]) -> None:
        """Forget work that has not begun."""
        for key, behind in self._behind.items():
            self._behind[key] = deque(work for work in behind if not is_dropped(work))
        ready, self._ready = self._ready, deque()
        for key, work in ready:
            if not is_dropped(work):
                self._ready.append((key, work))
            elif key is not None:
                self._advance(key)
