"""The resources of DescribeConfigs and AlterConfigs: their types, and the checks of their names."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from tidelog.metadata import paths
from tidelog.metadata.configs import ConfigEntity
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


class ResourceType(IntEnum):
    """Types of resources that have settings, by their number on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_config_access(operation: AclOperation, resource_type: int, name: str, context: Context) -> None:
    """Raise the error of a client that may not see, or not alter, the settings of a resource."""
    if resource_type == ResourceType.TOPIC:
        context.check_allowed(operation, AclResourceType.TOPIC, name)
    elif resource_type == ResourceType.GROUP:
        context.check_allowed(operation, AclResourceType.GROUP, name)
    elif resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS):
        context.check_allowed(operation, AclResourceType.CLUSTER)


def topic_entity(name: str) -> ConfigEntity:
    """Where a topic's overrides are stored."""
    return ConfigEntity("topics", name)


def broker_entity(name: str) -> ConfigEntity:
    """Where a broker's dynamic settings are stored; those of all brokers for the empty name."""
    return ConfigEntity("brokers", name or paths.DEFAULT_ENTITY)


def invalid(message: str) -> ApiError:
    """INVALID_REQUEST with a text."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def parse_broker_id(text: str, noun: str) -> int:
    """The number that names a broker."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise invalid(f"{noun} id must be an integer, but it is: {text}")
    return int(text)
