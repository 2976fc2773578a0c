"""The options of `describe` and `alter` that select a resource."""

from typing import Annotated

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.aio.admin.types import ConfigResource, ResourceType

OfTopic = Annotated[str | None, typer.Option("--topic", help="Settings of this topic.", metavar="NAME")]
OfBroker = Annotated[int | None, typer.Option("--broker", help="Settings of the broker with this id.", metavar="ID")]
OfAllBrokers = Annotated[bool, typer.Option("--broker-defaults", help="Dynamic settings of all brokers.")]

OfLoggers = Annotated[
    int | None, typer.Option("--broker-logger", help="Levels of the loggers of the broker with this id.", metavar="ID")
]


def chosen_resource(
    topic: str | None, broker: int | None, broker_defaults: bool, broker_logger: int | None
) -> ConfigResource:
    """The selected resource; CommandError unless exactly one is given."""
    named = [
        *([ConfigResource(ResourceType.TOPIC, topic)] if topic is not None else []),
        *([ConfigResource(ResourceType.BROKER, str(broker))] if broker is not None else []),
        *([ConfigResource(ResourceType.BROKER, "")] if broker_defaults else []),
        *([ConfigResource(ResourceType.BROKER_LOGGER, str(broker_logger))] if broker_logger is not None else []),
    ]
    if len(named) != 1:
        raise CommandError("give exactly one of --topic NAME, --broker ID, --broker-defaults and --broker-logger ID")
    return named[0]
