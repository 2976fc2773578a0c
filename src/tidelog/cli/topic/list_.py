"""`tidelog topic list`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, uuid_text

EXAMPLE: Final = "tidelog topic list --format json"


def list_topics(
    exclude_internal: Annotated[bool, typer.Option("--exclude-internal", help="Leave out internal topics.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the topics of a cluster."""
    with connect_admin(bootstrap_server, command_config) as admin:
        topics = admin.list_topics(include_internal=not exclude_internal)
    if output is Format.JSON:
        print_json(
            [
                {
                    "name": topic.name,
                    "topic_id": uuid_text(topic.topic_id),
                    "partitions": topic.partition_count,
                    "internal": topic.is_internal,
                }
                for topic in topics
            ]
        )
        return
    for topic in topics:
        print_line(topic.name)
