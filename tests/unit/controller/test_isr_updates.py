"""AlterPartition: which ISR of which leader is written, and which is rejected."""

from __future__ import annotations

import pytest

from tests.unit.controller.cluster import Cluster
from tidelog.controller import events
from tidelog.metadata import paths
from tidelog.metadata.tree import (
    encode_partition_state,
    encode_partitions,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.partitions import TopicPartition


def test_an_isr_is_written_and_announced(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    response = cluster.alter_isr("orders", (1, 2))
    (answer,) = response.topics[0].partitions
    assert (answer.error_code, answer.leader_id, answer.isr, answer.partition_epoch) == (0, 1, [1, 2], 1)
    assert cluster.led("orders") == (1, (1, 2))
    assert cluster.leadership("orders").leader_epoch == 0, "the ISR changes within a leader epoch"
    assert cluster.brokers[3].metadata[TopicPartition("orders", 0)] == (1, 0, (1, 2))


def test_a_repeated_request_for_an_isr_gets_the_same_answer(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    first = cluster.alter_isr("orders", (1, 2))
    again = cluster.alter_isr("orders", (1, 2), partition_epoch=0)
    assert again == first


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"topic_id": bytes(15) + b"\1"}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_an_isr_of_an_outdated_leader_is_refused(cluster: Cluster, changes: dict[str, int], code: ErrorCode) -> None:
    cluster.create_topic("orders", (2, 1, 3))
    cluster.stop_broker(2)
    cluster.settle()
    before = cluster.leadership("orders")
    assert (before.leader_epoch, before.partition_epoch) == (1, 1)
    response = cluster.alter_isr("orders", (1,), **changes)
    assert [answer.error_code for answer in response.topics[0].partitions] == [code]
    assert cluster.leadership("orders") == before


def test_replicas_that_are_down_shutting_down_or_of_another_life_are_not_eligible(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    cluster.alter_isr("orders", (1,))
    cluster.ask(lambda reply: events.ControlledShutdown(3, -1, reply))
    assert cluster.alter_isr("orders", (1, 3)).topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    old = cluster.alter_isr("orders", (1, 3), version=1)
    assert old.topics[0].partitions[0].error_code == ErrorCode.OPERATION_NOT_ATTEMPTED
    cluster.brokers[2].epoch -= 1  # what the leader last heard
    assert cluster.alter_isr("orders", (1, 2)).topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_of_another_life_changes_nothing(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    assert cluster.alter_isr("orders", (1,), broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_an_isr_that_a_leader_wrote_itself_is_taken_over(cluster: Cluster) -> None:
    """Brokers before AlterPartition write the node and leave a notice."""
    cluster.create_topic("orders", (1, 2, 3))
    state = cluster.leadership("orders")._replace(isr=(1, 3))
    cluster.admin.set(paths.partition_state("orders", 0), encode_partition_state(state.node()))
    notice = encode_partitions([("orders", 0)])
    cluster.admin.create(f"{paths.ISR_CHANGES}/isr_change_", notice, sequential=True)
    cluster.settle()
    assert cluster.active.context.leaderships[TopicPartition("orders", 0)].isr == (1, 3)
    assert cluster.brokers[2].metadata[TopicPartition("orders", 0)] == (1, 0, (1, 3))
    assert cluster.admin.children(paths.ISR_CHANGES) == []
