"""Waits until every broker shows a change that one broker has confirmed.

A change of metadata is confirmed by the controller, or by the broker that received the request, and reaches the other
brokers a moment later. A client that then asks another broker would see the cluster as it was. With the admin's setting
`visible.timeout.ms` a change ends when each broker that can be reached shows it. The change itself has been made by
then: a broker that does not show it in time is logged, and the call succeeds.

Offsets, groups and transactions need none of this: they are read from the coordinator or leader that changed them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from tidelog.client.aio.admin import access, configs, features, tokens, topics, users
from tidelog.client.aio.admin.driver import Driver, PartlyRefused
from tidelog.client.aio.admin.types import (
    AlterOperation,
    ClientQuotaEntity,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    DelegationToken,
    ResourceType,
    ScramCredentialUpsert,
    TopicDescription,
)
from tidelog.client.aio.reactions import reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, ClientError
from tidelog.client.types import TopicPartition
from tidelog.security.acls import AclBinding, AclBindingFilter
from tidelog.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

Shows = Callable[[Driver], Awaitable[bool]]
"""Whether the broker that this driver sends to shows a change."""

_BACKOFF: Final = Backoff(10, 200)
_OWN_SOURCES: Final[Mapping[ResourceType, ConfigSource]] = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC,
    ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER,
}


async def until_visible(
    driver: Driver, shows: Shows, timeout_ms: int, brokers: Collection[int] | None = None
) -> list[int]:
    """Wait until `brokers` (None: all) show a change; returns those that did not within the time, which are logged."""
    asked = sorted(driver.client.metadata.nodes if brokers is None else brokers)
    if not asked or timeout_ms <= 0:
        return []
    waiting = {node_id: asyncio.create_task(_until_shown(driver.at(node_id), shows)) for node_id in asked}
    try:
        await asyncio.wait(waiting.values(), timeout=timeout_ms / 1000)
        late = [node_id for node_id, task in waiting.items() if not task.done()]
    finally:
        for task in waiting.values():
            task.cancel()
        await asyncio.gather(*waiting.values(), return_exceptions=True)
    if late:
        names = ", ".join(str(each) for each in late)
        logger.warning("the change was made, but after %d ms it is not visible on broker %s", timeout_ms, names)
    for node_id, task in waiting.items():
        if node_id not in late:
            task.result()
    return late


async def _until_shown(broker: Driver, shows: Shows) -> None:
    failures = 0
    while True:
        try:
            if await shows(broker):
                return
        except ApiError as error:
            if not reaction_to(error).is_retriable:
                return  # this client may make the change, but not look at it
        except ClientError:
            return  # the broker serves no client now, and has the change when it is back
        failures += 1
        await asyncio.sleep(_BACKOFF.after(failures) / 1000)


# Topics.


def topics_there(totals: Mapping[str, int]) -> Shows:
    """Topics with at least so many partitions, each with a leader."""

    async def shows(broker: Driver) -> bool:
        found = await _describe(broker, totals)
        return all(
            described is not None and sum(each.leader_id >= 0 for each in described.partitions) >= totals[name]
            for name, described in found.items()
        )

    return shows


def topics_gone(names: Collection[str]) -> Shows:
    """Topics that are deleted."""

    async def shows(broker: Driver) -> bool:
        return all(described is None for described in (await _describe(broker, names)).values())

    return shows


def leaders_since(elected: Mapping[TopicPartition, int]) -> Shows:
    """Partitions with a leader of at least these epochs."""
    names = {where.topic for where in elected}

    async def shows(broker: Driver) -> bool:
        found = epochs_of(await _describe(broker, names))
        return all(found.get(where, epoch) >= epoch for where, epoch in elected.items())

    return shows


def epochs_of(described: Mapping[str, TopicDescription | None]) -> dict[TopicPartition, int]:
    """The leader epoch of each partition."""
    return {
        TopicPartition(name, each.partition): each.leader_epoch
        for name, topic in described.items()
        if topic is not None
        for each in topic.partitions
    }


async def _describe(broker: Driver, names: Iterable[str]) -> dict[str, TopicDescription | None]:
    """Topics as one broker shows them, None for those that it does not; those that it will not describe are left out.

    Raises the error of the first topic that can be described later.
    """
    errors: Mapping[str, ApiError] = {}
    found: dict[str, TopicDescription | None] = {}
    wanted = list(names)
    try:
        found.update(await topics.describe_topics(broker, wanted))
    except PartlyRefused as refused:
        found.update(refused.results)
        errors = refused.errors
    except ApiError as error:
        errors = dict.fromkeys(wanted, error)
    for name, reason in errors.items():
        if reason.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            found[name] = None
        elif reaction_to(reason).is_retriable:
            raise reason
    return found


# Settings.


def brokers_with(resource: ConfigResource) -> list[int] | None:
    """The brokers that show the settings of a resource; None for all of them."""
    if resource.type is ResourceType.BROKER and resource.name:
        return [int(resource.name)]
    return None if resource.type in _OWN_SOURCES else []


def settings_changed(resource: ConfigResource, changes: Sequence[ConfigChange]) -> Shows:
    """Settings of a resource, as the changes leave them."""
    names = [each.name for each in changes]
    own = _OWN_SOURCES.get(resource.type, ConfigSource.UNKNOWN)
    if resource == ConfigResource(ResourceType.BROKER, ""):
        own = ConfigSource.DYNAMIC_DEFAULT_BROKER

    async def shows(broker: Driver) -> bool:
        found = await configs.describe_configs(
            broker, [resource], names=names, include_synonyms=False, include_documentation=False
        )
        return all(_is_applied(each, found[resource].get(each.name), own) for each in changes)

    return shows


def _is_applied(change: ConfigChange, entry: ConfigEntry | None, own: ConfigSource) -> bool:
    is_own = entry is not None and entry.source == own
    if change.operation is AlterOperation.DELETE:
        return not is_own
    if entry is None:
        return True  # brokers do not list every setting that they take, such as those of single listeners
    if entry.is_sensitive or entry.value is None:
        return is_own
    wanted = change.value or ""
    if change.operation is AlterOperation.SET:
        return is_own and _normal(entry.value) == _normal(wanted)
    items, changed = ({each.strip() for each in text.split(",") if each.strip()} for text in (entry.value, wanted))
    return changed <= items if change.operation is AlterOperation.APPEND else not changed & items


def _normal(value: str) -> str | float:
    """A value as brokers compare it: they return 0.50 as 0.5 and `a, B` of an enumeration as `a,b`."""
    try:
        return float(value)
    except ValueError:
        return "".join(value.split()).lower()


# Access, users, quotas, tokens.


def acls_there(bindings: Collection[AclBinding]) -> Shows:
    """Access control entries that exist."""

    async def shows(broker: Driver) -> bool:
        return set(bindings) <= set(await access.describe_acls(broker, AclBindingFilter()))

    return shows


def acls_gone(bindings: Collection[AclBinding]) -> Shows:
    """Access control entries that were removed."""

    async def shows(broker: Driver) -> bool:
        return not set(bindings) & set(await access.describe_acls(broker, AclBindingFilter()))

    return shows


def credentials_changed(changes: Collection[users.ScramChange]) -> Shows:
    """SCRAM credentials that were set or deleted. Of a password that was changed, brokers show only the iterations."""
    wanted = {
        (each.user, each.mechanism): each.iterations if isinstance(each, ScramCredentialUpsert) else None
        for each in changes
    }
    names = sorted({user for user, _ in wanted})

    async def shows(broker: Driver) -> bool:
        found = await users.describe(broker, names)
        return all(found.get(user, {}).get(mechanism) == iterations for (user, mechanism), iterations in wanted.items())

    return shows


def quotas_changed(changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]]) -> Shows:
    """Quotas that were set or removed."""

    async def shows(broker: Driver) -> bool:
        found = await access.describe_client_quotas(broker)
        return all(
            found.get(entity, {}).get(name) == value
            for entity, limits in changes.items()
            for name, value in limits.items()
        )

    return shows


def features_changed(wanted: Mapping[str, int]) -> Shows:
    """Levels of features that were finalised."""

    async def shows(broker: Driver) -> bool:
        found = features.levels_in(await features.ask_one(broker))
        return all(found.get(name, 0) == level for name, level in wanted.items())

    return shows


def token_there(token: DelegationToken) -> Shows:
    """A delegation token that was created."""

    async def shows(broker: Driver) -> bool:
        return token.token_id in {each.token_id for each in await tokens.describe(broker, [token.owner])}

    return shows
