"""Settings that change while the broker runs: every change writes a notice to the tree, which brokers watch.

There is one way for a change to take effect, whether a client of this broker asked for it or another broker wrote it:
the notice under `/config/changes` names an entity, its settings are read again, and the running parts follow.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.announced_changes import AnnouncedChanges
from tidelog.broker.settings import (
    limit_replication,
    load_dynamic_layers,
    network_limits,
    registration_of,
    warn_of_idle_settings,
)
from tidelog.config import settings_without_effect, topic_config, topic_settings_without_effect
from tidelog.controller.partition_states import UNCLEAN_ELECTION
from tidelog.metadata.configs import CONFIG_CHANGES, ConfigEntity, read_overrides
from tidelog.metadata.image import BrokerImage
from tidelog.metadata.registration import register_broker
from tidelog.metadata.users import user_name

if TYPE_CHECKING:
    from tidelog.broker.node import Node

logger = logging.getLogger(__name__)


class DynamicConfig:
    """Lets a node follow its settings. Started once the node's parts are there."""

    def __init__(self, node: Node) -> None:
        self._node = node
        changes = AnnouncedChanges("settings", CONFIG_CHANGES, node.metadata, node.clock.wall_ms, self._follow)
        self.start = changes.start
        self.take = changes.take
        self.look = changes.look

    async def _follow(self, entity_path: str) -> None:
        """The settings of `topics/T` or `brokers/N` changed."""
        kind, _, name = entity_path.partition("/")
        if kind == "topics":
            overrides = await self._node.metadata.run(read_overrides, ConfigEntity(kind, name))
            warn_of_idle_settings(topic_settings_without_effect(overrides), f"topic {name}")
            await self._node.topics.apply_overrides(name, overrides)
            if self._node.member is not None and overrides.get(UNCLEAN_ELECTION, "").lower() == "true":
                self._node.member.controller.enable_unclean_elections(name)
        elif kind == "brokers":
            await self._follow_broker()
        else:
            if kind == "users" and "/" not in name:
                settings = await self._node.metadata.run(read_overrides, ConfigEntity(kind, name))
                self._node.listener_security.credentials.update(user_name(name), settings)
            await self._node.client_quotas.follow(entity_path)

    async def _follow_broker(self) -> None:
        node = self._node
        layers = await node.metadata.run(load_dynamic_layers, node.broker_id, node.config_layers.static)
        before, node.config_layers, node.config = node.config, layers, layers.config
        known = settings_without_effect(before.originals)
        warn_of_idle_settings([each for each in settings_without_effect(node.config.originals) if each not in known])
        node.socket_server.update_limits(network_limits(node.config, node.surroundings.socket_descriptors_max()))
        await node.background.run(partial(node.listener_security.read, node.config))
        node.listener_security.apply(node.socket_server, node.authentication)
        node.cleaning.update_config(node.config)
        limit_replication(node.replication_quotas, layers)
        if node.member is not None:
            node.member.update_config(node.config)
        if before.parsed_advertised_listeners != node.config.parsed_advertised_listeners:
            await self._register()
        if topic_config({}, before) != topic_config({}, node.config):
            await node.topics.apply_all_configs()

    async def _register(self) -> None:
        """Advertise other addresses, from the next Metadata response on."""
        node = self._node
        if node.member is not None:
            await node.member.register()
            return
        ports = node.socket_server.ports()
        registration = registration_of(node.config, node.broker_id, ports, node.clock.wall_ms())
        broker_epoch = await node.metadata.run(register_broker, registration)
        node.image.set_broker(BrokerImage.of(registration, broker_epoch))
