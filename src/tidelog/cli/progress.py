"""Progress on stderr: a bar on a terminal, a line per quarter in a log, or nothing."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol

_PATIENCE_S: Final = 1.0


class Progress(Protocol):
    """Receives progress."""

    def advance(self, count: int) -> None:
        """`count` more are done."""


Advance = Callable[[int], None]


class _Lines:
    """A line at every quarter, for logs."""

    def __init__(self, total: int, describe: Callable[[], str]) -> None:
        self._total = total
        self._describe = describe
        self._done = 0
        self._quarters = 0
        self._started = time.monotonic()

    def advance(self, count: int) -> None:
        self._done += count
        quarters = 4 * self._done // self._total if self._total else 4
        if quarters > self._quarters:
            self._quarters = quarters
            sys.stderr.write(f"{self._describe()} after {time.monotonic() - self._started:.1f} s\n")


class _Counted:
    """Counts what is done, and shows it."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self._label = label
        self._total = total
        self._unit = f" {unit}" if unit else ""
        self._done = 0
        self.show: Advance = lambda _count: None

    def advance(self, count: int) -> None:
        self._done += count
        self.show(count)

    def __str__(self) -> str:
        total = "" if self._total is None else f" of {self._total:,}"
        return f"{self._label}: {self._done:,}{total}{self._unit}"


@contextmanager
def progress(
    label: str, total: int | None, *, unit: str = "", in_logs: bool = True, on_terminals: bool = True
) -> Iterator[Progress]:
    """Progress towards `total` (None: not known), where it is wanted. `unit` says what is counted.

    If the command is interrupted or terminated, the last line says how far it got.
    """
    counted = _Counted(label, total, unit)
    stop_showing_work()
    try:
        with _shown(label, total, unit, counted, in_logs=in_logs, on_terminals=on_terminals) as counted.show:
            yield counted
    except (KeyboardInterrupt, SystemExit):
        sys.stderr.write(f"tidelog: interrupted; {counted}\n")
        raise


@contextmanager
def _shown(
    label: str, total: int | None, unit: str, counted: _Counted, *, in_logs: bool, on_terminals: bool
) -> Iterator[Advance]:
    if not sys.stderr.isatty():
        yield _Lines(total, counted.__str__).advance if in_logs and total is not None else counted.show
        return
    if not on_terminals:
        yield counted.show
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([TextColumn(unit)] if unit else []),
    ]
    # Without a total, the bar has no information at the end.
    with Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=total is None) as bars:
        task = bars.add_task(label, total=total)

        yield lambda count: bars.advance(task, count)


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """On a terminal, show what is waited for and for how long; the line goes away at the end."""
    stop_showing_work()
    if not sys.stderr.isatty():
        yield
        return
    with _spinner(label):
        yield


@contextmanager
def _spinner(label: str) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        bars.add_task(label, total=None)
        yield


class _Work:
    """Shows that a command is at work, from a second after its start until it has something to show itself."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._lock = threading.Lock()
        self._shown = ExitStack()
        self._is_over = False
        self._timer = threading.Timer(_PATIENCE_S, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        with self._lock:
            if not self._is_over:
                self._shown.enter_context(_spinner(self._label))

    def stop(self) -> None:
        """Take the line away."""
        self._timer.cancel()
        with self._lock:
            self._is_over = True
            self._shown.close()


_work: _Work | None = None


@contextmanager
def at_work(label: str = "waiting for the cluster") -> Iterator[None]:
    """On a terminal, show that the block is at work if it takes longer than a second."""
    global _work
    if not sys.stderr.isatty():
        yield
        return
    _work = _Work(label)
    try:
        yield
    finally:
        stop_showing_work()


def stop_showing_work() -> None:
    """The rest of the command shows by itself what it does, or asks for something."""
    global _work
    work, _work = _work, None
    if work is not None:
        work.stop()
