"""AlterConfigs replaces all settings of a resource, IncrementalAlterConfigs changes single ones.

Each resource is changed on its own: a rejected one does not affect the others. Accepted settings are stored in the tree
together with a notice, by which `broker.configuration.dynamic_config` of this and every other broker follows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.broker.configuration.dynamic_passwords import DynamicPasswords
from tidelog.broker.handlers._config_resources import (
    ResourceType,
    broker_entity,
    check_config_access,
    invalid,
    parse_broker_id,
    topic_entity,
)
from tidelog.broker.handlers._loggers import change_logger, check_logger_change
from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.config.entities import checked_client_metrics, checked_group
from tidelog.config.errors import ConfigError, InvalidValueError, UnknownSettingError
from tidelog.config.updates import (
    broker_list_default,
    checked_topic,
    subscription_list_default,
    topic_list_default,
    updated_layers,
)
from tidelog.metadata.configs import (
    Alteration,
    AlterOperation,
    ConfigEntity,
    ListValue,
    OverridesCodec,
    Validator,
    alter_overrides,
    replace_overrides,
)
from tidelog.metadata.entities import CLIENT_METRICS, GROUPS, entity_of
from tidelog.metadata.errors import StoreError
from tidelog.security.acls import AclOperation
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import alter_configs as replacing
from tidelog.wire.messages import incremental_alter_configs as incremental

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node

logger = logging.getLogger(__name__)


CONFIGS_MAX: Final = 1000
"""Settings of one resource in a request. A broker has some three hundred, a topic forty."""


class _Target(NamedTuple):
    """The entity whose settings are altered, and the check of its settings."""

    entity: ConfigEntity
    list_value: ListValue
    validate: Validator
    codec: OverridesCodec | None = None


async def handle(request: replacing.AlterConfigsRequest, context: Context) -> replacing.AlterConfigsResponse:
    """Replace all settings of a resource; those not named return to their defaults."""
    counts = await _counts(request.resources, context)
    responses = []
    for resource in request.resources:
        response = replacing.AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            _check(resource, counts)
            check_config_access(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name, context)
            _check_names(resource, [each.name for each in resource.configs if each.value is None])
            await _replace(context.node, resource, request.validate_only)
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
        await context.node.slices.pause()
    await _follow(context.node)
    return replacing.AlterConfigsResponse(responses=responses)


async def handle_incremental(
    request: incremental.IncrementalAlterConfigsRequest, context: Context
) -> incremental.IncrementalAlterConfigsResponse:
    """Set, delete, append to or subtract from the named settings; the others stay as they are."""
    counts = await _counts(request.resources, context)
    responses = []
    for resource in request.resources:
        response = incremental.AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            _check(resource, counts)
            check_config_access(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name, context)
            deleted = AlterOperation.DELETE
            _check_names(
                resource,
                [each.name for each in resource.configs if each.value is None and each.config_operation != deleted],
            )
            await _alter(context.node, resource, request.validate_only)
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
        await context.node.slices.pause()
    await _follow(context.node)
    return incremental.IncrementalAlterConfigsResponse(responses=responses)


async def _follow(node: Node) -> None:
    """Apply the stored settings before they are acknowledged."""
    try:
        await node.dynamic_config.take()
    except StoreError as error:
        logger.error("settings were stored and could not be read again: %s", error)


_Resource = replacing.AlterConfigsResource | incremental.AlterConfigsResource


async def _counts(resources: Sequence[_Resource], context: Context) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    for resource in resources:
        counts[resource.resource_type, resource.resource_name] += 1
        await context.pause()
    return counts


def _check(resource: _Resource, counts: Counter[tuple[int, str]]) -> None:
    """The checks that hold for every type of resource."""
    if counts[resource.resource_type, resource.resource_name] > 1:
        raise invalid("Each resource must appear at most once.")
    if len(resource.configs) > CONFIGS_MAX:
        raise invalid(f"{len(resource.configs)} settings of one resource; a request may alter {CONFIGS_MAX} of each")


def _check_names(resource: _Resource, null_names: Sequence[str]) -> None:
    if null_names:
        raise invalid(f"Null value not supported for : {', '.join(null_names)}")
    if len({each.name for each in resource.configs}) < len(resource.configs):
        raise invalid("Error due to duplicate config keys")


async def _replace(node: Node, resource: replacing.AlterConfigsResource, validate_only: bool) -> None:
    target = _target(node, resource.resource_type, resource.resource_name)
    overrides = {each.name: each.value for each in resource.configs if each.value is not None}
    with metadata_errors_translated():
        await node.metadata.run(
            replace_overrides,
            target.entity,
            overrides,
            target.validate,
            validate_only=validate_only,
            codec=target.codec,
        )


async def _alter(node: Node, resource: incremental.AlterConfigsResource, validate_only: bool) -> None:
    alterations = [Alteration(each.config_operation, each.name, each.value) for each in resource.configs]
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        _alter_loggers(node, resource.resource_name, alterations, validate_only)
        return
    target = _target(node, resource.resource_type, resource.resource_name)
    with metadata_errors_translated():
        await node.metadata.run(
            alter_overrides,
            target.entity,
            alterations,
            target.list_value,
            target.validate,
            validate_only=validate_only,
            codec=target.codec,
        )


def _target(node: Node, resource_type: int, name: str) -> _Target:
    if resource_type == ResourceType.TOPIC:
        return _topic_target(node, name)
    if resource_type == ResourceType.BROKER:
        return _broker_target(node, name)
    if resource_type == ResourceType.GROUP:
        return _group_target(node, name)
    if resource_type == ResourceType.CLIENT_METRICS:
        return _client_metrics_target(name)
    raise invalid(f"Unknown resource type {resource_type}")


def _topic_target(node: Node, name: str) -> _Target:
    if not name:
        raise invalid("Default topic resources are not allowed.")
    if node.image.topic(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def validate(overrides: Mapping[str, str]) -> None:
        try:
            checked_topic(node.config_layers, overrides)
        except InvalidValueError as error:
            text = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{name}'): {error}"
            raise ApiError(ErrorCode.INVALID_CONFIG, text) from error
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    return _Target(topic_entity(name), topic_list_default, validate)


def _group_target(node: Node, name: str) -> _Target:
    if not name:
        raise invalid("Group name can't be empty")

    def validate(overrides: Mapping[str, str]) -> None:
        try:
            checked_group(overrides, node.config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    return _Target(entity_of(GROUPS, name), _no_list, validate)


def _client_metrics_target(name: str) -> _Target:
    if not name:
        raise invalid("Subscription name can't be empty")

    from tidelog.broker.telemetry.subscriptions import check_matches

    def validate(overrides: Mapping[str, str]) -> None:
        try:
            check_matches(checked_client_metrics(overrides).match)
        except UnknownSettingError as error:
            raise invalid(str(error)) from error
        except ConfigError as error:
            is_beyond = error.setting == "interval.ms" and overrides["interval.ms"].removeprefix("-").isdecimal()
            code = ErrorCode.INVALID_REQUEST if is_beyond else ErrorCode.INVALID_CONFIG
            raise ApiError(code, str(error)) from error

    return _Target(entity_of(CLIENT_METRICS, name), subscription_list_default, validate)


def _no_list(_name: str) -> None:
    return None


def _broker_target(node: Node, name: str) -> _Target:
    if name and parse_broker_id(name, "Node") != node.broker_id:
        raise invalid(f"Unexpected broker id, expected {node.broker_id}, but received {name}")
    is_cluster = not name

    def validate(properties: Mapping[str, str]) -> None:
        try:
            updated = updated_layers(node.config_layers, properties, is_cluster=is_cluster)
            node.listener_security.check(updated.config)
        except ConfigError as error:
            raise invalid(str(error)) from error

    entity = broker_entity("" if is_cluster else str(node.broker_id))
    return _Target(entity, broker_list_default, validate, DynamicPasswords(node.config))


def _alter_loggers(node: Node, name: str, alterations: Sequence[Alteration], validate_only: bool) -> None:
    if parse_broker_id(name, "Node") != node.broker_id:
        raise invalid(f"Unexpected node id. Expected {node.broker_id}, but received {name}")
    for alteration in alterations:
        check_logger_change(*alteration)
    if not validate_only:
        for alteration in alterations:
            change_logger(*alteration)
        node.request_log.refresh()
