"""Dynamic changes are applied and refused as Kafka does it."""

import pytest

from tidelog.config import ConfigError
from tidelog.config.layers import ConfigLayers
from tidelog.config.updates import broker_list_default, checked_topic, topic_list_default, updated_layers


def test_lists_have_a_default_to_append_to_and_nothing_else_has() -> None:
    assert topic_list_default("cleanup.policy") == "delete"
    assert topic_list_default("leader.replication.throttled.replicas") == ""
    assert topic_list_default("retention.ms") is None
    assert topic_list_default("nope") is None
    assert broker_list_default("log.cleanup.policy") == "delete"
    assert broker_list_default("listener.name.ssl.ssl.cipher.suites") == ""
    assert broker_list_default("listeners") is None


def test_a_topics_new_settings_are_checked_as_a_whole() -> None:
    assert checked_topic(ConfigLayers({}), {"segment.ms": "5"}).segment_ms == 5
    with pytest.raises(ConfigError, match="Unknown topic config name: nope"):
        checked_topic(ConfigLayers({}), {"nope": "5"})


def test_a_dynamic_setting_takes_effect() -> None:
    layers = updated_layers(ConfigLayers({}), {"log.retention.ms": "5"}, is_cluster=True)
    assert layers.config.log_retention_ms == 5
    layers = updated_layers(layers, {"log.retention.ms": "6"}, is_cluster=False)
    assert layers.config.log_retention_ms == 6
    layers = updated_layers(layers, {}, is_cluster=False)
    assert layers.config.log_retention_ms == 5


@pytest.mark.parametrize(
    ("properties", "is_cluster", "problem"),
    [
        ({"num.partitions": "4"}, False, "Cannot update these configs dynamically: Set(num.partitions)"),
        (
            {"num.partitions": "4", "log.dirs": "x"},
            True,
            "Cannot update these configs dynamically: Set(num.partitions, log.dirs)",
        ),
        (
            {"ssl.keystore.location": "/x"},
            False,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "Set(ssl.keystore.location)"
            ),
        ),
        (
            {"ssl.client.auth": "required"},
            True,
            ("Cannot update these configs at default cluster level, broker id must be specified: Set(ssl.client.auth)"),
        ),
        (
            {"listener.name.plaintext.ssl.keystore.location": "/x"},
            True,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "Set(listener.name.plaintext.ssl.keystore.location)"
            ),
        ),
        (
            {"message.max.bytes": "-4"},
            False,
            ("Invalid value -4 for configuration message.max.bytes: Value must be at least 0"),
        ),
        (
            {"leader.replication.throttled.rate": "x"},
            False,
            ("Invalid value x for configuration leader.replication.throttled.rate: Not a number of type LONG"),
        ),
        (
            {"num.io.threads": "100"},
            False,
            (
                "Dynamic thread count update validation failed for num.io.threads=100, "
                "value should not be greater than double the current value 8"
            ),
        ),
        (
            {"num.io.threads": "1"},
            False,
            (
                "Dynamic thread count update validation failed for num.io.threads=1, "
                "value should be at least half the current value 8"
            ),
        ),
        (
            {"listener.name.plaintext.no.such": "x"},
            True,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "Set(listener.name.plaintext.no.such)"
            ),
        ),
        (
            {"listener.name.plaintext.ssl.key.password": "x"},
            False,
            (
                "Passwords can be set dynamically only if password.encoder.secret is set: "
                "Set(listener.name.plaintext.ssl.key.password)"
            ),
        ),
    ],
)
def test_what_kafka_refuses_is_refused(properties: dict[str, str], is_cluster: bool, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        updated_layers(ConfigLayers({}), properties, is_cluster=is_cluster)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("properties", "is_cluster"),
    [
        ({"num.io.threads": "16"}, False),
        ({"listener.name.plaintext.max.connections": "100"}, True),
        ({"listener.name.plaintext.ssl.client.auth": "required"}, False),
        ({"leader.replication.throttled.rate": "10"}, True),
        ({"compression.type": "zstd"}, True),
        ({"cleanup.policy": "compact", "no.such.setting": "1", "": "x"}, True),
        ({"cleanup.policy": "compact", "listener.name.plaintext.no.such": "x"}, False),
    ],
)
def test_what_kafka_accepts_is_accepted(properties: dict[str, str], is_cluster: bool) -> None:
    updated_layers(ConfigLayers({}), properties, is_cluster=is_cluster)
