"""Settings that change while the broker runs: whoever changes them leaves a notice in the tree, and this one listens.

There is one way for a change to take effect, whether a client of this broker asked for it or another broker wrote it:
the notice under `/config/changes` names an entity, its settings are read anew, and the running parts follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.settings import load_dynamic_layers, network_limits, warn_of_idle_settings
from tidelog.config import BrokerConfig, settings_without_effect, topic_config, topic_settings_without_effect
from tidelog.metadata.config_changes import ConfigChangeListener
from tidelog.metadata.configs import ConfigEntity, read_overrides

if TYPE_CHECKING:
    from tidelog.broker.node import Node


class DynamicConfig:
    """Lets a node follow its settings. Started once the node's parts are there."""

    def __init__(self, node: Node, static: BrokerConfig) -> None:
        self._node = node
        self._static = static

    def start(self) -> None:
        ConfigChangeListener(self._node.store, self.on_change, self._node.clock.wall_ms).start()

    def on_change(self, entity_path: str) -> None:
        """The settings of `topics/T` or `brokers/N` changed."""
        kind, _, name = entity_path.partition("/")
        if kind == "topics":
            idle = topic_settings_without_effect(read_overrides(self._node.store, ConfigEntity("topics", name)))
            warn_of_idle_settings(idle, f"topic {name}")
            self._node.topics.apply_config(name)
        elif kind == "brokers":
            self._follow_broker()

    def _follow_broker(self) -> None:
        node = self._node
        before = node.config
        node.config_layers = load_dynamic_layers(node.store, node.broker_id, self._static)
        node.config = node.config_layers.config
        known = settings_without_effect(before.originals)
        idle = [name for name in settings_without_effect(node.config.originals) if name not in known]
        warn_of_idle_settings(idle)
        node.socket_server.update_limits(network_limits(node.config))
        node.cleaning.update_config(node.config)
        if topic_config({}, before) != topic_config({}, node.config):
            node.topics.apply_all_configs()
