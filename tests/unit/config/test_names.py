"""Names that no setting has: what Kafka once called a setting, or what is misspelt, is named."""

from __future__ import annotations

import pytest

from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.config import names
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.declaration import Settings
from tidelog.config.log_config import LogConfig
from tidelog.config.names import advice_about, nearest_name

GROUPS: list[type[Settings]] = [BrokerConfig, LogConfig, ProducerSettings, ConsumerSettings, AdminSettings]


@pytest.mark.parametrize(
    ("group", "name", "meant"),
    [
        (BrokerConfig, "transactional.id.timeout.ms", "transactional.id.expiration.ms"),
        (BrokerConfig, "host.name", "listeners"),
        (BrokerConfig, "replica.lag.max.messages", "replica.lag.time.max.ms"),
        (BrokerConfig, "brokerid", "broker.id"),
        (BrokerConfig, "retention.ms", "log.retention.ms"),
        (BrokerConfig, "num.partition", "num.partitions"),
        (LogConfig, "log.retention.ms", "retention.ms"),
        (LogConfig, "log.retention.size", "retention.bytes"),
        (ProducerSettings, "request.required.acks", "acks"),
        (ProducerSettings, "metadata.broker.list", "bootstrap.servers"),
        (ProducerSettings, "serializer.class", "value.serializer"),
        (ProducerSettings, "queue.buffering.max.ms", "linger.ms"),
        (ConsumerSettings, "auto.commit.enable", "enable.auto.commit"),
        (ConsumerSettings, "zookeeper.connect", "bootstrap.servers"),
        (ConsumerSettings, "zookeeper.session.timeout.ms", "session.timeout.ms"),
        (AdminSettings, "zookeeper.connect", "bootstrap.servers"),
        (AdminSettings, "zookeeper.session.timeout.ms", None),
        (ProducerSettings, "producer.type", None),
        (ProducerSettings, "zzz", None),
    ],
)
def test_the_setting_that_was_meant_is_found(group: type[Settings], name: str, meant: str | None) -> None:
    assert nearest_name(name, group.settings) == meant


def test_a_setting_that_is_gone_says_what_there_is_instead() -> None:
    assert advice_about("producer.type", ProducerSettings.settings).startswith("removed from Kafka: every producer")
    assert advice_about("zzz", ProducerSettings.settings) == ""


@pytest.mark.parametrize("name", names._SUCCESSORS)
def test_what_took_the_place_of_a_name_is_a_setting_of_a_client_a_broker_or_a_topic(name: str) -> None:
    found = [nearest_name(name, group.settings) for group in GROUPS]
    assert any(found), "the table names no setting that there is"
    for successor in names._SUCCESSORS[name]:
        assert any(successor in group.settings for group in GROUPS), successor
    assert not all(name in group.settings for group in GROUPS)


def test_no_name_is_both_replaced_and_removed_and_none_is_removed_that_a_broker_has() -> None:
    assert names._SUCCESSORS.keys().isdisjoint(names._REMOVED)
    assert all(names._REMOVED.keys().isdisjoint(group.settings) for group in GROUPS)
