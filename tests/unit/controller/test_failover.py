"""A controller stops anywhere, another takes over, and the outcome is the same.

Each scenario is run once to count the writes to the tree and the requests to brokers that it takes. Then it is run
again for each of them, with the controller ended right before it; the next controller must reach the same end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.controller.cluster import Cluster, CrashPlan
from tidelog.controller import events
from tidelog.controller.events import Reply
from tidelog.metadata import paths
from tidelog.metadata.errors import NodeError
from tidelog.metadata.tree import (
    ReplicaAssignment,
    TopicAssignment,
    encode_partitions,
    encode_reassignments,
    encode_topic,
)
from tidelog.wire.partitions import TopicPartition

ORDERS = TopicPartition("orders", 0)


def ask_until_answered(cluster: Cluster, make_event: Callable[[Reply[Any]], events.Event]) -> None:
    """A client repeats its request at the next controller when the first does not answer."""
    assert cluster.ask(make_event) is not None or cluster.ask(make_event) is not None


def catch_up(cluster: Cluster) -> None:
    """Leaders take every replica into the ISR that their broker models follow with, as fetching does."""
    for _ in range(3):
        for name in cluster.admin.children(paths.TOPICS):
            for index, assignment in enumerate(cluster.topic(name).partitions):
                partition = TopicPartition(name, index)
                try:
                    leader, isr = cluster.led(name, index)
                except NodeError:
                    continue
                following = [
                    each
                    for each in assignment.replicas
                    if not cluster.brokers[each].is_stopped and partition in cluster.brokers[each].states
                ]
                wanted = tuple(dict.fromkeys((*isr, *following)))
                if leader >= 0 and wanted != isr and not cluster.brokers[leader].is_stopped:
                    cluster.alter_isr(name, wanted, index)


# --- scenarios: what was before, and what happens ---


def two_topics(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (2, 3), config={"retention.ms": "5"})
    cluster.create_topic("other", (3, 1))


def create(cluster: Cluster) -> None:
    cluster.create_topic("new", (1, 2), (2, 3), (3, 1))


def grow(cluster: Cluster) -> None:
    topic = cluster.topic("orders")
    grown = TopicAssignment(topic.topic_id, (*topic.partitions, *[ReplicaAssignment((3, 1))] * 2))
    cluster.admin.set(paths.topic("orders"), encode_topic(grown))


def delete(cluster: Cluster) -> None:
    cluster.admin.create(paths.topic_deletion("orders"))


def delete_with_a_broker_down(cluster: Cluster) -> None:
    cluster.stop_broker(3)
    delete(cluster)
    cluster.settle()
    cluster.start_broker(3)


def lose_a_broker(cluster: Cluster) -> None:
    cluster.stop_broker(2)


def restart_a_broker(cluster: Cluster) -> None:
    cluster.stop_broker(2)
    cluster.settle()
    cluster.start_broker(2)
    cluster.settle()
    catch_up(cluster)


def move(cluster: Cluster) -> None:
    ask_until_answered(cluster, lambda reply: events.ApiReassignment({ORDERS: (3, 4)}, reply))
    catch_up(cluster)


def move_as_a_node_asks(cluster: Cluster) -> None:
    cluster.admin.create(paths.REASSIGNMENTS, encode_reassignments({("orders", 0): (3, 4), ("other", 0): (1, 4)}))
    cluster.settle()
    catch_up(cluster)


def cancel(cluster: Cluster) -> None:
    ask_until_answered(cluster, lambda reply: events.ApiReassignment({ORDERS: (1, 4)}, reply))
    ask_until_answered(cluster, lambda reply: events.ApiReassignment({ORDERS: None}, reply))
    catch_up(cluster)


def delete_while_moving(cluster: Cluster) -> None:
    ask_until_answered(cluster, lambda reply: events.ApiReassignment({ORDERS: (3, 4)}, reply))
    delete(cluster)
    cluster.settle()
    catch_up(cluster)


def shut_a_broker_down(cluster: Cluster) -> None:
    ask_until_answered(cluster, lambda reply: events.ControlledShutdown(2, cluster.brokers[2].epoch, reply))
    cluster.stop_broker(2)


def elect_preferred_leaders(cluster: Cluster) -> None:
    restart_a_broker(cluster)
    cluster.admin.create(paths.PREFERRED_ELECTION, encode_partitions([("orders", 1), ("other", 0)]))


SCENARIOS = [
    create,
    grow,
    delete,
    delete_with_a_broker_down,
    lose_a_broker,
    restart_a_broker,
    move,
    move_as_a_node_asks,
    cancel,
    delete_while_moving,
    shut_a_broker_down,
    elect_preferred_leaders,
]


def play(scenario: Callable[[Cluster], None], plan: CrashPlan) -> Cluster:
    """Brokers 1 to 4, the controller on broker 4 with broker 1 as its successor; `plan` counts from the scenario on."""
    cluster = Cluster(1, 2, 3, 4)
    first = cluster.add_controller(4, CrashPlan())
    cluster.settle()
    cluster.add_controller(1)
    cluster.settle()
    two_topics(cluster)
    first.plan.countdown, first.plan.reached = plan.countdown, 0
    scenario(cluster)
    cluster.settle()
    catch_up(cluster)
    plan.reached = first.plan.reached
    return cluster


def outcome(cluster: Cluster) -> dict[str, Any]:
    """What must not depend on who decided it, and when.

    As in Kafka, a log is left on a broker if the controller stops between the write that takes a replica out of the
    assignment and the broker's answer to StopReplica: the next controller no longer knows of it.
    """
    nodes = cluster.snapshot()
    topics = {}
    assigned: dict[int, set[TopicPartition]] = {broker_id: set() for broker_id in cluster.brokers}
    for name in cluster.admin.children(paths.TOPICS):
        for index, assignment in enumerate(cluster.topic(name).partitions):
            for broker_id in assignment.replicas:
                assigned[broker_id].add(TopicPartition(name, index))
            leadership = cluster.leadership(name, index)
            topics[f"{name}-{index}"] = (assignment, leadership.leader, frozenset(leadership.isr))
    return {
        "topics": topics,
        "other nodes": sorted(path for path in nodes if not path.startswith("/brokers/topics")),
        "missing logs": {each: sorted(assigned[each] - broker.logs) for each, broker in cluster.brokers.items()},
    }


def assert_all_know(cluster: Cluster) -> None:
    """Every broker that is alive believes what the tree says."""
    context = cluster.active.context
    for name in cluster.admin.children(paths.TOPICS):
        for index, assignment in enumerate(cluster.topic(name).partitions):
            partition = TopicPartition(name, index)
            leadership = cluster.leadership(name, index)
            assert context.leaderships[partition] == leadership
            assert context.assignment(partition) == assignment
            for broker_id, broker in cluster.brokers.items():
                if broker.is_stopped:
                    continue
                assert broker.metadata[partition] == (leadership.leader, leadership.leader_epoch, leadership.isr)
                if broker_id in assignment.replicas:
                    known = broker.states[partition]
                    assert (known.leader, known.leader_epoch) == (leadership.leader, leadership.leader_epoch)
                    assert tuple(known.replicas) == assignment.replicas


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_next_controller_finishes_what_the_last_began(scenario: Callable[[Cluster], None]) -> None:
    plan = CrashPlan()
    undisturbed = play(scenario, plan)
    assert_all_know(undisturbed)
    wanted = outcome(undisturbed)
    assert plan.reached > 0
    for countdown in range(1, plan.reached + 1):
        crashed = play(scenario, CrashPlan(countdown))
        assert crashed.candidates[0].is_crashed
        assert crashed.active.epoch == 2
        assert outcome(crashed) == wanted, f"after a crash at step {countdown} of {plan.reached}"
        assert_all_know(crashed)
        if scenario in (delete, delete_with_a_broker_down):
            assert not any(ORDERS in broker.logs for broker in crashed.brokers.values()), f"step {countdown}"


def test_an_election_won_between_two_sessions_leaves_a_controller_that_knows_the_cluster() -> None:
    """The old session ends while the election runs: it is won in the new one, before the end is processed."""
    cluster = Cluster(1, 2, 3)
    first, second = cluster.add_controller(1), cluster.add_controller(2)
    cluster.settle()
    cluster.create_topic("orders", (3, 2))
    second.store.store.expire()
    first.is_crashed = True
    first.store.store.close()
    second.events.put(events.Reelect())
    while second.step():
        continue
    second.events.clear_and_put(events.Expire())
    second.events.put(events.RegisterBrokerAndReelect())
    cluster.settle()
    assert cluster.active is second.controller
    assert sorted(cluster.active.context.live_brokers) == [1, 2, 3]
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (2, (2,))


def test_a_controller_that_takes_over_a_quiet_cluster_changes_nothing() -> None:
    cluster = play(create, CrashPlan())
    before = cluster.snapshot()
    cluster.candidates[0].events.put(events.Shutdown())
    cluster.settle()
    assert cluster.active.epoch == 2
    assert cluster.snapshot() == before
