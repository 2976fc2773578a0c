"""Dynamic changes are applied and refused as Kafka does it."""

import pytest

from tidelog.config import ConfigError
from tidelog.config.errors import UnknownSettingError
from tidelog.config.layers import ConfigLayers
from tidelog.config.updates import (
    ConfigChange,
    Operation,
    changed_broker,
    changed_topic,
    checked_topic,
    updated_layers,
)


def change(name: str, operation: Operation, value: str = "") -> ConfigChange:
    return ConfigChange(name, operation, value)


def test_set_and_delete() -> None:
    current = {"segment.ms": "5", "retention.ms": "6"}
    changes = [change("segment.ms", Operation.SET, "7"), change("retention.ms", Operation.DELETE)]
    assert changed_topic(current, changes) == {"segment.ms": "7"}
    assert current == {"segment.ms": "5", "retention.ms": "6"}


def test_deleting_what_is_not_set_is_fine() -> None:
    assert changed_topic({}, [change("nope", Operation.DELETE)]) == {}


def test_append_adds_to_the_default_what_is_not_there_yet() -> None:
    appended = changed_topic({}, [change("cleanup.policy", Operation.APPEND, "compact,delete,compact")])
    assert appended == {"cleanup.policy": "delete,compact"}


def test_append_to_an_empty_list_leaves_no_empty_item() -> None:
    name = "leader.replication.throttled.replicas"
    assert changed_topic({}, [change(name, Operation.APPEND, "0:1, 3:4")]) == {name: "0:1,3:4"}


def test_subtract_takes_away_what_is_there() -> None:
    name = "leader.replication.throttled.replicas"
    current = {name: "0:1,1:2,3:4"}
    assert changed_topic(current, [change(name, Operation.SUBTRACT, "0:1,9:4")]) == {name: "1:2,3:4"}


@pytest.mark.parametrize(("operation", "word"), [(Operation.APPEND, "append"), (Operation.SUBTRACT, "subtract")])
def test_only_lists_are_appended_to_and_subtracted_from(operation: Operation, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        changed_topic({}, [change("retention.ms", operation, "1")])
    assert str(refused.value) == f"Config value {word} is not allowed for config key: retention.ms"
    with pytest.raises(UnknownSettingError, match="Unknown topic config name: nope"):
        changed_topic({}, [change("nope", operation, "1")])


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
            {"advertised.listeners": "PLAINTEXT://x:1"},
            True,
            (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "Set(advertised.listeners)"
            ),
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
            {"mesage.max.bytes": "4"},
            False,
            ("Unknown broker config name: mesage.max.bytes (did you mean message.max.bytes?)"),
        ),
        (
            {"listener.name.plaintext.ssl.key.password": "x"},
            False,
            (
                "Passwords cannot be set dynamically, only in "
                "server.properties: Set(listener.name.plaintext.ssl.key.password)"
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
    ],
)
def test_what_kafka_accepts_is_accepted(properties: dict[str, str], is_cluster: bool) -> None:
    updated_layers(ConfigLayers({}), properties, is_cluster=is_cluster)


def test_brokers_append_to_lists_too() -> None:
    changed = changed_broker({}, [change("log.cleanup.policy", Operation.APPEND, "compact")])
    assert changed == {"log.cleanup.policy": "delete,compact"}
