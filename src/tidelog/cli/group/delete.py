"""`tidelog group delete`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.client.admin import Admin

EXAMPLE: Final = "tidelog group delete billing"


def delete(
    groups: Annotated[list[str], typer.Argument(help="Groups to delete.", metavar="GROUP…", show_default=False)],
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Keep the group; delete only its offsets of this topic; may be repeated."),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Delete groups that have no members, and their offsets."""
    deleted: list[str] = []
    with connect_admin(bootstrap_server, command_config) as admin:
        try:
            for group in groups:
                _delete(admin, group, topic)
                deleted.append(group)
        finally:  # what was deleted before one failed is deleted
            _report(deleted, topic, output)


def _delete(admin: Admin, group: str, topics: list[str] | None) -> None:
    if topics is None:
        admin.delete_groups([group])
        return
    wanted = [each for each in admin.list_consumer_group_offsets(group) if each.topic in topics]
    if not wanted:
        raise CommandError(f"group {group!r} has no offsets of {', '.join(topics)}")
    admin.delete_consumer_group_offsets(group, wanted)


def _report(groups: list[str], topics: list[str] | None, output: Format) -> None:
    if output is Format.JSON:
        print_json({"deleted": groups, "topics": topics})
        return
    for group in groups:
        what = f"group {group}" if topics is None else f"offsets of {', '.join(topics)} of {group}"
        print_line(f"Deleted {what}.")
