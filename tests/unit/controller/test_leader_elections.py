"""Elections that admin clients, a node of the tree or the balance ask for."""

from __future__ import annotations

from tests.unit.controller.cluster import Cluster
from tidelog.controller import events
from tidelog.controller.events import ElectionTrigger, ElectionType
from tidelog.metadata import paths
from tidelog.metadata.tree import (
    encode_partitions,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import TopicPartition


def elect(cluster: Cluster, election_type: ElectionType, *partitions: TopicPartition) -> dict[TopicPartition, object]:
    results = cluster.ask(
        lambda reply: events.ReplicaLeaderElection(partitions, election_type, ElectionTrigger.ADMIN, reply)
    )
    return {key: each.code if isinstance(each, ApiError) else each for key, each in results.items()}


def test_preferred_leaders_are_elected_on_request(cluster: Cluster) -> None:
    moved, kept, gone, unknown = (TopicPartition(name, 0) for name in ("moved", "kept", "gone", "unknown"))
    cluster.create_topic("moved", (2, 1))
    cluster.create_topic("gone", (3, 1))
    cluster.create_topic("kept", (1, 2))
    for broker_id in (2, 3):
        cluster.stop_broker(broker_id)
        cluster.settle()
    cluster.start_broker(2)
    cluster.settle()
    cluster.alter_isr("moved", (1, 2))
    assert elect(cluster, ElectionType.PREFERRED, moved, kept, gone, unknown) == {
        moved: 2,
        kept: ErrorCode.ELECTION_NOT_NEEDED,
        gone: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert cluster.led("moved") == (2, (1, 2))


def test_an_unclean_leader_is_elected_on_request(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.create_topic("kept", (1,))
    for broker_id in (3, 2):
        cluster.stop_broker(broker_id)
        cluster.settle()
    orders, kept = TopicPartition("orders", 0), TopicPartition("kept", 0)
    assert elect(cluster, ElectionType.UNCLEAN, orders) == {orders: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    cluster.start_broker(3)
    cluster.settle()
    assert elect(cluster, ElectionType.UNCLEAN, orders, kept) == {orders: 3, kept: ErrorCode.ELECTION_NOT_NEEDED}


def test_preferred_leaders_are_elected_by_a_node_again_and_again(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 1))
    for _ in range(2):
        cluster.stop_broker(2)
        cluster.settle()
        cluster.start_broker(2)
        cluster.settle()
        cluster.alter_isr("orders", (1, 2))
        cluster.admin.create(paths.PREFERRED_ELECTION, encode_partitions([("orders", 0), ("unknown", 3)]))
        cluster.settle()
        assert cluster.led("orders") == (2, (1, 2))
        assert cluster.admin.exists(paths.PREFERRED_ELECTION) is None


def test_leaders_are_balanced_when_too_many_are_elsewhere(cluster: Cluster) -> None:
    cluster.create_topic("orders", *[(2, 1)] * 10)
    cluster.stop_broker(2)
    cluster.settle()
    cluster.start_broker(2)
    cluster.settle()
    for index in range(9):
        cluster.alter_isr("orders", (1, 2), index)
    assert cluster.candidates[0].balances == [5]
    cluster.active.events.put(events.AutoPreferredReplicaLeaderElection())
    cluster.settle()
    assert [cluster.led("orders", index)[0] for index in range(10)] == [2] * 9 + [1]
    assert cluster.candidates[0].balances == [5, 300]
    # One of ten is elsewhere: that is allowed.
    cluster.alter_isr("orders", (1, 2), 9)
    cluster.active.events.put(events.AutoPreferredReplicaLeaderElection())
    cluster.settle()
    assert cluster.led("orders", 9)[0] == 1
