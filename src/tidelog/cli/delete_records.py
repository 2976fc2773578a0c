"""`tidelog delete-records`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin, partitions_or_all
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, TopicName
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_table
from tidelog.client.aio.admin.types import HIGH_WATERMARK

EXAMPLE: Final = "tidelog delete-records orders --partition 0 --before 1000"


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "delete-records", delete, EXAMPLE)


def delete(
    topic: TopicName,
    before: Annotated[
        str, typer.Option(help="The first offset to keep, or `latest` to delete everything.", show_default=False)
    ],
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Delete the records of a topic before an offset."""
    offset = _parse_offset(before)
    with connect_admin(bootstrap_server, command_config) as admin:
        partitions = partitions_or_all(admin, topic, partition)
        found = admin.delete_records(dict.fromkeys(partitions, offset))
    starts = {each.partition: found[each] for each in partitions}
    if output is Format.JSON:
        print_json([{"partition": part, "earliest": start} for part, start in starts.items()])
    else:
        print_table(("PARTITION", "EARLIEST"), list(starts.items()))


def _parse_offset(text: str) -> int:
    if text == "latest":
        return HIGH_WATERMARK
    if text.isascii() and text.isdigit():
        return int(text)
    raise CommandError(f"--before {text!r} is neither an offset nor `latest`")
