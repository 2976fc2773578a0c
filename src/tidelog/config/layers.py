"""The layers a setting's value may come from, and the view DescribeConfigs gives of them.

    topic override > this broker's dynamic setting > the cluster's dynamic setting > server.properties > default

`ConfigLayers` is immutable: a dynamic change makes a new one. The broker holds the current one; the handlers of
DescribeConfigs and AlterConfigs are its callers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from tidelog.config.broker_config import BrokerConfig, listener_setting
from tidelog.config.declaration import Setting, Settings, parse_settings
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.entities import ClientMetricsConfig, GroupConfig, group_values
from tidelog.config.loading import load_broker_config
from tidelog.config.log_config import LogConfig
from tidelog.config.topics import topic_values


class ConfigSource(IntEnum):
    """Where a value comes from, as DescribeConfigs numbers it."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigSynonym(NamedTuple):
    """One layer that has a value for a setting."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting as DescribeConfigs shows it. The value of a sensitive setting is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    type_code: int
    documentation: str | None


# Settings that stand for each other, in order of precedence: setting one dynamically hides the static others.
_FAMILIES: Final = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FAMILY_OF: Final = {name: family for family in _FAMILIES for name in family}

# Kafka keeps these two out of DescribeConfigs, and so do we.
_INTERNAL: Final = frozenset(("log.initial.task.delay.ms", "producer.id.expiration.check.interval.ms"))


class ConfigLayers:
    """The static and dynamic settings of one broker, and the configuration they add up to."""

    __slots__ = ("broker", "cluster", "config", "static")

    def __init__(
        self,
        static: Mapping[str, str],
        *,
        cluster: Mapping[str, str] | None = None,
        broker: Mapping[str, str] | None = None,
    ) -> None:
        """`static` is server.properties, `cluster` and `broker` are dynamic. Raises ConfigError."""
        self.static: Final = dict(static)
        self.cluster: Final = dict(cluster or {})
        self.broker: Final = dict(broker or {})
        merged = _overlay(_overlay(self.static, self.cluster), self.broker)
        self.config: Final[BrokerConfig] = load_broker_config(merged, ignore_unknown=True)

    def with_cluster(self, properties: Mapping[str, str]) -> ConfigLayers:
        """The layers after the cluster's dynamic settings became `properties`."""
        return ConfigLayers(self.static, cluster=properties, broker=self.broker)

    def with_broker(self, properties: Mapping[str, str]) -> ConfigLayers:
        """The layers after this broker's dynamic settings became `properties`."""
        return ConfigLayers(self.static, cluster=self.cluster, broker=properties)

    def dynamic_only(self) -> DynamicOnlySettings:
        """The settings that exist only as dynamic ones."""
        return DynamicOnlySettings(**parse_settings(DynamicOnlySettings, self.cluster | self.broker))

    def describe_broker(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Every setting of this broker, sorted, or those in `names` that exist."""
        known = (
            (BrokerConfig.settings.keys() - _INTERNAL) | self.static.keys() | self.cluster.keys() | self.broker.keys()
        )
        return [self._broker_entry(name) for name in _selected(known, names)]

    def describe_cluster(self, names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """The cluster's dynamic settings, sorted, or those in `names` that are set."""
        entries = []
        for name in _selected(self.cluster.keys(), names):
            entry = self._broker_entry(name)
            own = tuple(each for each in entry.synonyms if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            value = None if entry.is_sensitive else self.cluster[name]
            entries.append(entry._replace(value=value, synonyms=own, source=own[0].source))
        return entries

    def describe_topic(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Every setting of a topic, sorted, or those in `names` that exist. Raises ConfigError for bad overrides."""
        values = topic_values(overrides, self.config)
        return self._own_entries(LogConfig, values, overrides, names, ConfigSource.TOPIC_CONFIG)

    def describe_group(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Every setting of a group, sorted, or those in `names` that exist. Raises ConfigError for bad overrides."""
        values = group_values(overrides, self.config)
        return self._own_entries(GroupConfig, values, overrides, names, ConfigSource.GROUP_CONFIG)

    def describe_client_metrics(
        self, overrides: Mapping[str, str], names: Iterable[str] | None = None
    ) -> list[ConfigEntry]:
        """Every setting of a subscription to clients' metrics, likewise."""
        values = {**ClientMetricsConfig.defaults, **parse_settings(ClientMetricsConfig, overrides)}
        return self._own_entries(ClientMetricsConfig, values, overrides, names, ConfigSource.CLIENT_METRICS_CONFIG)

    def _own_entries(
        self,
        settings: type[Settings],
        values: Mapping[str, Any],
        overrides: Mapping[str, str],
        names: Iterable[str] | None,
        source: ConfigSource,
    ) -> list[ConfigEntry]:
        """Settings of an entity with overrides of its own, of which `source` is the layer."""
        entries = []
        for name in _selected(settings.settings.keys(), names):
            declared = settings.settings[name]
            value = declared.format(values[declared.field])
            synonyms = self._synonyms_of(declared.synonyms[0].name) if declared.synonyms else ()
            if name in overrides:
                synonyms = (ConfigSynonym(name, value, source), *synonyms)
            entries.append(_entry(declared, name, value, synonyms, read_only=False))
        return entries

    def _broker_entry(self, name: str) -> ConfigEntry:
        declared = _declared(name)
        synonyms = self._synonyms_of(name)
        if declared is None:
            # The setting is unknown, so its value may be a secret.
            source = synonyms[0].source if synonyms else ConfigSource.UNKNOWN
            return ConfigEntry(name, None, source, True, True, synonyms, 0, None)
        if name == declared.name and declared.name in BrokerConfig.settings:
            value = declared.format(getattr(self.config, declared.field))
        else:
            value = synonyms[0].value if synonyms else None
        return _entry(declared, name, value, synonyms, read_only=_is_read_only(name, declared))

    def _synonyms_of(self, name: str) -> tuple[ConfigSynonym, ...]:
        """All layers that have a value for a broker setting or one that stands for it, the winner first."""
        names = _related(name)
        layers = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.broker.get),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.cluster.get),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static.get),
            (ConfigSource.DEFAULT_CONFIG, self._default_text),
        )
        found = [
            ConfigSynonym(each, _shown(each, text), source)
            for source, lookup in layers
            for each in names
            if (text := lookup(each)) is not None
        ]
        # As in Kafka, what precedes the setting's own first value belongs to another member of its family.
        first = next((position for position, each in enumerate(found) if each.name == name), len(found))
        return tuple(found[first:])

    def _default_text(self, name: str) -> str | None:
        declared = BrokerConfig.settings.get(name)
        if declared is None:
            return None
        return declared.format(declared.default_alone if self.config.is_alone else declared.default)


