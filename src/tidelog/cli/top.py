"""`tidelog top`: brokers, topics and groups by rate and lag, updated in place."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import verb
from tidelog.cli.output import live_table, print_json_lines, print_line, print_table
from tidelog.client.aio.admin.admin import AdminSettings, AsyncAdmin
from tidelog.health import activity

if TYPE_CHECKING:
    from rich.text import Text

EXAMPLE: Final = "tidelog top --every 2"

BROKERS: Final = ("BROKER", "ADDRESS", "CONTROLLER", "LEADERS", "REPLICAS", "OUT-OF-SYNC", "WRITTEN/S")
TOPICS: Final = ("TOPIC", "PARTITIONS", "UNDER-REPLICATED", "WRITTEN/S", "RECORDS")
GROUPS: Final = ("GROUP", "STATE", "LAG", "READ/S", "LAG-GROWS/S")


class View(NamedTuple):
    """One table: its headings, its rows, and how many rows there would be."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    total: int


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "top", top, EXAMPLE)


def top(
    connection: Connection,
    every: Annotated[float, typer.Option("--every", help="Seconds between two updates.", min=0.1)] = 2.0,
    times: Annotated[
        int | None, typer.Option("--times", help="End after so many updates.", min=1, show_default="never")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", help="So many topics and groups are shown.", min=1)] = 15,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show who writes and who is behind: brokers, the busiest topics, and the groups with the largest lag."""
    settings = connection.settings(AdminSettings)
    with _showing(output) as show:
        asyncio.run(_watch(settings, every, times, rows, show))


Show = Callable[[dict[str, Any], list[View]], None]


async def _watch(settings: dict[str, Any], every_s: float, times: int | None, rows: int, show: Show) -> None:
    before: activity.Look | None = None
    updates = 0
    async with AsyncAdmin(settings) as admin:
        while True:
            now = await activity.look(admin)
            show(as_json(before, now, rows), views(before, now, rows))
            before = now
            updates += 1
            if updates == times:
                return
            await asyncio.sleep(every_s)


def views(before: activity.Look | None, now: activity.Look, rows: int) -> list[View]:
    """The three tables."""
    brokers, topics, groups = activity.brokers(before, now), activity.topics(before, now), activity.groups(before, now)
    return [
        View(
            BROKERS,
            [
                (*each[:2], "yes" if each.is_controller else "", *each[3:6], _number(each.written_per_s))
                for each in brokers
            ],
            len(brokers),
        ),
        View(TOPICS, [(*each[:3], _number(each.written_per_s), each.records) for each in topics[:rows]], len(topics)),
        View(
            GROUPS,
            [(*each[:3], _number(each.read_per_s), _number(each.lag_per_s)) for each in groups[:rows]],
            len(groups),
        ),
    ]


def as_json(before: activity.Look | None, now: activity.Look, rows: int) -> dict[str, Any]:
    """One update for programs; rates are null in the first. The time is that of the look, which rates are based on."""
    return {
        "time": round(time.time() - (time.monotonic() - now.at_s), 3),
        "brokers": [each._asdict() for each in activity.brokers(before, now)],
        "topics": [each._asdict() for each in activity.topics(before, now)[:rows]],
        "groups": [each._asdict() for each in activity.groups(before, now)[:rows]],
    }


def _number(rate: float | None) -> object:
    return "-" if rate is None else round(rate)


@contextmanager
def _showing(output: Format) -> Iterator[Show]:
    if output is Format.JSON:
        yield _show_json
    elif not sys.stdout.isatty():
        yield _show_tables
    else:
        with _terminal() as show:
            yield show


def _show_json(update: dict[str, Any], _tables: list[View]) -> None:
    print_json_lines([update])
    sys.stdout.flush()


def _show_tables(_update: dict[str, Any], tables: list[View]) -> None:
    for each in tables:
        print_table(each.headings, each.rows)
        if each.total > len(each.rows):
            print_line(f"… and {each.total - len(each.rows)} more")
        print_line()
    sys.stdout.flush()


@contextmanager
def _terminal() -> Iterator[Show]:
    from rich.console import Group
    from rich.live import Live

    with Live(auto_refresh=False, screen=True) as live:

        def show(_update: dict[str, Any], tables: list[View]) -> None:
            shown = [_table(each) for each in tables]
            live.update(Group(*shown, f"{time.strftime('%H:%M:%S')}, Ctrl-C ends"), refresh=True)

        yield show


def _table(view: View) -> "Text":
    hidden = view.total - len(view.rows)
    return live_table(view.headings, view.rows, caption=f"and {hidden} more\n" if hidden else "")
