"""DescribeConfigs: the settings of topics, brokers and loggers, each with where its value comes from.

Any broker describes a topic; a broker is described only by itself. An empty broker name means the settings that all
brokers share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._config_resources import ResourceType, check_config_access, invalid, parse_broker_id
from tidelog.broker.handlers._loggers import logger_levels
from tidelog.config.errors import ConfigError
from tidelog.config.layers import ConfigEntry, ConfigSource
from tidelog.metadata.entities import CLIENT_METRICS, GROUPS
from tidelog.metadata.topic_names import check_topic_name
from tidelog.security.acls import AclOperation
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node

_NO_TYPE: Final = 0
"""Kafka gives the level of a logger neither a type nor a documentation."""


async def handle(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Describe each resource for itself, in request order.

    Most settings of most topics are the same, so equal ones share an object: the description of every topic of a large
    cluster fits into memory.
    """
    answers: Answers[DescribeConfigsResult] = Answers()
    shaped: dict[ConfigEntry, DescribeConfigsResourceResult] = {}
    for resource in request.resources:
        keys = resource.configuration_keys
        question = resource.resource_type, resource.resource_name, None if keys is None else tuple(keys)
        answers.add(question, partial(_describe, resource, request, context, shaped))
        await context.pause()
    return DescribeConfigsResponse(results=answers.all)


def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: Context,
    shaped: dict[ConfigEntry, DescribeConfigsResourceResult],
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        check_config_access(AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name, context)
        describe = _DESCRIBERS.get(resource.resource_type)
        if describe is None:
            raise invalid(f"Unsupported resource type: {resource.resource_type}")
        entries = describe(context.node, resource.resource_name, resource.configuration_keys)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    for entry in entries:
        if entry not in shaped:
            shaped[entry] = _shape(entry, request.include_synonyms, request.include_documentation)
        result.configs.append(shaped[entry])
    return result


def _describe_topic(node: Node, name: str, keys: Iterable[str] | None) -> list[ConfigEntry]:
    check_topic_name(name)
    if node.image.topic(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return _described(node.config_layers.describe_topic, node.image.overrides(name), keys)


def _describe_broker(node: Node, name: str, keys: Iterable[str] | None) -> list[ConfigEntry]:
    if not name:
        return node.config_layers.describe_cluster(keys)
    broker_id = parse_broker_id(name, "Broker")
    if broker_id != node.broker_id:
        raise invalid(f"Unexpected broker id, expected {node.broker_id} or empty string, but received {name}")
    return node.config_layers.describe_broker(keys)


def _describe_group(node: Node, name: str, keys: Iterable[str] | None) -> list[ConfigEntry]:
    if not name:
        raise invalid("Group name must not be empty")
    return _described(node.config_layers.describe_group, node.entity_settings.overrides(GROUPS, name), keys)


def _describe_client_metrics(node: Node, name: str, keys: Iterable[str] | None) -> list[ConfigEntry]:
    if not name:
        raise invalid("Client metrics subscription name must not be empty")
    overrides = node.entity_settings.overrides(CLIENT_METRICS, name)
    return _described(node.config_layers.describe_client_metrics, overrides, keys)


def _described(
    describe: Callable[[Mapping[str, str], Iterable[str] | None], list[ConfigEntry]],
    overrides: Mapping[str, str],
    keys: Iterable[str] | None,
) -> list[ConfigEntry]:
    try:
        return describe(overrides, keys)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _describe_loggers(node: Node, name: str, keys: Iterable[str] | None) -> list[ConfigEntry]:
    if not name:
        raise invalid("Broker id must not be empty")
    if parse_broker_id(name, "Broker") != node.broker_id:
        raise invalid(f"Unexpected broker id, expected {node.broker_id} but received {name}")
    wanted = set(keys or ())
    return [
        ConfigEntry(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, (), _NO_TYPE, "")
        for logger, level in logger_levels().items()
        if not wanted or logger in wanted
    ]


def _shape(entry: ConfigEntry, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if with_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source == ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=entry.type_code,
        documentation=entry.documentation if with_documentation or not entry.documentation else None,
    )


_Describer = Callable[["Node", str, Iterable[str] | None], list[ConfigEntry]]
_DESCRIBERS: Final[Mapping[int, _Describer]] = {
    ResourceType.TOPIC: _describe_topic,
    ResourceType.BROKER: _describe_broker,
    ResourceType.BROKER_LOGGER: _describe_loggers,
    ResourceType.GROUP: _describe_group,
    ResourceType.CLIENT_METRICS: _describe_client_metrics,
}
