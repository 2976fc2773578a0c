"""`tidelog config`: the settings of topics, brokers, groups and subscriptions, shown, changed and explained."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import parse_assignments
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.aio.admin.types import (
    AlterOperation,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from tidelog.config.reference import reference_markdown


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    config = noun(application, "config", "Show, change, explain settings of topics, brokers, groups and subscriptions.")
    verb(config, "describe", describe, "tidelog config describe --topic orders --all")
    verb(config, "alter", alter, "tidelog config alter --topic orders --set retention.ms=3600000")
    verb(config, "reference", reference, "tidelog config reference > configuration.md")


OfTopic = Annotated[str | None, typer.Option("--topic", help="Settings of this topic.", metavar="NAME")]
OfBroker = Annotated[int | None, typer.Option("--broker", help="Settings of the broker with this id.", metavar="ID")]
OfAllBrokers = Annotated[bool, typer.Option("--broker-defaults", help="Dynamic settings of all brokers.")]

OfGroup = Annotated[
    str | None, typer.Option("--group", help="Settings of this group, of the newer protocol.", metavar="NAME")
]
OfClientMetrics = Annotated[
    str | None,
    typer.Option("--client-metrics", help="Settings of this subscription to the metrics of clients.", metavar="NAME"),
]
OfLoggers = Annotated[
    int | None, typer.Option("--broker-logger", help="Levels of the loggers of the broker with this id.", metavar="ID")
]


def chosen_resource(
    topic: str | None,
    broker: int | None,
    broker_defaults: bool,
    broker_logger: int | None,
    group: str | None,
    client_metrics: str | None,
) -> ConfigResource:
    """The selected resource; CommandError unless exactly one is given."""
    named = [
        *([ConfigResource(ResourceType.TOPIC, topic)] if topic is not None else []),
        *([ConfigResource(ResourceType.BROKER, str(broker))] if broker is not None else []),
        *([ConfigResource(ResourceType.BROKER, "")] if broker_defaults else []),
        *([ConfigResource(ResourceType.BROKER_LOGGER, str(broker_logger))] if broker_logger is not None else []),
        *([ConfigResource(ResourceType.GROUP, group)] if group is not None else []),
        *([ConfigResource(ResourceType.CLIENT_METRICS, client_metrics)] if client_metrics is not None else []),
    ]
    if len(named) != 1:
        raise CommandError(
            "give exactly one of --topic NAME, --broker ID, --broker-defaults, --broker-logger ID, --group NAME and "
            "--client-metrics NAME"
        )
    return named[0]


_SOURCES: Final[Mapping[int, str]] = {
    ConfigSource.UNKNOWN: "unknown",
    ConfigSource.DYNAMIC_TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers",
    ConfigSource.STATIC_BROKER: "static",
    ConfigSource.DEFAULT: "default",
    ConfigSource.DYNAMIC_BROKER_LOGGER: "logger",
    ConfigSource.CLIENT_METRICS: "subscription",
    ConfigSource.GROUP: "group",
}
_DYNAMIC: Final = frozenset(
    {
        ConfigSource.DYNAMIC_TOPIC,
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.CLIENT_METRICS,
        ConfigSource.GROUP,
    }
)


def describe(
    connection: Connection,
    names: Annotated[
        list[str] | None, typer.Argument(help="Settings to show; by default those set dynamically.", metavar="NAME…")
    ] = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_defaults: OfAllBrokers = False,
    broker_logger: OfLoggers = None,
    group: OfGroup = None,
    client_metrics: OfClientMetrics = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every setting, including defaults.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Show the meaning of each setting.")] = False,
) -> Result:
    """Show the settings of a topic, broker, group or subscription, and where each value comes from."""
    resource = chosen_resource(topic, broker, broker_defaults, broker_logger, group, client_metrics)
    with connection.admin() as admin:
        found = admin.describe_configs(
            [resource], names=names or None, include_synonyms=True, include_documentation=docs
        )[resource]
    shown = [config for config in found.values() if everything or names or config.source in _DYNAMIC]
    table = Table(
        headings=("NAME", "VALUE", "FROM", "READ-ONLY"),
        rows=[(config.name, _value(config), _SOURCES[config.source], _mutability(config)) for config in shown],
        after="\n".join(f"\n{each.name}: {each.documentation or 'not documented'}" for each in shown) if docs else "",
        nothing=f"No setting of {resource} is set dynamically; --all shows every value.",
    )
    return Result([_as_json(config, docs) for config in shown], table)


def _value(config: ConfigEntry) -> str:
    if config.is_sensitive:
        return "(hidden)"
    return "(none)" if config.value is None else config.value


def _mutability(config: ConfigEntry) -> str:
    return "yes" if config.is_read_only else "-"


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


def alter(
    connection: Connection,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_defaults: OfAllBrokers = False,
    broker_logger: OfLoggers = None,
    group: OfGroup = None,
    client_metrics: OfClientMetrics = None,
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
) -> Result:
    """Change settings of a topic, brokers, a group or a subscription while they run; all changes are made, or none."""
    resource = chosen_resource(topic, broker, broker_defaults, broker_logger, group, client_metrics)
    changes = [
        *_changes("--set", AlterOperation.SET, settings),
        *_changes("--append", AlterOperation.APPEND, append),
        *_changes("--subtract", AlterOperation.SUBTRACT, subtract),
        *(ConfigChange(name, operation=AlterOperation.DELETE) for name in delete or ()),
    ]
    if not changes:
        raise CommandError("nothing to change; give --set, --delete, --append or --subtract")
    with connection.admin() as admin:
        admin.incremental_alter_configs({resource: changes}, validate_only=validate_only)
    names = [change.name for change in changes]
    return Result(
        {"altered": [] if validate_only else names, "valid": names},
        f"{'Could alter' if validate_only else 'Altered'} {', '.join(names)} of {resource}.",
    )


def _changes(option: str, operation: AlterOperation, texts: list[str] | None) -> list[ConfigChange]:
    return [ConfigChange(name, value, operation) for name, value in parse_assignments(option, texts or ()).items()]


def reference() -> None:
    """Print the reference of every setting as a Markdown page."""
    sys.stdout.write(reference_markdown())
