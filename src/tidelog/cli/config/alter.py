"""`tidelog config alter`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, parse_assignments
from tidelog.cli.config._resource import OfAllBrokers, OfBroker, OfLoggers, OfTopic, chosen_resource
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.client.aio.admin.types import AlterOperation, ConfigChange

EXAMPLE: Final = "tidelog config alter --topic orders --set retention.ms=3600000"


def alter(
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_defaults: OfAllBrokers = False,
    broker_logger: OfLoggers = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Set a setting to a value.", metavar="NAME=VALUE")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", help="Reset a setting to its default.", metavar="NAME")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", help="Add to a setting that is a list.", metavar="NAME=VALUE")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", help="Remove from a setting that is a list.", metavar="NAME=VALUE")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check; change nothing.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Change settings of a topic or of brokers while they run; all changes are made, or none."""
    resource = chosen_resource(topic, broker, broker_defaults, broker_logger)
    changes = [
        *_changes("--set", AlterOperation.SET, settings),
        *_changes("--append", AlterOperation.APPEND, append),
        *_changes("--subtract", AlterOperation.SUBTRACT, subtract),
        *(ConfigChange(name, operation=AlterOperation.DELETE) for name in delete or ()),
    ]
    if not changes:
        raise CommandError("nothing to change; give --set, --delete, --append or --subtract")
    with connect_admin(bootstrap_server, command_config) as admin:
        admin.incremental_alter_configs({resource: changes}, validate_only=validate_only)
    names = [change.name for change in changes]
    if output is Format.JSON:
        print_json({"altered": [] if validate_only else names, "valid": names})
    else:
        print_line(f"{'Could alter' if validate_only else 'Altered'} {', '.join(names)} of {resource}.")


def _changes(option: str, operation: AlterOperation, texts: list[str] | None) -> list[ConfigChange]:
    return [ConfigChange(name, value, operation) for name, value in parse_assignments(option, texts or ()).items()]
