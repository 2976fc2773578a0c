"""`tidelog config alter`."""

from typing import Annotated, Final

import typer

from tidelog.cli._errors import CommandError
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, connect, parse_assignments
from tidelog.cli._output import print_json, print_line
from tidelog.cli.config._resource import OfAllBrokers, OfBroker, OfTopic, chosen_resource
from tidelog.client.configs import Change, Operation, alter_configs

EXAMPLE: Final = "tidelog config alter --topic orders --set retention.ms=3600000"


def alter(
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_defaults: OfAllBrokers = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Give a setting a value.", metavar="NAME=VALUE")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", help="Take a setting back to its default.", metavar="NAME")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", help="Add to a setting that is a list.", metavar="NAME=VALUE")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", help="Take from a setting that is a list.", metavar="NAME=VALUE")
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Check, and change nothing.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Change settings of a topic or of brokers while they run; all changes are made, or none."""
    resource = chosen_resource(topic, broker, broker_defaults)
    changes = [
        *_changes("--set", Operation.SET, settings),
        *_changes("--append", Operation.APPEND, append),
        *_changes("--subtract", Operation.SUBTRACT, subtract),
        *(Change(name, Operation.DELETE) for name in delete or ()),
    ]
    if not changes:
        raise CommandError("nothing to change; give --set, --delete, --append or --subtract")
    with connect(bootstrap_server, command_config) as cluster:
        alter_configs(cluster, resource, changes, validate_only=validate_only)
    names = [change.name for change in changes]
    if output is Format.JSON:
        print_json({"altered": [] if validate_only else names, "valid": names})
    else:
        print_line(f"{'Could alter' if validate_only else 'Altered'} {', '.join(names)} of {resource}.")


def _changes(option: str, operation: Operation, texts: list[str] | None) -> list[Change]:
    return [Change(name, operation, value) for name, value in parse_assignments(option, texts or ()).items()]
