"""Read the topic settings of a Kafka cluster from its brokers or from its ZooKeeper.

The value of a topic setting is its override, or else a broker default, dynamic or from server.properties. Every value
that is not Kafka's built-in default becomes an override here, so that a topic keeps its settings on a new broker with
other defaults.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ConfigResource, ResourceType
from tidelog.config import LogConfig
from tidelog.config.layers import ConfigLayers, ConfigSource
from tidelog.metadata import paths
from tidelog.metadata.tree import decode_config

_CONNECT_SECONDS: Final = 5.0
_BROKER_NAMES: Final = frozenset(
    synonym.name for declared in LogConfig.settings.values() for synonym in declared.synonyms
)
"""Broker settings that are defaults for topics."""


class KafkaSettings(NamedTuple):
    """The overrides of a topic. `is_complete`: the defaults of its broker are known and included."""

    overrides: dict[str, str]
    is_complete: bool


def read_from_brokers(admin: Admin, topics: Collection[str]) -> dict[str, KafkaSettings]:
    """The settings of the given topics, if the cluster has them."""
    known = {topic.name for topic in admin.list_topics(include_internal=True)}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(topics) if name in known]
    found = {}
    for resource, configs in admin.describe_configs(resources).items():
        described = [(config.name, config.value, int(config.source)) for config in configs.values()]
        found[resource.name] = KafkaSettings(_overrides(described), is_complete=True)
    return found


def read_from_zookeeper(
    address: str, topics: Collection[str], broker_id: int, server_properties: Mapping[str, str] | None
) -> dict[str, KafkaSettings]:
    """The settings of the given topics in the ZooKeeper at `address`, host:port[/chroot].

    The broker's defaults are in server.properties: without that file they are unknown.
    """
    kazoo_client, kazoo_errors = _kazoo()
    client = kazoo_client(hosts=address, read_only=True, logger=_silent_logger())
    try:
        client.start(timeout=_CONNECT_SECONDS)
        return _read_tree(_Reader(client, kazoo_errors.NoNodeError), topics, broker_id, server_properties)
    except (kazoo_errors.KazooException, client.handler.timeout_exception) as error:
        raise CommandError(f"--zookeeper {address} cannot be read: {error or type(error).__name__}") from error
    finally:
        client.stop()
        client.close()


class _Reader:
    """Overrides of entities in a ZooKeeper."""

    def __init__(self, client: Any, no_node: type[Exception]) -> None:
        self._client = client
        self._no_node = no_node

    def names(self, path: str) -> set[str]:
        try:
            return set(self._client.get_children(path))
        except self._no_node:
            return set()

    def overrides(self, kind: str, name: str) -> dict[str, str]:
        try:
            data, _ = self._client.get(paths.config(kind, name))
        except self._no_node:
            return {}
        return decode_config(kind, name, data or b"")


def _read_tree(
    reader: _Reader, topics: Collection[str], broker_id: int, server_properties: Mapping[str, str] | None
) -> dict[str, KafkaSettings]:
    existing = reader.names(paths.TOPICS)
    if not existing:
        raise CommandError(f"the ZooKeeper has no topics below {paths.TOPICS}: is the chroot missing from --zookeeper?")
    layers = ConfigLayers(
        topic_defaults(server_properties or {}),
        cluster=topic_defaults(reader.overrides("brokers", paths.DEFAULT_ENTITY)),
        broker=topic_defaults(reader.overrides("brokers", str(broker_id))),
    )
    found = {}
    for name in sorted(existing.intersection(topics)):
        entries = layers.describe_topic(_known_to_us(reader.overrides("topics", name)))
        described = [(entry.name, entry.value, int(entry.source)) for entry in entries]
        found[name] = KafkaSettings(_overrides(described), is_complete=server_properties is not None)
    return found


def _overrides(described: Iterable[tuple[str, str | None, int]]) -> dict[str, str]:
    """The settings that are topic overrides or differ from Kafka's built-in defaults.

    The source alone is not enough: a retention from `log.retention.hours` is described as a default.
    """
    return {
        name: value
        for name, value, source in described
        if value is not None
        and (declared := LogConfig.settings.get(name)) is not None
        and (source == ConfigSource.TOPIC_CONFIG or value != declared.format(declared.default))
    }


def topic_defaults(properties: Mapping[str, str]) -> dict[str, str]:
    """The broker settings that are defaults for topics."""
    return {name: value for name, value in properties.items() if name in _BROKER_NAMES}


def _known_to_us(overrides: Mapping[str, str]) -> dict[str, str]:
    """Drop settings that Tidelog does not have: replication throttles, and settings of newer versions."""
    return {name: value for name, value in overrides.items() if name in LogConfig.settings}


def _silent_logger() -> logging.Logger:
    """kazoo logs every attempt to connect; the command reports the outcome."""
    logger = logging.getLogger(f"{__name__}.kazoo")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _kazoo() -> tuple[Any, Any]:
    try:
        from kazoo import exceptions
        from kazoo.client import KazooClient
    except ImportError:
        raise CommandError("--zookeeper needs kazoo: pip install 'tidelog[zookeeper]'") from None
    return KazooClient, exceptions
