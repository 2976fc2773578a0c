"""Kafka's tables of states: what may follow what, and nothing else."""

import pytest

from tests.unit.controller.cluster import Cluster, run
from tidelog.controller.partitions import PartitionReplica
from tidelog.controller.states import (
    PREVIOUS_OF_PARTITION,
    PREVIOUS_OF_REPLICA,
    PartitionStatus,
    ReplicaStatus,
)
from tidelog.wire.partitions import TopicPartition

ORDERS = TopicPartition("orders", 0)


def test_the_states_that_a_partition_may_come_from() -> None:
    non_existent, new, online, offline = PartitionStatus
    assert {status: set(PREVIOUS_OF_PARTITION[status]) for status in PartitionStatus} == {
        non_existent: {offline},
        new: {non_existent},
        online: {new, online, offline},
        offline: {new, online, offline},
    }


def test_the_states_that_a_replica_may_come_from() -> None:
    non_existent, new, online, offline, started, successful, ineligible = ReplicaStatus
    assert {status: set(PREVIOUS_OF_REPLICA[status]) for status in ReplicaStatus} == {
        non_existent: {successful},
        new: {non_existent},
        online: {new, online, offline, ineligible},
        offline: {new, online, offline, ineligible},
        started: {offline},
        successful: {started},
        ineligible: {offline, started},
    }


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(1, 2, 3)
    cluster.add_controller(1)
    cluster.settle()
    cluster.create_topic("orders", (2, 3))
    return cluster


@pytest.mark.parametrize("target", list(PartitionStatus))
@pytest.mark.parametrize("current", list(PartitionStatus))
def test_a_partition_enters_a_state_only_from_those_of_the_table(
    cluster: Cluster, current: PartitionStatus, target: PartitionStatus
) -> None:
    controller = cluster.active
    controller.context.partition_states[ORDERS] = current
    expected: PartitionStatus
    if target is PartitionStatus.ONLINE:
        run(controller._partitions.bring_online("orders"))
        # A new partition has no state node, and this one has: it does not go online.
        expected = target if current in (PartitionStatus.OFFLINE, PartitionStatus.ONLINE) else current
    else:
        run(controller._partitions.mark((ORDERS,), target))
        expected = target if current in PREVIOUS_OF_PARTITION[target] else current
    assert controller.context.partition_state(ORDERS) is expected


@pytest.mark.parametrize("target", list(ReplicaStatus))
@pytest.mark.parametrize("current", list(ReplicaStatus))
def test_a_replica_enters_a_state_only_from_those_of_the_table(
    cluster: Cluster, current: ReplicaStatus, target: ReplicaStatus
) -> None:
    controller = cluster.active
    replica = PartitionReplica(ORDERS, 3)
    controller.context.replica_states[replica] = current
    run(controller._replicas.change((replica,), target))
    expected = target if current in PREVIOUS_OF_REPLICA[target] else current
    assert controller.context.replica_state(replica) is expected
