"""How far a run is: every line that it prints opens with a bar and the time that is left."""

from __future__ import annotations

import sys
import time
from typing import Final

_BAR_WIDTH: Final = 20


class Progress:
    """Counts what is done of `total`."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    def show(self, what: str) -> None:
        """One more is done: print a line that says so."""
        self._done += 1
        left = int((time.monotonic() - self._began) / self._done * max(self._total - self._done, 0))
        bar = ("=" * (_BAR_WIDTH * self._done // max(self._total, 1))).ljust(_BAR_WIDTH)
        head = f"[{bar}] {self._done}/{self._total} {left // 60}:{left % 60:02} left"
        print(f"{head}  {what}", file=sys.stderr, flush=True)
