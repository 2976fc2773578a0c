"""`tidelog topic create`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import (
    BootstrapServer,
    CommandConfig,
    Format,
    OutputFormat,
    TopicName,
    parse_assignments,
)
from tidelog.cli.output import print_json, print_line, uuid_text
from tidelog.cli.topic._replicas import parse_replica_assignment
from tidelog.client.aio.admin.types import NewTopic
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode

EXAMPLE: Final = "tidelog topic create orders --partitions 3 -c retention.ms=86400000"


def create(
    topic: TopicName,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many partitions.", show_default="the broker's num.partitions")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="How many replicas each partition has.",
            show_default="the broker's default.replication.factor",
        ),
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="A topic setting; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(help="Brokers per partition instead of counts: 0:1,1:2 is two partitions.", metavar="IDS"),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check; change nothing.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Create a topic."""
    wanted = NewTopic(
        topic,
        partitions,
        replication_factor,
        parse_assignments("--config", config or ()),
        parse_replica_assignment(replica_assignment),
    )
    with connect_admin(bootstrap_server, command_config) as admin:
        try:
            made = admin.create_topics([wanted], validate_only=validate_only)[topic]
        except ApiError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or not if_not_exists:
                raise
            _report_existing(topic, output)
            return
    if output is Format.JSON:
        print_json(
            {
                "name": made.name,
                "topic_id": uuid_text(made.topic_id),
                "partitions": made.partitions,
                "replication_factor": made.replication_factor,
                "created": not validate_only,
            }
        )
    elif validate_only:
        print_line(f"Topic {topic} could be created.")
    else:
        print_line(f"Created topic {topic}.")


def _report_existing(topic: str, output: Format) -> None:
    if output is Format.JSON:
        print_json({"name": topic, "created": False})
    else:
        print_line(f"Topic {topic} already exists.")
