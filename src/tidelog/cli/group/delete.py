"""`tidelog group delete`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line

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
    with connect_admin(bootstrap_server, command_config) as admin:
        if topic is None:
            admin.delete_groups(groups)
        else:
            for group in groups:
                committed = admin.list_consumer_group_offsets(group)
                wanted = [partition for partition in committed if partition.topic in topic]
                if not wanted:
                    raise CommandError(f"group {group!r} has no offsets of {', '.join(topic)}")
                admin.delete_consumer_group_offsets(group, wanted)
    if output is Format.JSON:
        print_json({"deleted": groups, "topics": topic})
        return
    for group in groups:
        print_line(f"Deleted group {group}." if topic is None else f"Deleted offsets of {', '.join(topic)} of {group}.")
