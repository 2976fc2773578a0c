"""From properties to a BrokerConfig: names, values, and the values against each other.

Settings of Kafka 3.9 that Tidelog does not declare are ignored or rejected (`kafka_only`), before a name counts as
unknown. So a server.properties written for Kafka loads unchanged, unless it needs a feature that Tidelog does not have.

The start-up sequence calls `load_broker_config` with the properties of the command line; the dynamic layers call it
again with each change.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from tidelog.config import kafka_only
from tidelog.config._cross_checks import check_broker_config
from tidelog.config.broker_config import BrokerConfig, listener_of, listener_setting, takes_effect_per_listener
from tidelog.config.declaration import Setting, parse_settings
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.errors import ConfigError, UnknownSettingError
from tidelog.config.kinds import parse_items
from tidelog.config.log_config import LogConfig
from tidelog.config.names import with_suggestion

_DEFAULTS_ALONE: Final[Mapping[str, object]] = {
    each.field: each.default_alone for each in BrokerConfig.settings.values() if each.default_alone is not each.default
}


def load_broker_config(properties: Mapping[str, str], *, ignore_unknown: bool = False) -> BrokerConfig:
    """The configuration that `properties` describe, whole and consistent.

    Raises ConfigError for a malformed value, values that contradict each other, a setting that only a KRaft cluster
    has, and, unless `ignore_unknown`, names that no setting has.
    """
    _refuse_kraft_settings(properties)
    unknown = unknown_settings(properties)
    if unknown and not ignore_unknown:
        raise UnknownSettingError(_unknown_text(unknown), setting=unknown[0])
    _refuse_tiered_storage(properties)
    values = parse_settings(BrokerConfig, properties)
    _check_listener_settings(properties)
    if "log.dirs" not in properties and values.get("log_dir"):
        values["log_dirs"] = (values["log_dir"],)
    node_id, broker_id = values.get("node_id", -1), values.get("broker_id")
    if node_id >= 0:
        values["broker_id"] = node_id
        if broker_id not in (None, node_id):
            raise ConfigError(f"node.id={node_id} and broker.id={broker_id} name two brokers: leave broker.id out")
    config = BrokerConfig(**values, originals=dict(properties))
    if config.is_alone:
        config = config.replace(**{field: value for field, value in _DEFAULTS_ALONE.items() if field not in values})
    check_broker_config(config)
    return config


def unknown_settings(names: Iterable[str]) -> list[str]:
    """Those names, sorted, that neither Tidelog nor Kafka has a setting for."""
    return sorted(name for name in names if not _is_known(name))


def settings_without_effect(properties: Mapping[str, str]) -> list[str]:
    """The names, sorted, of settings that are accepted although nothing reads them. The broker logs them once.

    A declared setting counts only if its value is not the default, which it would have anyway. Names that no setting
    has can only be dynamic ones; what they may stand for is said with them.
    """
    listeners = parse_items(properties.get("listeners", BrokerConfig.settings["listeners"].default))
    names = {each.partition("://")[0].strip().lower() for each in listeners}
    return sorted(
        name if _is_known(name) else with_suggestion(name, BrokerConfig.settings)
        for name, text in properties.items()
        if _is_set_in_vain(name, text, names)
    )


def topic_settings_without_effect(overrides: Mapping[str, str]) -> list[str]:
    """The same for the settings of a topic."""
    settings = LogConfig.settings
    return sorted(name for name, text in overrides.items() if name in settings and _is_idle_value(settings[name], text))


def _is_set_in_vain(name: str, text: str, listeners: Container[str]) -> bool:
    declared = BrokerConfig.settings.get(name) or DynamicOnlySettings.settings.get(name)
    if declared is not None:
        return _is_idle_value(declared, text)
    of_listener = listener_setting(name)
    if of_listener is None:
        return True
    return listener_of(name) not in listeners or not takes_effect_per_listener(of_listener)


def _is_idle_value(declared: Setting, text: str) -> bool:
    return not declared.has_effect and text.strip() != declared.format(declared.default)


def _is_known(name: str) -> bool:
    if name in BrokerConfig.settings or name in DynamicOnlySettings.settings or kafka_only.is_ignored(name):
        return True
    return listener_setting(name) is not None


def _unknown_text(unknown: list[str]) -> str:
    described = ", ".join(with_suggestion(name, BrokerConfig.settings) for name in unknown)
    return f"Unknown setting{'s' if len(unknown) > 1 else ''}: {described}"


def _refuse_kraft_settings(properties: Mapping[str, str]) -> None:
    if properties.get("process.roles", "").strip():
        return
    found = [(name, advice) for name in properties if (advice := kafka_only.ONLY_IN_KRAFT.get(name)) is not None]
    if found:
        described = "; ".join(f"{name}: {advice}" for name, advice in found)
        raise ConfigError(
            "Without process.roles=broker Tidelog works as Kafka does in ZooKeeper mode, not in KRaft mode. "
            f"{described}."
        )


def _refuse_tiered_storage(properties: Mapping[str, str]) -> None:
    name = "remote.log.storage.system.enable"
    if properties.get(name, "false").strip().lower() == "true":
        raise ConfigError(f"{name}=true: tiered storage is not supported", setting=name)


def _check_listener_settings(properties: Mapping[str, str]) -> None:
    """Parse the settings of single listeners, to report errors early; `BrokerConfig.for_listener` applies them."""
    for name, text in properties.items():
        declared = listener_setting(name)
        if declared is not None:
            try:
                declared.parse(text)
            except ConfigError as error:
                raise ConfigError(f"{name}: {error}", setting=name) from None
