"""The three options of `describe` and `alter` that select a resource."""

from typing import Annotated

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.aio.admin.types import ConfigResource, ResourceType

OfTopic = Annotated[str | None, typer.Option("--topic", help="Settings of this topic.", metavar="NAME")]
OfBroker = Annotated[int | None, typer.Option("--broker", help="Settings of the broker with this id.", metavar="ID")]
OfAllBrokers = Annotated[bool, typer.Option("--broker-defaults", help="Dynamic settings of all brokers.")]


def chosen_resource(topic: str | None, broker: int | None, broker_defaults: bool) -> ConfigResource:
    """The selected resource; CommandError unless exactly one is given."""
    named = [
        *([ConfigResource(ResourceType.TOPIC, topic)] if topic is not None else []),
        *([ConfigResource(ResourceType.BROKER, str(broker))] if broker is not None else []),
        *([ConfigResource(ResourceType.BROKER, "")] if broker_defaults else []),
    ]
    if len(named) != 1:
        raise CommandError("give exactly one of --topic NAME, --broker ID and --broker-defaults")
    return named[0]
