"""`tidelog config describe`."""

from typing import Annotated, Any, Final

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, connect
from tidelog.cli._output import print_json, print_line, print_table
from tidelog.cli.config._resource import OfAllBrokers, OfBroker, OfTopic, chosen_resource
from tidelog.client.configs import CONFIG_SOURCES, describe_configs
from tidelog.wire.messages.describe_configs import DescribeConfigsResourceResult

EXAMPLE: Final = "tidelog config describe --topic orders --all"

# Sources that somebody set while the cluster ran: topic, one broker, all brokers.
_DYNAMIC: Final = frozenset({1, 2, 3})


def describe(
    names: Annotated[
        list[str] | None, typer.Argument(help="Settings to show; those set dynamically if none.", metavar="NAME…")
    ] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_defaults: OfAllBrokers = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every setting, defaults too.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Add what each setting means.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the settings of a topic or a broker, and where each value comes from."""
    resource = chosen_resource(topic, broker, broker_defaults)
    with connect(bootstrap_server, command_config) as cluster:
        found = describe_configs(cluster, resource, names or None, synonyms=True, documentation=docs)
    shown = [config for config in found if everything or names or config.config_source in _DYNAMIC]
    if output is Format.JSON:
        print_json([_as_json(config, docs) for config in shown])
        return
    if not shown:
        print_line(f"No setting of {resource} is set dynamically; --all shows every value.")
        return
    rows = [
        (config.name, _value(config), CONFIG_SOURCES[config.config_source], _mutability(config)) for config in shown
    ]
    print_table(("NAME", "VALUE", "FROM", ""), rows)
    if docs:
        for config in shown:
            print_line(f"\n{config.name}: {config.documentation or 'not documented'}")


def _value(config: DescribeConfigsResourceResult) -> str:
    if config.is_sensitive:
        return "(hidden)"
    return "(none)" if config.value is None else config.value


def _mutability(config: DescribeConfigsResourceResult) -> str:
    return "read-only" if config.read_only else ""


def _as_json(config: DescribeConfigsResourceResult, docs: bool) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": CONFIG_SOURCES[config.config_source],
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": CONFIG_SOURCES[synonym.source]}
            for synonym in config.synonyms or ()
        ],
        **({"documentation": config.documentation} if docs else {}),
    }
