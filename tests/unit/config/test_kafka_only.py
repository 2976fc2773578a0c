"""Settings that only Kafka has: each is listed by name, with why it has no effect or what to do instead."""

from __future__ import annotations

from tests.unit.config.test_reference import KAFKA
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.dynamic_only import DynamicOnlySettings
from tidelog.config.kafka_only import IGNORED, ONLY_IN_KRAFT, is_ignored

BROKER = {name for level, name, _ in KAFKA if level == "broker"}
DECLARED = BrokerConfig.settings.keys() | DynamicOnlySettings.settings.keys()


def test_every_setting_of_kafkas_brokers_is_declared_or_ignored_by_name() -> None:
    assert sorted(BROKER - DECLARED - IGNORED.keys()) == []


def test_what_is_ignored_is_not_declared() -> None:
    assert sorted(IGNORED.keys() & DECLARED) == []


def test_what_only_a_member_of_a_kraft_cluster_may_have_is_declared() -> None:
    assert sorted(ONLY_IN_KRAFT.keys() - DECLARED) == []


def test_settings_of_plug_ins_are_ignored_by_their_beginning() -> None:
    assert is_ignored("rsm.config.bucket")
    assert not is_ignored("metadata.log.dir")
    assert not is_ignored("rsm")
