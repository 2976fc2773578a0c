"""A topic's logs are configured by the topic first and by the broker for the rest."""

import pytest

from tidelog.config import BrokerConfig, ConfigError, InvalidValueError, LogConfig, load_broker_config, topic_config
from tidelog.config.declaration import DAY_MS, HOUR_MS, LONG_MAX, MINUTE_MS


def test_defaults_of_broker_and_topic_agree() -> None:
    assert topic_config({}, BrokerConfig()) == LogConfig()


def test_a_topic_overrides_the_broker() -> None:
    broker = load_broker_config({"log.segment.bytes": "1000", "log.index.interval.bytes": "7"})
    config = topic_config({"segment.bytes": "2000"}, broker)
    assert (config.segment_bytes, config.index_interval_bytes) == (2000, 7)


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 7 * DAY_MS),
        ({"log.retention.hours": "5"}, 5 * HOUR_MS),
        ({"log.retention.hours": "5", "log.retention.minutes": "6"}, 6 * MINUTE_MS),
        ({"log.retention.hours": "5", "log.retention.minutes": "6", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-9"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_retention_has_three_units_and_the_finest_wins(properties: dict[str, str], retention_ms: int) -> None:
    assert topic_config({}, load_broker_config(properties)).retention_ms == retention_ms


def test_rolling_and_flushing_have_coarser_settings_behind_them() -> None:
    broker = load_broker_config(
        {"log.roll.hours": "2", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "99"}
    )
    config = topic_config({}, broker)
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (2 * HOUR_MS, HOUR_MS, 99)


def test_the_old_timestamp_bound_holds_for_both_directions_unless_a_newer_one_is_set() -> None:
    broker = load_broker_config({"log.message.timestamp.difference.max.ms": "1000"})
    config = topic_config({"message.timestamp.after.max.ms": "5"}, broker)
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (1000, 5)
    config = topic_config({"message.timestamp.difference.max.ms": "7"}, BrokerConfig())
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (7, 7)
    assert topic_config({}, BrokerConfig()).message_timestamp_before_max_ms == LONG_MAX


def test_an_unknown_name_is_refused_in_kafkas_words() -> None:
    with pytest.raises(ConfigError) as refused:
        topic_config({"nope": "1"}, BrokerConfig())
    assert str(refused.value) == "Unknown topic config name: nope"


def test_stored_overrides_of_another_version_do_not_stop_a_log_from_opening() -> None:
    assert topic_config({"nope": "1", "segment.ms": "5"}, BrokerConfig(), ignore_unknown=True).segment_ms == 5


def test_a_broker_setting_is_not_a_topic_setting() -> None:
    with pytest.raises(ConfigError, match=r"Unknown topic config name: log\.segment\.bytes"):
        topic_config({"log.segment.bytes": "1000"}, BrokerConfig())


def test_a_value_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Null value not supported for topic configs: segment\.ms"):
        topic_config({"segment.ms": None}, BrokerConfig())


def test_a_bad_value_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"Invalid value 1 for configuration segment\.bytes: .* at least 14"):
        topic_config({"segment.bytes": "1"}, BrokerConfig())


def test_compaction_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        topic_config({"min.compaction.lag.ms": "777", "max.compaction.lag.ms": "7"}, BrokerConfig())
    assert str(refused.value) == (
        "conflict topic config setting min.compaction.lag.ms (777) > max.compaction.lag.ms (7)"
    )


def test_tiered_storage_is_refused() -> None:
    topic_config({"remote.storage.enable": "false", "local.retention.ms": "5"}, BrokerConfig())
    with pytest.raises(InvalidValueError, match="tiered storage is not supported"):
        topic_config({"remote.storage.enable": "true"}, BrokerConfig())
