"""Two bars side by side, for orders on their way in and out; lines of text without a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.cli.progress import progress

Show = Callable[[int, int], None]


@contextmanager
def two_bars(produced_total: int, enriched_total: int) -> Iterator[Show]:
    """A function to call with how many were produced and how many have come out so far."""
    if not sys.stderr.isatty():
        with progress("enriched", enriched_total) as lines:
            yield _Difference(lines.advance).show
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[waiting]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        produced = bars.add_task("produced", total=produced_total, waiting="")
        enriched = bars.add_task("enriched", total=enriched_total, waiting="")

        def show(produced_count: int, enriched_count: int) -> None:
            # When all is done, what has not come out is dead, and waits no more.
            waiting = max(0, produced_count - enriched_count) if enriched_count < enriched_total else 0
            bars.update(produced, completed=produced_count)
            bars.update(enriched, completed=enriched_count, waiting=f"{waiting:,} waiting" if waiting else "")

        yield show


class _Difference:
    """Turns counts so far into steps."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._enriched = 0

    def show(self, _produced: int, enriched: int) -> None:
        if enriched > self._enriched:
            self._advance(enriched - self._enriched)
            self._enriched = enriched
