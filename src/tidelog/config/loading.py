"""From properties to a BrokerConfig: names, values, and the values against each other.

Settings of Kafka 3.9 that Tidelog does not declare are ignored or rejected by the tables below, before a name counts as
unknown. So a server.properties written for Kafka loads unchanged, unless it needs a feature that Tidelog does not have.

The start-up sequence calls `load_broker_config` with the properties of the command line; the dynamic layers call it
again with each change.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from tidelog.config._cross_checks import check_broker_config
from tidelog.config.broker_config import BrokerConfig, listener_of, listener_setting, takes_effect_per_listener
from tidelog.config.declaration import Setting, parse_settings
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.errors import ConfigError, UnknownSettingError
from tidelog.config.kinds import parse_items
from tidelog.config.log_config import LogConfig

# Settings that form a KRaft cluster. Ignoring one would start a different kind of broker than the file describes.
_KRAFT_ADVICE: Final = {
    "process.roles": "leave it out; a broker has no roles",
    "node.id": "use broker.id",
    "controller.quorum.voters": "leave it out; metadata is in ZooKeeper or embedded",
    "controller.quorum.bootstrap.servers": "leave it out; metadata is in ZooKeeper or embedded",
    "controller.listener.names": "leave it out; the controller is one of the brokers",
    "metadata.log.dir": "leave it out; embedded metadata is in the first of log.dirs",
}

# Settings of features that Tidelog does not have: KRaft, tiered storage, the JVM, share groups, bounds of groups,
# telemetry.
# fmt: off
_WITHOUT_EFFECT: Final = frozenset((
    "auto.include.jmx.reporter", "broker.heartbeat.interval.ms", "broker.session.timeout.ms", "early.start.listeners",
    "eligible.leader.replicas.enable", "initial.broker.registration.timeout.ms",
    "kafka.metrics.polling.interval.secs", "kafka.metrics.reporters", "log.dir.failure.timeout.ms",
    "sasl.mechanism.controller.protocol", "security.providers", "server.max.startup.time.ms", "telemetry.max.bytes",
    "unclean.leader.election.interval.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
    "zookeeper.clientCnxnSocket",
))
_PREFIXES_WITHOUT_EFFECT: Final = (
    "controller.quorum.", "group.consumer.", "group.coordinator.", "group.share.", "metadata.", "remote.fetch.",
    "remote.log.", "rlmm.config.", "rsm.config.", "zookeeper.metadata.migration.",
)
# fmt: on


def load_broker_config(properties: Mapping[str, str], *, ignore_unknown: bool = False) -> BrokerConfig:
    """The configuration that `properties` describe, whole and consistent.

    Raises ConfigError for a malformed value, values that contradict each other, a setting that only a KRaft cluster
    has, and, unless `ignore_unknown`, names that no setting has.
    """
    _refuse_kraft(properties)
    unknown = unknown_settings(properties)
    if unknown and not ignore_unknown:
        raise UnknownSettingError(_unknown_text(unknown), setting=unknown[0])
    _refuse_tiered_storage(properties)
    values = parse_settings(BrokerConfig, properties)
    _check_listener_settings(properties)
    if "log.dirs" not in properties and values.get("log_dir"):
        values["log_dirs"] = (values["log_dir"],)
    config = BrokerConfig(**values, originals=dict(properties))
    check_broker_config(config)
    return config


def unknown_settings(names: Iterable[str]) -> list[str]:
    """Those names, sorted, that neither Tidelog nor Kafka has a setting for."""
    return sorted(name for name in names if not _is_known(name))


def settings_without_effect(properties: Mapping[str, str]) -> list[str]:
    """The names, sorted, of settings that are accepted although nothing reads them. The broker logs them once.

    A declared setting counts only if its value is not the default, which it would have anyway.
    """
    listeners = parse_items(properties.get("listeners", BrokerConfig.settings["listeners"].default))
    names = {each.partition("://")[0].strip().lower() for each in listeners}
    return sorted(name for name, text in properties.items() if _is_set_in_vain(name, text, names))


def topic_settings_without_effect(overrides: Mapping[str, str]) -> list[str]:
    """The same for the settings of a topic."""
    settings = LogConfig.settings
    return sorted(name for name, text in overrides.items() if name in settings and _is_idle_value(settings[name], text))


def with_suggestion(name: str, known: Iterable[str]) -> str:
    """The name, and the known one that it is most likely a misspelling of."""
    from difflib import get_close_matches  # only on the way to an error

    matches = get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f"{name} (did you mean {matches[0]}?)" if matches else name


def _is_set_in_vain(name: str, text: str, listeners: Container[str]) -> bool:
    declared = BrokerConfig.settings.get(name) or DynamicOnlySettings.settings.get(name)
    if declared is not None:
        return _is_idle_value(declared, text)
    of_listener = listener_setting(name)
    if of_listener is None:
        return _is_without_effect(name)
    return listener_of(name) not in listeners or not takes_effect_per_listener(of_listener)


def _is_idle_value(declared: Setting, text: str) -> bool:
    return not declared.has_effect and text.strip() != declared.format(declared.default)


def _is_without_effect(name: str) -> bool:
    """Whether Kafka has this setting and Tidelog ignores it."""
    return name in _WITHOUT_EFFECT or (name.startswith(_PREFIXES_WITHOUT_EFFECT) and name not in _KRAFT_ADVICE)


def _is_known(name: str) -> bool:
    if name in BrokerConfig.settings or name in DynamicOnlySettings.settings or _is_without_effect(name):
        return True
    return listener_setting(name) is not None


def _unknown_text(unknown: list[str]) -> str:
    described = ", ".join(with_suggestion(name, BrokerConfig.settings) for name in unknown)
    return f"Unknown setting{'s' if len(unknown) > 1 else ''}: {described}"


def _refuse_kraft(properties: Mapping[str, str]) -> None:
    found = [(name, advice) for name in properties if (advice := _KRAFT_ADVICE.get(name)) is not None]
    if found:
        described = "; ".join(f"{name}: {advice}" for name, advice in found)
        raise ConfigError(f"Tidelog works as Kafka does in ZooKeeper mode, not in KRaft mode. {described}.")


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
