"""The health of a cluster in one sentence."""

from tidelog.client.aio.admin.types import ClusterDescription, PartitionDescription, TopicDescription
from tidelog.client.types import BrokerNode
from tidelog.console.health import Level, assess

NODES = (BrokerNode(1, "a", 1), BrokerNode(2, "b", 2))


def topic(*partitions, name="t"):
    made = tuple(
        PartitionDescription(index, leader, 0, replicas, in_sync, ())
        for index, (leader, replicas, in_sync) in enumerate(partitions)
    )
    return TopicDescription(name, bytes(16), False, made)


def test_a_healthy_cluster():
    health = assess(ClusterDescription("c", 1, NODES), [topic((1, (1, 2), (1, 2)), (2, (2, 1), (2, 1)))])
    assert health.level is Level.GOOD
    assert health.sentence == "2 brokers running; all 2 partitions have a leader and every replica in sync."
    assert health.findings == ()


def test_what_is_wrong_is_named_worst_first():
    found = [topic((-1, (3, 1), (3,)), name="lost"), topic((1, (1, 2), (1,)), (2, (2, 1), (2,)), name="slow")]
    health = assess(ClusterDescription("c", -1, NODES), found)
    assert health.level is Level.BAD
    assert health.sentence == (
        "The cluster has no controller, 1 partition has no leader, broker 3 is offline and 2 partitions are "
        "under-replicated."
    )
    assert [each.topics for each in health.findings] == [(), ("lost",), (), ("slow",)]


def test_a_leader_elsewhere_is_a_remark_and_not_a_fault():
    health = assess(ClusterDescription("c", 1, NODES), [topic((2, (1, 2), (1, 2)))])
    assert health.level is Level.GOOD
    assert health.findings[0].text == "1 partition is not led by the preferred replica"


def test_an_empty_cluster():
    assert assess(ClusterDescription("c", 1, NODES[:1]), []).sentence == "1 broker running; there are no topics yet."
