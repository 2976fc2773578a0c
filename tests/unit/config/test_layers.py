"""Where a value comes from. The expected synonyms are what Kafka 3.9.1 answered to the same questions."""

import pytest

from tidelog.config import ConfigError
from tidelog.config.layers import ConfigEntry, ConfigLayers, ConfigSource

TOPIC, BROKER, CLUSTER, STATIC, DEFAULT = (
    ConfigSource.TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)


def only(entries: list[ConfigEntry]) -> ConfigEntry:
    assert len(entries) == 1
    return entries[0]


def test_every_setting_is_described_once_and_sorted() -> None:
    entries = ConfigLayers({}).describe_broker()
    names = [entry.name for entry in entries]
    assert names == sorted(set(names))
    assert len(names) > 230
    assert all(entry.documentation for entry in entries)
    assert all(entry.source == DEFAULT for entry in entries)


def test_internal_settings_are_not_described() -> None:
    assert ConfigLayers({}).describe_broker(["log.initial.task.delay.ms"]) == []


def test_a_default() -> None:
    entry = only(ConfigLayers({}).describe_broker(["num.partitions"]))
    assert entry.value == "1"
    assert entry.read_only
    assert entry.type_code == 3
    assert entry.synonyms == (("num.partitions", "1", DEFAULT),)


@pytest.mark.parametrize(("static", "default"), [({}, "0"), ({"zookeeper.connect": "localhost:2181"}, "3000")])
def test_the_default_of_a_broker_alone_may_be_another(static: dict[str, str], default: str) -> None:
    name = "group.initial.rebalance.delay.ms"
    assert only(ConfigLayers(static).describe_broker([name])).synonyms == ((name, default, DEFAULT),)
    assert only(ConfigLayers(static).describe_broker([name])).value == default


def test_a_setting_without_a_value_has_no_synonyms() -> None:
    entry = only(ConfigLayers({}).describe_broker(["log.retention.ms"]))
    assert (entry.value, entry.source, entry.synonyms, entry.read_only) == (None, DEFAULT, (), False)


def test_layers_are_listed_in_order_of_precedence() -> None:
    layers = ConfigLayers(
        {"log.retention.hours": "5"}, cluster={"log.retention.ms": "600000"}, broker={"log.retention.ms": "700000"}
    )
    entry = only(layers.describe_broker(["log.retention.ms"]))
    assert (entry.value, entry.source) == ("700000", BROKER)
    assert entry.synonyms == (
        ("log.retention.ms", "700000", BROKER),
        ("log.retention.ms", "600000", CLUSTER),
        ("log.retention.hours", "5", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    )
    hours = only(layers.describe_broker(["log.retention.hours"]))
    assert hours.synonyms == (("log.retention.hours", "5", STATIC), ("log.retention.hours", "168", DEFAULT))


def test_a_dynamic_setting_hides_the_static_ones_that_stand_for_it() -> None:
    layers = ConfigLayers({"log.retention.ms": "1"}, cluster={"log.retention.ms": "2"})
    assert layers.config.log_retention_ms == 2
    assert ConfigLayers({"log.roll.ms": "1"}, broker={"log.roll.ms": "2"}).config.log_roll_ms == 2


def test_the_cluster_is_described_by_what_is_set_for_it() -> None:
    layers = ConfigLayers({}, cluster={"log.retention.ms": "600000"}, broker={"log.retention.ms": "700000"})
    entry = only(layers.describe_cluster())
    assert (entry.name, entry.value, entry.source) == ("log.retention.ms", "600000", CLUSTER)
    assert entry.synonyms == (("log.retention.ms", "600000", CLUSTER),)
    assert layers.describe_cluster(["num.partitions"]) == []


def test_secrets_are_marked_and_not_shown() -> None:
    entry = only(ConfigLayers({"ssl.keystore.password": "hunter2"}).describe_broker(["ssl.keystore.password"]))
    assert (entry.value, entry.is_sensitive, entry.source, entry.type_code) == (None, True, STATIC, 9)
    assert entry.synonyms == (("ssl.keystore.password", None, STATIC),)


def test_an_unknown_setting_may_be_a_secret() -> None:
    entry = only(ConfigLayers({"my.plugin.token": "hunter2"}).describe_broker(["my.plugin.token"]))
    assert (entry.value, entry.is_sensitive, entry.read_only, entry.type_code) == (None, True, True, 0)
    assert entry.synonyms == (("my.plugin.token", None, STATIC),)


def test_a_listeners_own_setting() -> None:
    name = "listener.name.plaintext.ssl.client.auth"
    entry = only(ConfigLayers({name: "required"}).describe_broker([name]))
    assert (entry.value, entry.source, entry.type_code) == ("required", STATIC, 2)
    assert entry.synonyms == ((name, "required", STATIC), ("ssl.client.auth", "none", DEFAULT))


def test_throttles_are_described_only_when_set() -> None:
    name = "leader.replication.throttled.rate"
    assert ConfigLayers({}).describe_broker([name]) == []
    layers = ConfigLayers({}, broker={name: "10"})
    entry = only(layers.describe_broker([name]))
    assert (entry.value, entry.source, entry.synonyms) == ("10", BROKER, ((name, "10", BROKER),))
    assert layers.dynamic_only().leader_replication_throttled_rate == 10


def test_a_topic_is_described_whole() -> None:
    entries = ConfigLayers({}).describe_topic({})
    assert len(entries) == 39
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert not any(entry.read_only or entry.is_sensitive for entry in entries)


def test_a_topics_own_value_comes_first() -> None:
    layers = ConfigLayers({}, cluster={"log.cleanup.policy": "delete"})
    entry = only(layers.describe_topic({"cleanup.policy": "compact, delete"}, ["cleanup.policy"]))
    assert (entry.value, entry.source, entry.type_code) == ("compact,delete", TOPIC, 7)
    assert entry.synonyms == (
        ("cleanup.policy", "compact,delete", TOPIC),
        ("log.cleanup.policy", "delete", CLUSTER),
        ("log.cleanup.policy", "delete", DEFAULT),
    )


def test_a_topics_retention_lists_what_stands_behind_it_once_its_first_synonym_is_set() -> None:
    """Kafka names no synonym, and the default as the source, while only the coarser settings have values."""
    unset = only(ConfigLayers({"log.retention.hours": "5"}).describe_topic({}, ["retention.ms"]))
    assert (unset.value, unset.source, unset.synonyms) == ("18000000", DEFAULT, ())
    layers = ConfigLayers({"log.retention.hours": "5"}, cluster={"log.retention.ms": "600000"})
    entry = only(layers.describe_topic({"retention.ms": "7"}, ["retention.ms"]))
    assert entry.synonyms == (
        ("retention.ms", "7", TOPIC),
        ("log.retention.ms", "600000", CLUSTER),
        ("log.retention.hours", "5", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    )


@pytest.mark.parametrize("names", [None, []])
def test_no_names_ask_for_all(names: list[str] | None) -> None:
    assert len(ConfigLayers({}).describe_topic({}, names)) == 39


def test_unknown_names_are_passed_over() -> None:
    entries = ConfigLayers({}).describe_topic({}, ["segment.ms", "nope", "segment.ms", "retention.ms"])
    assert [entry.name for entry in entries] == ["retention.ms", "segment.ms"]


def test_layers_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.ms=0"):
        ConfigLayers({}).with_broker({"log.retention.ms": "0"})
