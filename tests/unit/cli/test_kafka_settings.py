"""Settings of topics as Kafka's ZooKeeper and server.properties hold them, and what becomes of them here."""

import sys

import pytest

from tidelog.cli._kafka_settings import KafkaSettings, _read_tree, _Reader, read_from_zookeeper, topic_defaults
from tidelog.cli.errors import CommandError


class Tree(_Reader):
    """What a ZooKeeper holds below /config, by kind and name."""

    def __init__(self, topics: set[str], configs: dict[tuple[str, str], dict[str, str]]) -> None:
        self._topics = topics
        self._configs = configs

    def names(self, path: str) -> set[str]:
        return self._topics if path == "/brokers/topics" else set()

    def overrides(self, kind: str, name: str) -> dict[str, str]:
        return self._configs.get((kind, name), {})


TREE = Tree(
    {"orders", "clicks", "elsewhere"},
    {
        ("topics", "orders"): {"cleanup.policy": "compact", "follower.replication.throttled.rate.of.tomorrow": "1"},
        ("brokers", "<default>"): {"log.retention.ms": "1000", "log.cleaner.threads": "3"},
        ("brokers", "7"): {"log.segment.bytes": "5000000"},
    },
)


def test_overrides_and_dynamic_defaults_become_overrides() -> None:
    found = _read_tree(TREE, ["orders", "clicks", "not-in-zookeeper"], 7, None)
    shared = {"retention.ms": "1000", "segment.bytes": "5000000"}
    assert found == {
        "orders": KafkaSettings({"cleanup.policy": "compact", **shared}, is_complete=False),
        "clicks": KafkaSettings(shared, is_complete=False),
    }


def test_server_properties_say_the_rest() -> None:
    """Also the settings that a broker of ours refuses or does not know: they are not for topics."""
    static = {
        "zookeeper.connect": "zoo:2181",
        "log.retention.hours": "-1",
        "log.flush.interval.messages": "7",
        "my": "x",
    }
    found = _read_tree(TREE, ["clicks"], 8, static)
    assert found == {"clicks": KafkaSettings({"retention.ms": "1000", "flush.messages": "7"}, is_complete=True)}


def test_hours_count_where_nothing_is_set_in_milliseconds() -> None:
    tree = Tree({"clicks"}, {})
    found = _read_tree(tree, ["clicks"], 8, {"log.retention.hours": "-1"})
    assert found["clicks"].overrides == {"retention.ms": "-1"}


def test_only_defaults_for_topics_are_taken_from_a_broker() -> None:
    assert topic_defaults({"log.retention.minutes": "1", "num.io.threads": "8"}) == {"log.retention.minutes": "1"}


def test_a_tree_without_topics_is_taken_for_the_wrong_chroot() -> None:
    with pytest.raises(CommandError, match="chroot"):
        _read_tree(Tree(set(), {}), ["orders"], 0, None)


def test_without_kazoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(CommandError, match=r"tidelog\[zookeeper\]"):
        read_from_zookeeper("zoo:2181", ["orders"], 0, None)
