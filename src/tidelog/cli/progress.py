"""Progress on stderr: a bar on a terminal, a line per quarter in a log, or nothing.

Callers: `produce`, `perf`, `export`, `import`, `topic compact`, `pipeline replay` and the demonstrations.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives progress."""

    def advance(self, count: int) -> None:
        """`count` more are done."""


class _Silent:
    def advance(self, count: int) -> None:
        """Show nothing."""


class _Lines:
    """A line at every quarter, for logs."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        self._label = label
        self._total = total
        self._unit = f" {unit}" if unit else ""
        self._done = 0
        self._quarters = 0
        self._started = time.monotonic()

    def advance(self, count: int) -> None:
        self._done += count
        quarters = 4 * self._done // self._total if self._total else 4
        if quarters > self._quarters:
            self._quarters = quarters
            elapsed = time.monotonic() - self._started
            sys.stderr.write(f"{self._label}: {self._done:,} of {self._total:,}{self._unit} after {elapsed:.1f} s\n")


@contextmanager
def progress(
    label: str, total: int | None, *, unit: str = "", in_logs: bool = True, on_terminals: bool = True
) -> Iterator[Progress]:
    """Progress towards `total` (None: not known), where it is wanted. `unit` says what is counted."""
    if not sys.stderr.isatty():
        yield _Lines(label, total, unit) if in_logs and total is not None else _Silent()
        return
    if not on_terminals:
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    counted = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([TextColumn(unit)] if unit else []),
    ]
    # Without a total, the bar has no information at the end.
    with Bars(*counted, TimeElapsedColumn(), console=Console(stderr=True), transient=total is None) as bars:
        task = bars.add_task(label, total=total)

        class Bar:
            def advance(self, count: int) -> None:
                bars.advance(task, count)

        yield Bar()
