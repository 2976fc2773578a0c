"""How far a run is: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Final

_BAR_WIDTH: Final = 30
_LINE_WIDTH: Final = 150


class Progress:
    """Counts what is done of `total`; `done` of it was done before."""

    def __init__(self, name: str, total: int, done: int = 0) -> None:
        self._name = name
        self._total = total
        self._done = self._done_before = done
        self._began = time.monotonic()

    def show(self, what: str) -> None:
        """One more is done."""
        self._done += 1
        took = time.monotonic() - self._began
        left = took / (self._done - self._done_before) * (self._total - self._done)
        head = f"{self._name} {self._done}/{self._total}, {left / 60:.0f}:{left % 60:02.0f} left"
        if not sys.stderr.isatty():
            print(f"{head}, {what}", file=sys.stderr, flush=True)
            return
        bar = ("=" * (_BAR_WIDTH * self._done // self._total)).ljust(_BAR_WIDTH)
        end = "\n" if self._done == self._total else ""
        print(f"\r[{bar}] {head}, {what}"[:_LINE_WIDTH].ljust(_LINE_WIDTH), end=end, file=sys.stderr, flush=True)
