"""`tidelog delete-records`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection, partitions_or_all
from tidelog.cli._options import TopicName
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.aio.admin.types import EARLIEST, HIGH_WATERMARK
from tidelog.health.findings import counted

EXAMPLE: Final = "tidelog delete-records orders --partition 0 --before 1000"


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "delete-records", delete, EXAMPLE)


def delete(
    connection: Connection,
    topic: TopicName,
    before: Annotated[
        str, typer.Option(help="The first offset to keep, or `latest` to delete everything.", show_default=False)
    ],
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
) -> Result:
    """Delete the records of a topic before an offset."""
    offset = _parse_offset(before)
    with connection.admin() as admin:
        partitions = partitions_or_all(admin, topic, partition)
        before_it = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        found = admin.delete_records(dict.fromkeys(partitions, offset))
    starts = {each.partition: found[each] for each in partitions}
    document = [{"partition": part, "earliest": start} for part, start in starts.items()]
    count = sum(max(0, found[each] - before_it[each].offset) for each in partitions)
    after = f"Deleted {counted(count, 'offset')} of {topic}." if count else f"Nothing was to be deleted of {topic}."
    return Result(document, Table(headings=("PARTITION", "EARLIEST"), rows=list(starts.items()), after=after))


def _parse_offset(text: str) -> int:
    if text == "latest":
        return HIGH_WATERMARK
    if text.isascii() and text.isdigit():
        return int(text)
    raise CommandError(f"--before {text!r} is neither an offset nor `latest`")
