"""From a topic's overrides and the broker's settings to the LogConfig of its partitions.

Called when a topic is created, when its logs are opened, and when either kind of setting changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.declaration import LONG_MAX, Setting, parse_settings
from tidelog.config.errors import ConfigError, UnknownSettingError
from tidelog.config.log_config import LogConfig
from tidelog.config.names import with_suggestion


def topic_config(
    overrides: Mapping[str, str | None], broker: BrokerConfig, *, ignore_unknown: bool = False
) -> LogConfig:
    """The settings of a topic's logs: its overrides, and the broker's settings for the rest. Raises ConfigError.

    Overrides that are already stored may hold names of another version: for those, `ignore_unknown`.
    """
    if not ignore_unknown:
        _refuse_unknown(overrides)
    values = topic_values(overrides, broker)
    _check(values)
    return LogConfig(**_with_timestamp_bounds(values))


def topic_values(overrides: Mapping[str, str | None], broker: BrokerConfig) -> dict[str, Any]:
    """The typed value of every topic setting, by field, as DescribeConfigs shows them. Raises ConfigError."""
    values = {each.field: broker_value(each, broker) for each in LogConfig.settings.values()}
    return _with_timestamp_bounds(values) | parse_settings(LogConfig, overrides)


def _refuse_unknown(overrides: Mapping[str, str | None]) -> None:
    for name, text in overrides.items():
        if name not in LogConfig.settings:
            raise UnknownSettingError(
                f"Unknown topic config name: {with_suggestion(name, LogConfig.settings)}", setting=name
            )
        if text is None:
            raise ConfigError(f"Null value not supported for topic configs: {name}", setting=name)


def broker_value(declared: Setting, broker: BrokerConfig) -> Any:
    """The value of a topic setting without an override: that of its first synonym that has one."""
    for synonym in declared.synonyms:
        value = getattr(broker, BrokerConfig.settings[synonym.name].field)
        if value is not None:
            return _converted(declared, value, synonym.factor)
    return declared.default


def _converted(declared: Setting, value: Any, factor: int) -> Any:
    if declared.name == "retention.ms" and value < 0:
        return -1  # any negative number of minutes or hours is "for ever"
    return value * factor if factor != 1 else value


def _with_timestamp_bounds(values: dict[str, Any]) -> dict[str, Any]:
    """The deprecated setting for both directions holds wherever the newer one of a direction is not set."""
    both = values["message_timestamp_difference_max_ms"]
    for field in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
        if values[field] == LONG_MAX:
            values[field] = both
    return values


def _check(values: Mapping[str, Any]) -> None:
    lag_min, lag_max = values["min_compaction_lag_ms"], values["max_compaction_lag_ms"]
    if lag_min > lag_max:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lag_min}) > max.compaction.lag.ms ({lag_max})"
        )
