"""Settings of topics and brokers as the cluster holds them: described and changed one by one."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.client.cluster import ClusterClient
from tidelog.client.connection import Answer
from tidelog.client.errors import ApiError
from tidelog.client.refusals import raise_if_refused
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.describe_configs import DescribeConfigsResource, DescribeConfigsResourceResult
from tidelog.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from tidelog.wire.schema import Message


class ResourceType(IntEnum):
    """What a setting belongs to, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4


class Resource(NamedTuple):
    """A topic by name, a broker by id, or all brokers as the broker named ''."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or 'defaults'}"


class Operation(IntEnum):
    """What to do to a setting, numbered as on the wire. The last two are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one setting; `value` is not used by DELETE."""

    name: str
    operation: Operation
    value: str | None = None


# Where a value comes from, as DescribeConfigs numbers it.
CONFIG_SOURCES: Mapping[int, str] = {
    0: "unknown",
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "static",
    5: "default",
    6: "logger",
}


def describe_configs(
    cluster: ClusterClient,
    resource: Resource,
    names: Sequence[str] | None = None,
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResourceResult]:
    """The settings of `resource`, those in `names` or all, sorted by name."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configuration_keys=None if names is None else list(names),
            )
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = _on_owner(cluster, resource, request, DescribeConfigsResponse).results
    raise_if_refused(str(resource), result.error_code, result.error_message)
    return sorted(result.configs, key=lambda config: config.name)


def alter_configs(
    cluster: ClusterClient, resource: Resource, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    """Apply `changes`, all or none."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                    for change in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    (result,) = _on_owner(cluster, resource, request, IncrementalAlterConfigsResponse).responses
    raise_if_refused(str(resource), result.error_code, result.error_message)


def _on_owner(cluster: ClusterClient, resource: Resource, request: Message, answer: type[Answer]) -> Answer:
    """A broker's own settings are known to that broker alone; everything else to any."""
    if resource.type is ResourceType.BROKER and resource.name:
        node = next((node for node in cluster.nodes() if str(node.node_id) == resource.name), None)
        if node is None:
            known = ", ".join(str(node.node_id) for node in cluster.nodes())
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no broker {resource.name}; the cluster has {known}")
        return cluster.on_node(node, request, answer)
    return cluster.on_any(request, answer)
