"""Partitions move to other brokers, step by step."""

from __future__ import annotations

import pytest

from tests.unit.controller.cluster import Cluster
from tidelog.controller import events
from tidelog.metadata import paths
from tidelog.metadata.tree import (
    ReplicaAssignment,
    encode_reassignments,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.partitions import TopicPartition


def reassign(cluster: Cluster, *targets: tuple[TopicPartition, tuple[int, ...] | None]) -> dict[TopicPartition, object]:
    results = cluster.ask(lambda reply: events.ApiReassignment(dict(targets), reply))
    return {key: None if each is None else each.code for key, each in results.items()}


ORDERS = TopicPartition("orders", 0)


def test_a_partition_moves_step_by_step() -> None:
    cluster = Cluster(1, 2, 3, 4, 5, 6)
    cluster.add_controller(1)
    cluster.settle()
    cluster.create_topic("orders", (1, 2, 3))
    assert reassign(cluster, (ORDERS, (4, 5, 6))) == {ORDERS: None}
    under_way = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert cluster.assignment("orders") == under_way
    assert cluster.led("orders") == (1, (1, 2, 3))
    assert cluster.leadership("orders").leader_epoch == 1
    assert cluster.ask(lambda reply: events.ListReassignments(None, reply)) == {ORDERS: under_way}
    added = cluster.brokers[5].states[ORDERS]
    assert (added.leader, added.is_new, added.adding_replicas, added.removing_replicas) == (
        1,
        True,
        [4, 5, 6],
        [1, 2, 3],
    )

    cluster.alter_isr("orders", (1, 2, 3, 4, 5))
    assert cluster.assignment("orders") == under_way, "broker 6 is not in sync"

    cluster.alter_isr("orders", (1, 2, 3, 4, 5, 6))
    assert cluster.assignment("orders") == ReplicaAssignment((4, 5, 6))
    assert cluster.led("orders") == (4, (4, 5, 6))
    assert cluster.ask(lambda reply: events.ListReassignments((ORDERS,), reply)) == {}
    for broker_id in (1, 2, 3):
        assert not cluster.brokers[broker_id].logs
    assert cluster.brokers[4].states[ORDERS].leader == 4
    assert cluster.brokers[6].states[ORDERS].replicas == [4, 5, 6]
    assert cluster.brokers[2].metadata[ORDERS][0] == 4


def test_a_leader_that_stays_leads_on_in_a_new_epoch(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (3, 1)))
    cluster.alter_isr("orders", (1, 2, 3))
    assert cluster.assignment("orders") == ReplicaAssignment((3, 1))
    assert cluster.led("orders") == (1, (1, 3))


def test_replicas_can_be_reordered_and_dropped_at_once(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    reassign(cluster, (ORDERS, (3, 1)))
    assert cluster.assignment("orders") == ReplicaAssignment((3, 1))
    assert cluster.led("orders") == (1, (1, 3))
    assert not cluster.brokers[2].logs


def test_a_cancelled_reassignment_returns_to_where_it_came_from(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (1, 3)))
    assert ORDERS in cluster.brokers[3].logs
    assert reassign(cluster, (ORDERS, None)) == {ORDERS: None}
    assert set(cluster.assignment("orders").replicas) == {1, 2}
    assert not cluster.assignment("orders").is_being_reassigned
    assert not cluster.brokers[3].logs
    assert cluster.led("orders") == (1, (1, 2))


def test_a_reassignment_supplants_another(cluster: Cluster) -> None:
    cluster.start_broker(4)
    cluster.settle()
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (1, 3)))
    reassign(cluster, (ORDERS, (1, 4)))
    assert cluster.assignment("orders") == ReplicaAssignment((1, 4, 2), (4,), (2,))
    assert not cluster.brokers[3].logs
    assert ORDERS in cluster.brokers[4].logs


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -3), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_impossible_reassignments_are_refused(
    cluster: Cluster, target: tuple[int, ...] | None, code: ErrorCode
) -> None:
    cluster.create_topic("orders", (1, 2))
    before = cluster.snapshot()
    assert reassign(cluster, (ORDERS, target)) == {ORDERS: code}
    assert cluster.snapshot() == before
    unknown = TopicPartition("unknown", 0)
    assert reassign(cluster, (unknown, (1, 2))) == {unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_many_partitions_move_at_once(cluster: Cluster) -> None:
    cluster.create_topic("orders", *[(1, 2)] * 4)
    partitions = [TopicPartition("orders", index) for index in range(4)]
    reassign(cluster, *[(partition, (2, 3)) for partition in partitions])
    for index in reversed(range(4)):
        cluster.alter_isr("orders", (1, 2, 3), index)
    assert [cluster.assignment("orders", index) for index in range(4)] == [ReplicaAssignment((2, 3))] * 4
    assert not cluster.brokers[1].logs


def test_partitions_move_as_a_node_asks(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (1, 2))
    for target in ((2, 3), (1, 2)):
        request = {("orders", 0): target, ("orders", 7): target}
        cluster.admin.create(paths.REASSIGNMENTS, encode_reassignments(request))
        cluster.settle()
        assert cluster.admin.get(paths.REASSIGNMENTS)[0] == encode_reassignments({("orders", 0): target})
        cluster.alter_isr("orders", tuple(sorted({*cluster.leadership("orders").isr, *target})))
        assert cluster.admin.exists(paths.REASSIGNMENTS) is None
        assert cluster.assignment("orders") == ReplicaAssignment(target)


def test_a_reassignment_goes_on_when_its_broker_is_back(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (1, 3)))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.brokers[3].states[ORDERS].leader == 1
    cluster.alter_isr("orders", (1, 2, 3))
    assert cluster.assignment("orders") == ReplicaAssignment((1, 3))


def test_a_topic_is_deleted_once_its_partitions_have_moved(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (1, 2))
    reassign(cluster, (ORDERS, (1, 3)), (TopicPartition("orders", 1), (1, 3)))
    cluster.delete_topic("orders")
    assert cluster.brokers[1].logs, "the deletion waits"
    cluster.alter_isr("orders", (1, 2, 3), 0)
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.alter_isr("orders", (1, 2, 3), 1)
    assert cluster.admin.exists(paths.topic("orders")) is None
    assert not any(broker.logs for broker in cluster.brokers.values())
