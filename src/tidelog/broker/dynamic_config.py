"""Settings that change while the broker runs: every change writes a notice to the tree, which brokers watch.

There is one way for a change to take effect, whether a client of this broker asked for it or another broker wrote it:
the notice under `/config/changes` names an entity, its settings are read again, and the running parts follow.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.configuration.announced_changes import AnnouncedChanges
from tidelog.broker.configuration.settings import (
    limit_replication,
    load_dynamic_layers,
    network_limits,
    warn_of_idle_settings,
)
from tidelog.config import settings_without_effect, topic_config, topic_settings_without_effect
from tidelog.controller.partition_states import UNCLEAN_ELECTION
from tidelog.metadata.configs import CONFIG_CHANGES, ConfigEntity, read_overrides
from tidelog.metadata.entities import KINDS
from tidelog.metadata.users import user_name

if TYPE_CHECKING:
    from tidelog.broker.client_quotas import ClientQuotaManager
    from tidelog.broker.configuration.entity_settings import EntitySettings
    from tidelog.broker.security.authentication import Authentication
    from tidelog.broker.topology.topology import BrokerParts, Topology

logger = logging.getLogger(__name__)


def follow_settings(
    parts: BrokerParts,
    topology: Topology,
    quotas: ClientQuotaManager,
    authentication: Authentication | None,
    entities: EntitySettings,
) -> AnnouncedChanges[str]:
    """Let the parts of a broker follow its settings, from the `start` of what is returned."""
    follower = _Follower(parts, topology, quotas, authentication, entities)
    return AnnouncedChanges("settings", CONFIG_CHANGES, parts.metadata, parts.base.clock.wall_ms, follower.follow)


class _Follower:
    def __init__(
        self,
        parts: BrokerParts,
        topology: Topology,
        quotas: ClientQuotaManager,
        authentication: Authentication | None,
        entities: EntitySettings,
    ) -> None:
        self._parts = parts
        self._metadata = parts.metadata
        self._topology = topology
        self._quotas = quotas
        self._authentication = authentication
        self._entities = entities

    async def follow(self, entity_path: str) -> None:
        """The settings of `topics/T` or `brokers/N` changed."""
        kind, _, name = entity_path.partition("/")
        if kind == "topics":
            overrides = await self._metadata.run(read_overrides, ConfigEntity(kind, name))
            warn_of_idle_settings(topic_settings_without_effect(overrides), f"topic {name}")
            await self._parts.topics.apply_overrides(name, overrides)
            if overrides.get(UNCLEAN_ELECTION, "").lower() == "true":
                self._topology.allow_unclean_elections(name)
        elif kind == "brokers":
            await self._follow_broker()
        elif kind in KINDS:
            await self._entities.follow(kind, name)
        else:
            if kind == "users" and "/" not in name:
                settings = await self._metadata.run(read_overrides, ConfigEntity(kind, name))
                self._parts.listener_security.credentials.update(user_name(name), settings)
            await self._quotas.follow(entity_path)

    async def _follow_broker(self) -> None:
        parts, base, before = self._parts, self._parts.base, self._parts.settings.config
        layers = await self._metadata.run(load_dynamic_layers, parts.broker_id, parts.settings.layers.static)
        parts.settings.replace(layers)
        config = layers.config
        known = settings_without_effect(before.originals)
        warn_of_idle_settings(
            [
                each
                for each in settings_without_effect(config.originals)
                if each not in known or config.originals.get(each) != before.originals.get(each)
            ]
        )
        parts.network.update_limits(network_limits(config, base.surroundings.socket_descriptors_max()))
        await base.background.run(partial(parts.listener_security.read, config))
        parts.listener_security.apply(parts.network, self._authentication)
        base.cleaning.update_config(config)
        limit_replication(parts.replication_quotas, layers)
        self._topology.follow_settings(config)
        if before.parsed_advertised_listeners != config.parsed_advertised_listeners:
            await self._topology.register()
        if topic_config({}, before) != topic_config({}, config):
            await parts.topics.apply_all_configs()
