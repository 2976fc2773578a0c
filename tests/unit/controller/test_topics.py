"""Topics come and grow: their partitions get leaders, and every broker is informed."""

from __future__ import annotations

import pytest

from tests.unit.controller.cluster import Cluster
from tidelog.controller.states import PartitionStatus
from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.tree import (
    ReplicaAssignment,
    TopicAssignment,
    encode_topic,
)
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.partitions import TopicPartition


def test_a_new_topic_gets_leaders_and_every_broker_learns_of_them(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3), (3, 1))
    assert cluster.led("orders", 0) == (2, (2, 3))
    assert cluster.led("orders", 1) == (3, (3, 1))
    assert cluster.leadership("orders").controller_epoch == 1
    follower = cluster.brokers[3].states[TopicPartition("orders", 0)]
    assert (follower.leader, follower.leader_epoch, follower.is_new) == (2, 0, True)
    assert cluster.brokers[1].logs == {TopicPartition("orders", 1)}
    for broker in cluster.brokers.values():
        assert broker.metadata == {
            TopicPartition("orders", 0): (2, 0, (2, 3)),
            TopicPartition("orders", 1): (3, 0, (3, 1)),
        }


def test_leader_and_isr_carries_what_version_7_wants(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    request = next(each for each in cluster.brokers[3].received if isinstance(each, LeaderAndIsrRequest))
    assert (request.controller_id, request.controller_epoch, request.is_kraft_controller) == (1, 1, False)
    assert request.broker_epoch == cluster.brokers[3].epoch
    assert [topic.topic_id for topic in request.topic_states] == [cluster.topic("orders").topic_id]
    assert [(each.broker_id, each.host_name, each.port) for each in request.live_leaders] == [(2, "host2", 9092)]
    (state,) = request.topic_states[0].partition_states
    assert (state.replicas, state.isr, state.partition_epoch, state.leader_recovery_state) == ([2, 3], [2, 3], 0, 0)
    assert request.encode(7)


def test_a_partition_whose_replicas_are_all_down_waits_for_one(cluster: Cluster) -> None:
    cluster.stop_broker(3)
    cluster.settle()
    cluster.create_topic("orders", (3,))
    assert cluster.active.context.partition_state(TopicPartition("orders", 0)) is PartitionStatus.NEW
    with pytest.raises(NoNodeError):
        cluster.leadership("orders")
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (3, (3,))


def test_only_live_replicas_are_in_the_first_isr(cluster: Cluster) -> None:
    cluster.stop_broker(1)
    cluster.settle()
    cluster.create_topic("orders", (1, 2, 3))
    assert cluster.led("orders") == (2, (2, 3))


def test_a_topic_grows(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    topic = cluster.topic("orders")
    grown = TopicAssignment(topic.topic_id, (*topic.partitions, ReplicaAssignment((3, 2))))
    cluster.admin.set(paths.topic("orders"), encode_topic(grown))
    cluster.settle()
    assert cluster.led("orders", 1) == (3, (3, 2))
    assert cluster.leadership("orders", 0).leader_epoch == 0


def test_a_topic_that_has_no_id_gets_one(cluster: Cluster) -> None:
    cluster.admin.create(paths.topic("old"), encode_topic(TopicAssignment(None, (ReplicaAssignment((1,)),))))
    cluster.settle()
    topic_id = cluster.topic("old").topic_id
    assert topic_id is not None
    assert cluster.active.context.topic_names[topic_id] == "old"
