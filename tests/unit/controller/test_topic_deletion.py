"""The deletion of topics, with brokers that are down, disks that failed and partitions on the move."""

from __future__ import annotations

import pytest

from tests.unit.controller.cluster import Cluster
from tidelog.controller.environment import ControllerSettings
from tidelog.metadata import paths
from tidelog.metadata.tree import (
    ReplicaAssignment,
    TopicAssignment,
    encode_reassignments,
    encode_topic,
)
from tidelog.wire.messages.stop_replica import StopReplicaRequest
from tidelog.wire.partitions import TopicPartition


def test_a_topic_is_deleted_from_brokers_and_tree(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (2, 3), config={"retention.ms": "5"})
    cluster.create_topic("kept", (1, 2))
    cluster.delete_topic("orders")
    for broker in cluster.brokers.values():
        assert not [each for each in broker.logs if each.topic == "orders"]
        assert broker.metadata.keys() == {TopicPartition("kept", 0)}
    for path in (paths.topic("orders"), paths.config("topics", "orders"), paths.topic_deletion("orders")):
        assert cluster.admin.exists(path) is None
    assert "orders" not in cluster.active.context.topics
    deletions = [
        (state.leader_epoch, state.delete_partition)
        for request in cluster.brokers[1].received
        if isinstance(request, StopReplicaRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert deletions == [(-2, False), (-2, True)]


def test_a_deleted_topic_may_be_created_again(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.create_topic("orders", (1, 2))
        assert cluster.led("orders") == (1, (1, 2))
        cluster.delete_topic("orders")


def test_a_deletion_waits_for_a_broker_that_is_down(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (1, 3))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is not None
    assert cluster.active.context.topics_ineligible_for_deletion == {"orders"}
    assert not cluster.brokers[1].logs
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None
    assert not cluster.brokers[3].logs


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_broker_that_was_cut_off_learns_that_a_topic_is_gone(cluster: Cluster, is_complete: bool) -> None:
    """It has no replica of the topic, so that the deletion does not wait for it."""
    cluster.create_topic("orders", (1, 2))
    cluster.create_topic("kept", (1, 2))
    cluster.expire_session(3)
    assert TopicPartition("orders", 0) in cluster.brokers[3].metadata
    if not is_complete:
        cluster.stop_broker(2)
        cluster.settle()
    cluster.delete_topic("orders")
    assert (cluster.admin.exists(paths.topic("orders")) is None) is is_complete
    cluster.renew_session(3)
    assert cluster.brokers[3].metadata.keys() == {TopicPartition("kept", 0)}


def test_a_broker_that_missed_a_deletion_learns_of_it_from_the_next_controller(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    cluster.create_topic("kept", (1, 2))
    cluster.brokers[3].is_stopped = True  # it keeps its session
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is None
    (last,) = cluster.candidates
    last.plan.countdown = 0
    cluster.admin.create(paths.topic_deletion("unknown"))
    cluster.add_controller(2)
    cluster.settle()
    assert last.is_crashed
    cluster.brokers[3].is_stopped = False
    cluster.settle()
    assert cluster.brokers[3].metadata.keys() == {TopicPartition("kept", 0)}


def test_a_deletion_waits_for_a_broker_that_goes_down_meanwhile(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 3))
    cluster.brokers[3].is_stopped = True  # it does not answer, and is still registered
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None


def test_a_deletion_waits_for_a_log_directory_that_failed(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 3))
    cluster.brokers[3].failed.add(TopicPartition("orders", 0))
    cluster.delete_topic("orders")
    assert cluster.active.context.topics_ineligible_for_deletion == {"orders"}
    cluster.stop_broker(3)
    cluster.settle()
    cluster.brokers[3].failed.clear()
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None


def test_topics_that_do_not_exist_are_not_deleted_for_ever(cluster: Cluster) -> None:
    cluster.delete_topic("unknown")
    assert cluster.admin.children(paths.DELETE_TOPICS) == []


def test_nothing_is_deleted_when_deletion_is_disabled() -> None:
    cluster = Cluster(1, settings=ControllerSettings(delete_topic_enable=False))
    cluster.add_controller(1)
    cluster.settle()
    cluster.create_topic("orders", (1,))
    cluster.delete_topic("orders")
    assert cluster.admin.children(paths.DELETE_TOPICS) == []
    assert cluster.brokers[1].logs == {TopicPartition("orders", 0)}


def test_a_topic_that_is_being_deleted_gets_no_partitions(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 3))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.delete_topic("orders")
    before = cluster.topic("orders")
    grown = TopicAssignment(before.topic_id, (*before.partitions, ReplicaAssignment((2,))))
    cluster.admin.set(paths.topic("orders"), encode_topic(grown))
    cluster.settle()
    assert cluster.topic("orders") == before


def test_a_deletion_goes_on_without_a_reassignment_when_a_broker_is_back(cluster: Cluster) -> None:
    """The partition may have no leader, and would never arrive."""
    cluster.create_topic("orders", (3,))
    cluster.admin.create(paths.REASSIGNMENTS, encode_reassignments({("orders", 0): (2,)}))
    cluster.settle()
    cluster.stop_broker(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None
    assert cluster.admin.exists(paths.REASSIGNMENTS) is None
    assert not any(broker.logs for broker in cluster.brokers.values())
