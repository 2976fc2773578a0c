"""The names of a broker's metrics, beside those of Kafka 3.9.1 under the usual rules of the JMX exporter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import ZooKeeper
from tests.compat.metrics import differences, exporter_rules, kafka_mbeans
from tests.compat.metrics.exporter_rules import all_exported
from tests.compat.metrics.kafka_mbeans import KafkaWithJmx
from tests.compat.metrics.use import SETTINGS, Labels, use
from tidelog.cli.from_kafka._mbeans import OTHERS, mbeans


def test_names_and_labels_are_kafkas_but_for_the_differences_that_are_named(ours: Labels) -> None:
    kafkas: Labels = {}
    for exported in all_exported(kafka_mbeans.shipped()):
        kafkas.setdefault(exported.name, set()).add(exported.label_names)
    own = {name for name in ours if name.startswith(differences.OF_THIS_PROCESS)}
    assert kafkas.keys() - ours.keys() == differences.MISSING.keys()
    assert ours.keys() - kafkas.keys() - own == differences.ADDED.keys()
    other_labels = {name for name in ours.keys() & kafkas.keys() if ours[name] != kafkas[name]}
    assert other_labels == differences.OTHER_LABELS.keys()


def test_the_map_from_kafka_has_every_mbean_and_names_metrics_that_there_are(ours: Labels) -> None:
    """What docs/from-kafka.md says: `shipped` is what a running Kafka shows, `ours` what our brokers serve."""
    table = {each.name: each for each in mbeans()}
    shown: dict[str, set[str]] = {}
    for attribute in kafka_mbeans.shipped():
        named = exporter_rules.exported(attribute)
        name = attribute.partition("><>")[0].replace("<", ":").replace(", ", ",")
        shown.setdefault(name, set()).update([named.name] if named else [])
    assert shown.keys() == table.keys()
    for name, each in table.items():
        assert (each.metric in shown[name]) if each.metric else (shown[name] <= differences.MISSING.keys()), name
    claimed = {each.metric for each in table.values() if each.metric}
    texts = [*OTHERS.values(), *(each.why for each in table.values())]
    claimed.update(name for text in texts for name in re.findall(r"`((?:kafka|tidelog|process|python)_[a-z_]+)`", text))
    assert sorted(claimed - ours.keys()) == []


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 240)
def test_the_list_of_mbeans_is_that_of_a_running_kafka(tmp_path: Path) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    settings = {
        **{name: str(value) for name, value in SETTINGS.items() if name != "metrics.listeners"},
        "offsets.topic.num.partitions": "2",
    }
    with (
        ZooKeeper(tmp_path / "zookeeper") as zookeeper,
        KafkaWithJmx(tmp_path / "1", zookeeper, {**settings, "broker.id": "1"}) as one,
        KafkaWithJmx(tmp_path / "2", zookeeper, {**settings, "broker.id": "2"}) as other,
    ):
        use(one.bootstrap_servers)
        assert one.attributes() | other.attributes() == kafka_mbeans.shipped()
