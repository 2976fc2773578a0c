"""Settings of topics, brokers and groups as the cluster holds them."""

from collections.abc import Iterable, Mapping, Sequence

from tidelog.client.aio.admin.driver import ANY_NODE, Answers, Driver, Route, answer_of
from tidelog.client.aio.admin.types import ConfigChange, ConfigEntry, ConfigResource, ConfigSynonym, ResourceType
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import alter_configs as replacing
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OF_ONE_BROKER = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER})


async def describe_configs(
    driver: Driver,
    resources: Iterable[ConfigResource],
    *,
    names: Sequence[str] | None,
    include_synonyms: bool,
    include_documentation: bool,
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """Each resource's settings by name."""

    async def ask(node_id: int, items: list[ConfigResource]) -> Answers[ConfigResource, dict[str, ConfigEntry]]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configuration_keys=None if names is None else list(names),
                )
                for each in items
            ],
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        reply = await driver.client.send(node_id, request, DescribeConfigsResponse)
        answers: Answers[ConfigResource, dict[str, ConfigEntry]] = {}
        for each in reply.results:
            resource = ConfigResource(ResourceType(each.resource_type), each.resource_name)
            entries = {config.name: _entry(config) for config in sorted(each.configs, key=lambda config: config.name)}
            answers[resource] = answer_of(each.error_code, each.error_message, entries, _words(resource))
        return answers

    return await driver.run(list(resources), _owner(driver), ask)


async def incremental_alter_configs(
    driver: Driver, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool
) -> None:
    """Change single settings and leave the others."""

    async def ask(node_id: int, items: list[ConfigResource]) -> Answers[ConfigResource, None]:
        request = IncrementalAlterConfigsRequest(
            resources=[
                incremental.AlterConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configs=[
                        incremental.AlterableConfig(
                            name=change.name, config_operation=change.operation, value=change.value
                        )
                        for change in changes[each]
                    ],
                )
                for each in items
            ],
            validate_only=validate_only,
        )
        reply = await driver.client.send(node_id, request, IncrementalAlterConfigsResponse)
        return {
            resource: answer_of(each.error_code, each.error_message, None, _words(resource))
            for each in reply.responses
            for resource in [ConfigResource(ResourceType(each.resource_type), each.resource_name)]
        }

    await driver.run(changes, _owner(driver), ask)


async def replace_configs(
    driver: Driver, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool
) -> None:
    """Set these settings and return all others to their defaults."""

    async def ask(node_id: int, items: list[ConfigResource]) -> Answers[ConfigResource, None]:
        request = AlterConfigsRequest(
            resources=[
                replacing.AlterConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configs=[
                        replacing.AlterableConfig(name=name, value=value) for name, value in configs[each].items()
                    ],
                )
                for each in items
            ],
            validate_only=validate_only,
        )
        reply = await driver.client.send(node_id, request, AlterConfigsResponse)
        return {
            resource: answer_of(each.error_code, each.error_message, None, _words(resource))
            for each in reply.responses
            for resource in [ConfigResource(ResourceType(each.resource_type), each.resource_name)]
        }

    await driver.run(configs, _owner(driver), ask)


def _owner(driver: Driver) -> Route[ConfigResource]:
    async def route(resource: ConfigResource) -> int:
        """A broker's own settings are known to that broker alone; everything else to any."""
        if resource.type not in _OF_ONE_BROKER or not resource.name:
            return ANY_NODE
        if not resource.name.isdigit():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not the id of a broker")
        return await driver.to_broker(int(resource.name))

    return route


def _words(resource: ConfigResource) -> str:
    return f"{resource.type.name.lower()} {resource.name or 'defaults'}"


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        config.config_source,
        config.read_only,
        config.is_sensitive,
        tuple(ConfigSynonym(each.name, each.value, each.source) for each in config.synonyms),
        config.documentation,
    )
