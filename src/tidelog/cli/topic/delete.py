"""`tidelog topic delete`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.client.admin import Admin
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
        try:
            for topic in topics:
                if _delete(admin, topic, if_exists=if_exists):
                    deleted.append(topic)  # noqa: PERF401 - it stays there if a later one fails
        finally:  # what was deleted before one failed is deleted
            if output is Format.JSON:
                print_json({"deleted": deleted})
            for topic in deleted if output is Format.TEXT else ():
                print_line(f"Deleted topic {topic}.")


def _delete(admin: Admin, topic: str, *, if_exists: bool) -> bool:
    try:
        admin.delete_topics([topic])
    except ApiError as error:
        if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not if_exists:
            raise
        return False
    return True
