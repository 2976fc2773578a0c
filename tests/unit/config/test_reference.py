"""The reference page has Kafka's settings with Kafka's defaults, and the copy in docs is the current one.

`kafka_3_9_1.tsv` is what Kafka 3.9.1 prints about itself (the `main` of `KafkaConfig` and of `LogConfig`): level, name
and default of every setting that it documents. Nothing of it comes from our declarations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tidelog.config.reference import reference_markdown

PAGE: Final = Path(__file__).parents[3] / "docs" / "configuration.md"
KAFKA: Final = [line.split("\t") for line in Path(__file__).with_name("kafka_3_9_1.tsv").read_text().splitlines()]
_ROW: Final = re.compile(r"\| `(?P<name>[^`]+)` \| [^|]* \| (?:`(?P<default>[^`]*)`)?")

OTHER_DEFAULTS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "./tidelog-data",
    "log.dir": "",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
}
ABSENT: Final = (
    # the quorum's own
    *("controller.quorum.append.linger.ms", "controller.quorum.election.", "early.start.listeners"),
    *("eligible.leader.replicas.enable", "metadata.log.max.", "metadata.log.segment.", "metadata.max.retention.ms"),
    *("metadata.max.idle.interval.ms", "sasl.mechanism.controller.protocol", "zookeeper.metadata.migration.enable"),
    "log.dir.failure.timeout.ms",
    # share groups and tiered storage
    *("group.share.", "remote."),
    # JVM and JMX
    *("auto.include.jmx.reporter", "kafka.metrics.", "security.providers"),
    "zookeeper.clientCnxnSocket",
    # The threads and bounds of a coordinator that Kafka has only in KRaft mode.
    *("group.coordinator.threads", "group.coordinator.append.linger.ms", "group.consumer.assignors"),
)
"""Names, or beginnings of names, that are not on the page: what they configure does not exist here."""
UNDOCUMENTED_IN_KAFKA: Final = {
    *("log.initial.task.delay.ms", "group.consumer.migration.policy", "producer.id.expiration.check.interval.ms"),
    *("super.users", "allow.everyone.if.no.acl.found", "replica.alter.log.dirs.io.max.bytes.per.second"),
    *("leader.replication.throttled.rate", "follower.replication.throttled.rate"),
}
"""Kafka's internal settings, those of its authorizer, and those that are only ever set dynamically: it prints none."""

OUR_OWN: Final = {
    "metadata.socket",
    "metrics.listeners",
    "tidelog.cores",
    "tidelog.cores.port.step",
    "tidelog.delay.enable",
    "tidelog.delay.max.ms",
    "tidelog.slow.request.ms",
}


OF_LATER_VERSIONS: Final = (
    *("group.share.", "group.streams.", "share.coordinator.", "errors.deadletterqueue."),
    "add.partitions.to.txn.retry.",
)
"""Share groups (KIP-932), their dead letters (KIP-1191), streams groups (KIP-1071) and transactions of version 2: Kafka
3.9 documents none of them under these names."""


def is_absent(level: str, name: str) -> bool:
    return level == "broker" and name.startswith(ABSENT)


def rows(level: str) -> dict[str, str]:
    """Name and default of each row of the page's part about topics, or about brokers."""
    _, topics, brokers = re.split(r"^## (?:Topics|Broker)$", reference_markdown(), flags=re.MULTILINE)
    brokers = brokers.partition("\n## Groups\n")[0]
    lines = (topics if level == "topic" else brokers).splitlines()
    return {found["name"]: found["default"] or "" for found in map(_ROW.match, lines) if found}


@pytest.mark.parametrize("level", ["broker", "topic"])
def test_the_page_has_kafkas_settings_with_kafkas_defaults(level: str) -> None:
    of_kafka = {name: default for each, name, default in KAFKA if each == level}
    shown = {
        name: default
        for name, default in rows(level).items()
        if name not in UNDOCUMENTED_IN_KAFKA | OUR_OWN and not name.startswith(OF_LATER_VERSIONS)
    }
    assert shown == {
        name: OTHER_DEFAULTS.get(name, default) for name, default in of_kafka.items() if not is_absent(level, name)
    }


def test_numbers_are_explained_in_units() -> None:
    page = reference_markdown()
    assert "`1073741824` (1 GiB)" in page
    assert "`604800000` (7 d)" in page
    assert "`9223372036854775807` (no limit)" in page


def test_the_page_in_docs_is_current() -> None:
    """Write it with `make docs`."""
    assert PAGE.read_text(encoding="utf-8") == reference_markdown()


def test_the_page_names_what_is_not_as_in_kafka() -> None:
    """The test fails on 4724f6e."""
    page = reference_markdown()
    introduction = page.partition("\n## ")[0]
    assert [name for name in OTHER_DEFAULTS.keys() - {"log.dir"} if f"`{name}`" not in introduction] == []
    rows = {match["name"]: line for line in page.splitlines() if (match := _ROW.match(line))}
    assert "`group.initial.rebalance.delay.ms`" in introduction
    assert "| `3000` (3 s); alone `0` |" in rows["group.initial.rebalance.delay.ms"]
    assert [name for name in sorted(OUR_OWN) if "Not in Kafka." not in rows[name]] == []
