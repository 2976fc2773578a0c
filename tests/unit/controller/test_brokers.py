"""Brokers start, stop, restart and lose log directories: leaders and ISRs follow."""

from __future__ import annotations

import pytest

from tests.unit.controller.cluster import Cluster
from tidelog.controller import events
from tidelog.controller.environment import ControllerSettings
from tidelog.metadata import paths
from tidelog.metadata.tree import (
    encode_log_dir_event,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest
from tidelog.wire.partitions import TopicPartition

# --- brokers come and go ---


def test_a_dead_leader_is_replaced_from_the_isr(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3, 1))
    cluster.stop_broker(2)
    cluster.settle()
    # One epoch for the new leader, one for the broker that leaves the ISR: it has left it already.
    assert cluster.led("orders") == (3, (3, 1))
    assert cluster.leadership("orders").leader_epoch == 1
    assert cluster.brokers[1].states[TopicPartition("orders", 0)].leader == 3
    assert cluster.brokers[1].metadata[TopicPartition("orders", 0)] == (3, 1, (3, 1))


def test_a_dead_follower_leaves_the_isr(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3, 1))
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (2, (2, 1))


def test_the_last_of_the_isr_stays_in_it_without_a_leader(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.stop_broker(2)
    cluster.settle()
    assert cluster.led("orders") == (-1, (2,))
    assert cluster.active.context.offline_partition_count() == 1
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (-1, (2,)), "broker 3 was not in sync"
    cluster.start_broker(2)
    cluster.settle()
    assert cluster.led("orders") == (2, (2,))


def test_unclean_elections_happen_where_the_topic_allows_them(cluster: Cluster) -> None:
    for name, allowed in (("careful", "false"), ("careless", "true")):
        cluster.create_topic(name, (2, 3), config={"unclean.leader.election.enable": allowed})
    for broker_id in (3, 2):
        cluster.stop_broker(broker_id)
        cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.led("careful") == (-1, (2,))
    assert cluster.led("careless") == (3, (3,))
    assert cluster.leadership("careless").recovery_state == 1
    assert cluster.brokers[3].states[TopicPartition("careless", 0)].leader_recovery_state == 1


def test_unclean_elections_begin_when_they_are_enabled_by_default(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    for broker_id in (3, 2):
        cluster.stop_broker(broker_id)
        cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    cluster.active.update_settings(ControllerSettings(unclean_leader_election_enable=True))
    cluster.settle()
    assert cluster.led("orders") == (3, (3,))


def test_a_broker_that_comes_back_is_sent_its_replicas_and_all_metadata(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.create_topic("other", (1, 2))
    cluster.stop_broker(3)
    cluster.settle()
    back = cluster.start_broker(3)
    cluster.settle()
    assert back.states[TopicPartition("orders", 0)].leader == 2
    assert not back.states[TopicPartition("orders", 0)].is_new
    assert back.metadata.keys() == {TopicPartition("orders", 0), TopicPartition("other", 0)}
    first = back.received[0]
    assert isinstance(first, UpdateMetadataRequest), "brokers must know each other before they follow each other"
    assert [each.id for each in first.live_brokers] == [1, 2, 3]


def test_a_broker_that_restarts_quickly_is_noticed_by_its_epoch(cluster: Cluster) -> None:
    """The watch fires once for both changes; only the epoch shows the restart."""
    cluster.create_topic("orders", (2, 3))
    controller = cluster.candidates[0]
    cluster.brokers[2].store.close()
    cluster.start_broker(2)
    while controller.step():
        continue
    assert cluster.led("orders") == (3, (3,))
    assert cluster.brokers[2].states[TopicPartition("orders", 0)].leader == 3


def test_a_broker_that_is_gone_is_not_elected_for_one_that_restarts(cluster: Cluster) -> None:
    """One look at the tree shows both. Elected in between, the broker that is gone would be the last in sync."""
    cluster.create_topic("orders", (2, 3))
    controller = cluster.candidates[0]
    cluster.brokers[3].store.close()
    cluster.brokers[2].store.close()
    cluster.start_broker(2)
    while controller.step():
        continue
    assert cluster.led("orders") == (2, (2,))


def test_a_broker_that_changes_its_address_is_announced(cluster: Cluster) -> None:
    node = cluster.admin.get(paths.broker(3))[0].replace(b"host3", b"elsewhere")
    cluster.admin.set(paths.broker(3), node)
    cluster.settle()
    last = cluster.brokers[1].received[-1]
    assert isinstance(last, UpdateMetadataRequest)
    assert [each.endpoints[0].host for each in last.live_brokers] == ["host1", "host2", "elsewhere"]


def test_replicas_in_a_failed_log_directory_lose_their_lead(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.create_topic("other", (2, 3))
    cluster.brokers[2].failed.add(TopicPartition("orders", 0))
    cluster.admin.create(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", encode_log_dir_event(2), sequential=True)
    cluster.settle()
    assert cluster.led("orders") == (3, (3,))
    assert cluster.led("other") == (2, (2, 3))
    assert cluster.admin.children(paths.LOG_DIR_EVENTS) == []
    offline = [
        state.offline_replicas
        for request in cluster.brokers[1].received
        if isinstance(request, UpdateMetadataRequest)
        for topic in request.topic_states
        for state in topic.partition_states
        if topic.topic_name == "orders"
    ]
    assert offline[-1] == [2]


# --- controlled shutdown ---


def test_a_controlled_shutdown_moves_leaders_and_returns_what_is_left(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3, 1))
    cluster.create_topic("followed", (1, 2))
    cluster.create_topic("alone", (2,))
    epoch = cluster.brokers[2].epoch
    assert cluster.ask(lambda reply: events.ControlledShutdown(2, epoch, reply)) == []
    assert cluster.led("orders") == (3, (3, 1))
    assert cluster.led("followed") == (1, (1,))
    assert cluster.led("alone") == (2, (2,)), "no other replica could lead"
    assert TopicPartition("followed", 0) not in cluster.brokers[2].states
    assert TopicPartition("followed", 0) in cluster.brokers[2].logs, "it is stopped, not deleted"


def test_a_leader_that_cannot_be_moved_remains(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.ask(lambda reply: events.ControlledShutdown(2, -1, reply)) == [TopicPartition("orders", 0)]


@pytest.mark.parametrize(
    ("broker_id", "age", "code"), [(9, 0, ErrorCode.BROKER_NOT_AVAILABLE), (2, 1, ErrorCode.STALE_BROKER_EPOCH)]
)
def test_a_controlled_shutdown_of_another_life_is_refused(
    cluster: Cluster, broker_id: int, age: int, code: ErrorCode
) -> None:
    outcome = cluster.ask(lambda reply: events.ControlledShutdown(broker_id, cluster.brokers[2].epoch - age, reply))
    assert outcome.code is code
