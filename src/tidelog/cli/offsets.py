"""`tidelog offsets`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection, partitions_or_all
from tidelog.cli._options import TopicName
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
from tidelog.client.durations import parse_moment_ms
from tidelog.client.types import TopicPartition

EXAMPLE: Final = "tidelog offsets orders --time 2026-01-31T12:00:00Z"

_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "offsets", offsets, EXAMPLE)


def offsets(
    connection: Connection,
    topic: TopicName,
    time: Annotated[
        str | None,
        typer.Option(
            help="The first offset at or after a time: milliseconds, ISO 8601, earliest, latest or max-timestamp.",
            show_default="earliest and latest",
        ),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
) -> Result:
    """Show the offsets of a topic's partitions: earliest and latest, or the offset of a time."""
    wanted = None if time is None else parse_time(time)
    with connection.admin() as admin:
        partitions = partitions_or_all(admin, topic, partition)
        if wanted is None:
            return _ends(admin, partitions)
        found = admin.list_offsets(dict.fromkeys(partitions, wanted))
        return _found({each.partition: found[each] for each in partitions})


def parse_time(text: str) -> int:
    """Convert `--time` to milliseconds or to a special timestamp of ListOffsets. A time without zone is UTC."""
    if text in _WORDS:
        return _WORDS[text]
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return parse_moment_ms(text)
    except ValueError:
        raise CommandError(
            f"--time {text!r} is neither milliseconds, nor ISO 8601, nor one of {', '.join(_WORDS)}"
        ) from None


def _ends(admin: Admin, partitions: list[TopicPartition]) -> Result:
    earliest = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    latest = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    rows = [(each.partition, earliest[each].offset, latest[each].offset) for each in partitions]
    document = [{"partition": part, "earliest": first, "latest": last} for part, first, last in rows]
    counted = [(*row, row[2] - row[1]) for row in rows]
    return Result(document, Table(headings=("PARTITION", "EARLIEST", "LATEST", "OFFSETS"), rows=counted))


def _found(found: dict[int, ListedOffset]) -> Result:
    rows = [
        (partition, place.offset if place.offset >= 0 else "none", _moment(place.timestamp))
        for partition, place in found.items()
    ]
    document = [_as_json(partition, place) for partition, place in found.items()]
    return Result(document, Table(headings=("PARTITION", "OFFSET", "TIMESTAMP"), rows=rows))


def _as_json(partition: int, place: ListedOffset) -> dict[str, Any]:
    return {
        "partition": partition,
        "offset": place.offset if place.offset >= 0 else None,
        "timestamp": place.timestamp if place.timestamp >= 0 else None,
        "leader_epoch": place.leader_epoch if place.leader_epoch >= 0 else None,
    }


def _moment(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
