"""The lag of groups as a live table: updated in place on a terminal, printed repeatedly to a file."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from tidelog.cli._options import Format
from tidelog.cli.group._lag import Progress, describe_group, or_dash, progress_as_json, progress_of
from tidelog.cli.output import print_json_lines, print_line, print_table
from tidelog.client.admin import Admin

HEADINGS: Final = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "READ/S",
    "CLIENT-ID",
)

Looked = Sequence[tuple[Progress, int | None]]
"""Partitions, and the records per second that the group reads of each; None in the first update."""


class Show(Protocol):
    """Shows one update to the user."""

    def __call__(self, looked: Looked, /) -> None: ...


class ReadRates:
    """Records read per second between two updates."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str, int], tuple[float, int]] = {}

    def look(self, rows: Sequence[Progress], now_s: float) -> Looked:
        """The rows with their rates since the last update."""
        looked = [(row, self._rate(row, now_s)) for row in rows]
        self._before = {row[:3]: (now_s, row.committed) for row in rows if row.committed is not None}
        return looked

    def _rate(self, row: Progress, now_s: float) -> int | None:
        before = self._before.get(row[:3])
        if before is None or row.committed is None or now_s <= before[0]:
            return None
        return round((row.committed - before[1]) / (now_s - before[0]))


def watch_groups(admin: Admin, groups: Sequence[str], every_s: float, times: int | None, output: Format) -> None:
    """Update the table `times` times, or until interrupted."""
    rates = ReadRates()
    looks = 0
    with _showing(output) as show:
        while True:
            rows = [row for group in groups for row in progress_of(admin, describe_group(admin, group))]
            show(rates.look(rows, time.monotonic()))
            looks += 1
            if looks == times:
                return
            time.sleep(every_s)


@contextmanager
def _showing(output: Format) -> Iterator[Show]:
    if output is Format.JSON:
        yield _show_json
    elif not sys.stdout.isatty():
        yield _show_table
    else:
        with _terminal() as show:
            yield show


def _show_json(looked: Looked) -> None:
    print_json_lines({**progress_as_json(row), "read_per_s": rate} for row, rate in looked)
    sys.stdout.flush()


def _show_table(looked: Looked) -> None:
    print_table(HEADINGS, [cells(row, rate) for row, rate in looked])
    print_line()
    sys.stdout.flush()


@contextmanager
def _terminal() -> Iterator[Show]:
    from rich import box
    from rich.live import Live
    from rich.table import Table

    with Live(auto_refresh=False) as live:

        def show(looked: Looked) -> None:
            table = Table(box=box.SIMPLE_HEAD, caption=f"{time.strftime('%H:%M:%S')}, Ctrl-C ends")
            for heading in HEADINGS:
                is_number = heading not in ("GROUP", "TOPIC", "CLIENT-ID")
                table.add_column(heading, justify="right" if is_number else "left")
            for row, rate in looked:
                table.add_row(*map(str, cells(row, rate)), style="yellow" if row.lag else None)
            live.update(table, refresh=True)

        yield show


def cells(row: Progress, rate: int | None) -> tuple[object, ...]:
    """One line of the table."""
    numbers = map(or_dash, (row.committed, row.end, row.lag, rate))
    return row.group, row.topic, row.partition, *numbers, "-" if row.member is None else row.member.client_id