def _overlay(lower: Mapping[str, str], upper: Mapping[str, str]) -> dict[str, str]:
    """`lower` with `upper` laid over it; a setting in `upper` removes its whole family from `lower`."""
    merged = dict(lower)
    for name in upper:
        for each in _FAMILY_OF.get(name, (name,)):
            merged.pop(each, None)
    merged.update(upper)
    return merged


def _selected(known: Iterable[str], names: Iterable[str] | None) -> list[str]:
    """The known names among `names`, sorted; all of them when `names` is empty or None."""
    wanted = set(names or ())
    return sorted(set(known) & wanted if wanted else known)


def _declared(name: str) -> Setting | None:
    return BrokerConfig.settings.get(name) or DynamicOnlySettings.settings.get(name) or listener_setting(name)


def _related(name: str) -> tuple[str, ...]:
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    family = _FAMILY_OF.get(name)
    if family is not None:
        return family
    declared = listener_setting(name)
    return (name,) if declared is None else (name, declared.name)


def _shown(name: str, text: str) -> str | None:
    declared = _declared(name)
    return None if declared is None or declared.is_sensitive else text


def _is_read_only(name: str, declared: Setting) -> bool:
    """Kafka calls every setting of a single listener read-only here, though some can be altered."""
    return declared.dynamic == "read-only" or listener_setting(name) is not None


def _entry(
    declared: Setting, name: str, value: str | None, synonyms: tuple[ConfigSynonym, ...], *, read_only: bool
) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=None if declared.is_sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=declared.is_sensitive,
        read_only=read_only,
        synonyms=synonyms,
        type_code=declared.kind.code,
        documentation=declared.described(),
    )
