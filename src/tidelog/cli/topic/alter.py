"""`tidelog topic alter`."""

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
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.cli.topic._replicas import parse_replica_assignment
from tidelog.client.aio.admin.types import AlterOperation, ConfigChange, ConfigResource, NewPartitions, ResourceType

EXAMPLE: Final = "tidelog topic alter orders --partitions 6 -c retention.ms=3600000"


def alter(
    topic: TopicName,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", help="New number of partitions; it can only grow.", show_default="left as it is"
        ),
    ] = None,
    replica_assignment: Annotated[
        str | None, typer.Option(help="Brokers of the new partitions: 0:1,1:2 is two of them.", metavar="IDS")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", help="Set a topic setting.", metavar="NAME=VALUE")
    ] = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", help="Reset a setting to its default.", metavar="NAME")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check; change nothing.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Change the partition count or the settings of a topic."""
    changes = [ConfigChange(name, value) for name, value in parse_assignments("--config", config or ()).items()]
    changes += [ConfigChange(name, operation=AlterOperation.DELETE) for name in delete_config or ()]
    if partitions is None and not changes:
        raise CommandError("nothing to change; give --partitions, --config or --delete-config")
    with connect_admin(bootstrap_server, command_config) as admin:
        if changes:
            resource = ConfigResource(ResourceType.TOPIC, topic)
            admin.incremental_alter_configs({resource: changes}, validate_only=validate_only)
        if partitions is not None:
            total = NewPartitions(partitions, parse_replica_assignment(replica_assignment))
            admin.create_partitions({topic: total}, validate_only=validate_only)
    if output is Format.JSON:
        print_json({"name": topic, "altered": not validate_only})
    else:
        print_line(f"Topic {topic} could be altered." if validate_only else f"Altered topic {topic}.")
