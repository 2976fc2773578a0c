"""Dynamic changes, checked before they are stored: what AlterConfigs may do to topics, brokers and the cluster.

Everything here decides and changes nothing; the handlers store what passes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.config.broker_config import BrokerConfig, listener_setting
from tidelog.config.declaration import Setting
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.entities import ClientMetricsConfig
from tidelog.config.errors import ConfigError
from tidelog.config.kinds import LIST, PASSWORD
from tidelog.config.layers import ConfigLayers
from tidelog.config.log_config import LogConfig
from tidelog.config.topics import topic_config

# These are pools in Kafka, which refuses to more than double or halve one at once.
_THREAD_COUNTS: Final = (
    "num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir",
    "background.threads", "log.cleaner.threads",
)  # fmt: skip

# Key and trust stores differ from listener to listener, so they can be changed for one listener only.
_PER_LISTENER_ONLY: Final = frozenset((
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key",
    "ssl.keystore.certificate.chain", "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.certificates",
))  # fmt: skip

# Of the settings a listener may have for itself, those that make sense for that listener on every broker.
_CLUSTER_WIDE_PER_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")

_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def topic_list_default(name: str) -> str | None:
    """The value of a topic setting without an override if it is a list, which can be appended to; else None."""
    return _list_default(LogConfig.settings.get(name))


def subscription_list_default(name: str) -> str | None:
    """The same for a setting of a subscription to clients' metrics."""
    return _list_default(ClientMetricsConfig.settings.get(name))


def broker_list_default(name: str) -> str | None:
    """The value of a broker setting without an override if it is a list, which can be appended to; else None."""
    return _list_default(BrokerConfig.settings.get(name) or listener_setting(name))


def updated_layers(layers: ConfigLayers, properties: Mapping[str, str], *, is_cluster: bool) -> ConfigLayers:
    """The layers once a dynamic one is `properties`: the whole cluster's, or this broker's. Raises ConfigError."""
    _check_names(properties, is_cluster=is_cluster)
    passwords = [name for name in properties if is_password(name)]
    if layers.config.password_encoder_secret is None:
        _refuse("Passwords can be set dynamically only if password.encoder.secret is set", passwords)
    updated = layers.with_cluster(properties) if is_cluster else layers.with_broker(properties)
    updated.dynamic_only()  # for its errors
    _check_thread_counts(layers.config, updated.config)
    return updated


def checked_topic(layers: ConfigLayers, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic's logs once its overrides are these. Raises ConfigError."""
    return topic_config(overrides, layers.config)


def _list_default(declared: Setting | None) -> str | None:
    if declared is None or declared.kind is not LIST:
        return None
    return declared.format(declared.default) or ""


def _check_names(properties: Mapping[str, str], *, is_cluster: bool) -> None:
    """Refuse names that are read-only or of another scope, in Kafka's words; as there, unknown ones are accepted."""
    _refuse("Cannot update these configs dynamically", [name for name in properties if _is_read_only(name)])
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        [name for name in properties if name in _PER_LISTENER_ONLY],
    )
    if is_cluster:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name in properties if _is_per_broker(name)],
        )


def _refuse(text: str, names: Sequence[str]) -> None:
    if names:
        raise ConfigError(f"{text}: Set({', '.join(names)})", setting=names[0])


def _declared(name: str) -> Setting | None:
    return BrokerConfig.settings.get(name) or DynamicOnlySettings.settings.get(name) or listener_setting(name)


def _is_read_only(name: str) -> bool:
    declared = _declared(name)
    return declared is not None and declared.dynamic == "read-only"


def _is_per_broker(name: str) -> bool:
    declared = BrokerConfig.settings.get(name)
    if declared is not None:
        return declared.dynamic == "per-broker"
    of_listener = _OF_LISTENER.fullmatch(name)
    return of_listener is not None and of_listener[1] not in _CLUSTER_WIDE_PER_LISTENER


def is_password(name: str) -> bool:
    """Whether a setting of a broker is a password, which is encrypted where it is stored."""
    declared = _declared(name)
    return declared is not None and declared.kind is PASSWORD


def _check_thread_counts(before: BrokerConfig, after: BrokerConfig) -> None:
    for name in _THREAD_COUNTS:
        field = BrokerConfig.settings[name].field
        old, new = getattr(before, field), getattr(after, field)
        problem = None
        if new < 1 and new != old:
            problem = "value should be at least 1"
        elif new < old // 2:
            problem = f"value should be at least half the current value {old}"
        elif new > old * 2:
            problem = f"value should not be greater than double the current value {old}"
        if problem is not None:
            raise ConfigError(
                f"Dynamic thread count update validation failed for {name}={new}, {problem}", setting=name
            )
