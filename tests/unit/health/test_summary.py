"""The health of a cluster in one sentence."""

from tidelog.client.aio.admin.types import ClusterDescription, PartitionDescription, TopicDescription
from tidelog.client.types import BrokerNode
from tidelog.health import Level, Summary, summarize

NODES = (BrokerNode(1, "a", 1), BrokerNode(2, "b", 2))

Placed = tuple[int, tuple[int, ...], tuple[int, ...]]


def topic(*partitions: Placed) -> TopicDescription:
    made = tuple(
        PartitionDescription(index, leader, 0, replicas, in_sync, ())
        for index, (leader, replicas, in_sync) in enumerate(partitions)
    )
    return TopicDescription("t", bytes(16), False, made)


def summary(controller: int, **topics: TopicDescription) -> Summary:
    return summarize(ClusterDescription("c", controller, NODES), topics)


def test_a_healthy_cluster() -> None:
    health = summary(1, orders=topic((1, (1, 2), (1, 2)), (2, (2, 1), (2, 1))))
    assert health.level is Level.NOTE
    assert health.sentence == "2 brokers running; all 2 partitions have a leader and every replica in sync."
    assert health.findings == ()


def test_partitions_of_internal_topics_are_counted_apart() -> None:
    internal = topic((1, (1,), (1,)), (2, (2,), (2,)))._replace(is_internal=True)
    healthy = "2 brokers running; all {} have a leader and every replica in sync."
    both = summary(1, orders=topic((1, (1,), (1,))), offsets=internal)
    assert both.sentence == healthy.format("1 partition, plus 2 internal,")
    assert summary(1, offsets=internal).sentence == healthy.format("2 internal partitions")


def test_what_is_wrong_is_named_worst_first() -> None:
    health = summary(-1, slow=topic((1, (1, 2), (1,)), (2, (2, 1), (2,))), lost=topic((-1, (3, 1), (3,))))
    assert health.level is Level.BAD
    assert health.sentence == (
        "The cluster has no controller, 1 partition has no leader, broker 3 is not in the cluster and 2 partitions are "
        "under-replicated."
    )
    assert [each.topics for each in health.findings] == [(), ("lost",), (), ("slow",)]


def test_a_leader_elsewhere_is_a_remark_and_not_a_fault() -> None:
    health = summary(1, orders=topic((2, (1, 2), (1, 2))))
    assert health.level is Level.NOTE
    assert health.sentence == "2 brokers running; the only partition has a leader and every replica in sync."
    assert health.findings[0].text == "1 of 1 partitions are not led by their preferred replica"


def test_an_empty_cluster() -> None:
    assert summary(1).sentence == "2 brokers running; there are no topics yet."
