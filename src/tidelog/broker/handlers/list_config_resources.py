"""ListConfigResources: the names of what has settings; topics and brokers always have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._config_resources import ResourceType
from tidelog.metadata.entities import CLIENT_METRICS, GROUPS
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node

_TYPES_FROM: Final = 1


async def handle(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    """List the types that are asked for, in the order in which Kafka lists them."""
    names_of = _NAMES if context.api_version >= _TYPES_FROM else _OF_VERSION_0
    wanted = set(request.resource_types) or names_of.keys()
    if not wanted <= names_of.keys():
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"unknown resource types {sorted(wanted - names_of.keys())}")
    response = ListConfigResourcesResponse()
    for resource_type, names in names_of.items():
        for name in list(names(context.node)) if resource_type in wanted else ():
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=resource_type))
            await context.pause()
    return response


def _brokers(node: Node) -> Iterable[str]:
    return map(str, node.image.broker_ids())


_NAMES: Final[Mapping[int, Callable[[Node], Iterable[str]]]] = {
    ResourceType.GROUP: lambda node: node.entity_settings.names(GROUPS),
    ResourceType.CLIENT_METRICS: lambda node: node.entity_settings.names(CLIENT_METRICS),
    ResourceType.BROKER_LOGGER: _brokers,
    ResourceType.BROKER: _brokers,
    ResourceType.TOPIC: lambda node: [topic.name for topic in node.image.topics()],
}
_OF_VERSION_0: Final = {ResourceType.CLIENT_METRICS: _NAMES[ResourceType.CLIENT_METRICS]}
