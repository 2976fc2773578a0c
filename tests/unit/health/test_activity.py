"""Rates are differences of offsets by the time between two looks; the first look has none."""

from __future__ import annotations

from tests.unit.health.test_checks import NODES, ORDERS, partition, topic
from tidelog.client.aio.admin.types import ClusterDescription, TopicDescription
from tidelog.client.types import TopicPartition
from tidelog.health import activity
from tidelog.health.activity import Look

PAYMENTS = TopicPartition("payments", 0)


def look(at_s: float, ends: dict[TopicPartition, int], committed: dict[TopicPartition, int]) -> Look:
    topics = {"orders": topic(), "payments": TopicDescription("payments", b"", False, (partition(in_sync=(1, 2)),))}
    return Look(at_s, ClusterDescription("id", 2, NODES), topics, ends, {"billing": "Stable"}, {"billing": committed})


BEFORE = look(10.0, {ORDERS: 100, PAYMENTS: 10}, {ORDERS: 40})
AFTER = look(12.0, {ORDERS: 160, PAYMENTS: 310}, {ORDERS: 60})


def test_topics_come_by_rate() -> None:
    rows = activity.topics(BEFORE, AFTER)
    assert [(row.topic, row.written_per_s, row.records) for row in rows] == [
        ("payments", 150, 310),
        ("orders", 30, 160),
    ]
    assert rows[0].under_replicated == 1


def test_brokers_have_the_rate_of_what_they_lead() -> None:
    first, second, third = activity.brokers(BEFORE, AFTER)
    assert (first.leaders, first.replicas, first.written_per_s) == (2, 2, 180)
    assert (second.is_controller, second.leaders, second.written_per_s) == (True, 0, 0)
    assert third.out_of_sync == 1


def test_groups_have_lag_reads_and_the_growth_of_the_lag() -> None:
    (row,) = activity.groups(BEFORE, AFTER)
    assert (row.group, row.state, row.lag, row.read_per_s, row.lag_per_s) == ("billing", "Stable", 100, 10, 20)


def test_the_first_look_has_no_rates() -> None:
    assert [row.written_per_s for row in activity.topics(None, AFTER)] == [None, None]
    (group,) = activity.groups(None, AFTER)
    assert (group.lag, group.read_per_s, group.lag_per_s) == (100, None, None)
    assert activity.brokers(None, AFTER)[0].written_per_s is None


def test_a_broker_that_is_assigned_replicas_and_is_gone_is_listed() -> None:
    after = AFTER._replace(cluster=ClusterDescription("id", 2, NODES[:2]))
    gone = activity.brokers(BEFORE, after)[2]
    assert (gone.broker_id, gone.address, gone.replicas, gone.out_of_sync) == (3, activity.OFFLINE, 2, 1)
