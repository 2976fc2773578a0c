"""`tidelog config describe`."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.config._resource import OfAllBrokers, OfBroker, OfLoggers, OfTopic, chosen_resource
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.aio.admin.types import ConfigEntry, ConfigSource

EXAMPLE: Final = "tidelog config describe --topic orders --all"

_SOURCES: Final[Mapping[int, str]] = {
    ConfigSource.UNKNOWN: "unknown",
    ConfigSource.DYNAMIC_TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers",
    ConfigSource.STATIC_BROKER: "static",
    ConfigSource.DEFAULT: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER: "logger",
}
_DYNAMIC: Final = frozenset(
    {ConfigSource.DYNAMIC_TOPIC, ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER}
)


def describe(
    names: Annotated[
        list[str] | None, typer.Argument(help="Settings to show; by default those set dynamically.", metavar="NAME…")
    ] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_defaults: OfAllBrokers = False,
    broker_logger: OfLoggers = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every setting, including defaults.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Show the meaning of each setting.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the settings of a topic or a broker, and where each value comes from."""
    resource = chosen_resource(topic, broker, broker_defaults, broker_logger)
    with connect_admin(bootstrap_server, command_config) as admin:
        found = admin.describe_configs(
            [resource], names=names or None, include_synonyms=True, include_documentation=docs
        )[resource]
    shown = [config for config in found.values() if everything or names or config.source in _DYNAMIC]
    if output is Format.JSON:
        print_json([_as_json(config, docs) for config in shown])
        return
    if not shown:
        print_line(f"No setting of {resource} is set dynamically; --all shows every value.")
        return
    rows = [(config.name, _value(config), _SOURCES[config.source], _mutability(config)) for config in shown]
    print_table(("NAME", "VALUE", "FROM", ""), rows)
    if docs:
        for config in shown:
            print_line(f"\n{config.name}: {config.documentation or 'not documented'}")


def _value(config: ConfigEntry) -> str:
    if config.is_sensitive:
        return "(hidden)"
    return "(none)" if config.value is None else config.value


def _mutability(config: ConfigEntry) -> str:
    return "read-only" if config.is_read_only else ""


def _as_json(config: ConfigEntry, docs: bool) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": _SOURCES[config.source],
        "read_only": config.is_read_only,
        "sensitive": config.is_sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": _SOURCES[synonym.source]}
            for synonym in config.synonyms
        ],
        **({"documentation": config.documentation} if docs else {}),
    }
