"""`tidelog topic delete`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode

EXAMPLE: Final = "tidelog topic delete orders"


def delete(
    topics: Annotated[list[str], typer.Argument(help="Topics to delete.", metavar="TOPIC…", show_default=False)],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if a topic does not exist.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Delete topics and all their records."""
    deleted: list[str] = []
    with connect_admin(bootstrap_server, command_config) as admin:
        for topic in topics:
            try:
                admin.delete_topics([topic])
            except ApiError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not if_exists:
                    raise
            else:
                deleted.append(topic)
                if output is Format.TEXT:
                    print_line(f"Deleted topic {topic}.")
    if output is Format.JSON:
        print_json({"deleted": deleted})
