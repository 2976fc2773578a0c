"""Whatever happens to a cluster, in whatever order, its controller brings it back to order.

Topics come and go, partitions move, brokers stop, start and restart unnoticed, leaders change their ISR, and
controllers are ended in the middle of a write or a request. When every broker is up again and nothing more happens,
each topic that was not deleted is led by a replica in sync, every broker believes what the tree says, and no request is
left in the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.test_failover import assert_all_know, catch_up
from tidelog.controller import events
from tidelog.controller.events import ElectionTrigger, ElectionType, Reply
from tidelog.metadata import paths
from tidelog.metadata.tree import encode_reassignments
from tidelog.wire.partitions import TopicPartition

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b")

broker_ids = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
replicas = st.lists(broker_ids, min_size=1, max_size=3, unique=True).map(tuple)


@dataclass(frozen=True)
class Step:
    """One thing that happens; `arguments` are for the method of `Play` of that name."""

    name: str
    arguments: tuple[Any, ...] = ()


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(name), st.tuples(*arguments))


steps = st.one_of(
    step("create", topics, st.lists(replicas, min_size=1, max_size=3)),
    step("delete", topics),
    step("reassign", topics, replicas),
    step("reassign_by_node", topics, replicas),
    step("cancel", topics),
    step("stop", broker_ids),
    step("start", broker_ids),
    step("bounce", broker_ids),
    step("shut_down", broker_ids),
    step("catch_up"),
    step("elect", topics, st.sampled_from(ElectionType)),
    step("crash_controller", st.integers(1, 12)),
    step("settle"),
)


class Play:
    """A cluster to which things happen. Nothing settles unless a step says so."""

    def __init__(self) -> None:
        self.cluster = Cluster(*BROKERS)
        self.controllers = 0
        self.new_controller()
        self.cluster.settle()
        self.created: set[str] = set()

    def new_controller(self) -> None:
        self.controllers += 1
        self.cluster.add_controller(100 + self.controllers)  # two of the same id would take each other for themselves

    def put(self, event: events.Event) -> None:
        for candidate in self.cluster.candidates:
            if candidate.controller.is_active and not candidate.is_crashed:
                candidate.events.put(event)

    def create(self, topic: str, assignments: list[tuple[int, ...]]) -> None:
        if self.cluster.admin.exists(paths.topic(topic)) is None:
            self.cluster.create_topic(topic, *assignments)
            self.created.add(topic)

    def delete(self, topic: str) -> None:
        is_there = self.cluster.admin.exists(paths.topic(topic)) is not None
        if is_there and self.cluster.admin.exists(paths.topic_deletion(topic)) is None:
            self.cluster.admin.create(paths.topic_deletion(topic))
            self.created.discard(topic)

    def reassign(self, topic: str, target: tuple[int, ...] | None) -> None:
        self.put(events.ApiReassignment({TopicPartition(topic, 0): target}, Reply(lambda _: None)))

    def cancel(self, topic: str) -> None:
        self.reassign(topic, None)

    def reassign_by_node(self, topic: str, target: tuple[int, ...]) -> None:
        if self.cluster.admin.exists(paths.REASSIGNMENTS) is None:
            self.cluster.admin.create(paths.REASSIGNMENTS, encode_reassignments({(topic, 0): target}))

    def stop(self, broker_id: int) -> None:
        if not self.cluster.brokers[broker_id].is_stopped:
            self.cluster.stop_broker(broker_id)

    def start(self, broker_id: int) -> None:
        if self.cluster.brokers[broker_id].is_stopped:
            self.cluster.start_broker(broker_id)

    def bounce(self, broker_id: int) -> None:
        self.stop(broker_id)
        self.start(broker_id)

    def shut_down(self, broker_id: int) -> None:
        epoch = self.cluster.brokers[broker_id].epoch
        self.put(events.ControlledShutdown(broker_id, epoch, Reply(lambda _: None)))

    def catch_up(self) -> None:
        self.cluster.settle()
        catch_up(self.cluster)

    def elect(self, topic: str, election_type: ElectionType) -> None:
        partitions = (TopicPartition(topic, 0),)
        self.put(events.ReplicaLeaderElection(partitions, election_type, ElectionTrigger.ADMIN))

    def crash_controller(self, countdown: int) -> None:
        """The active controller ends before one of its next writes or requests, and another broker has one, too."""
        self.cluster.settle()
        for candidate in self.cluster.candidates:
            if candidate.controller.is_active and not candidate.is_crashed:
                candidate.plan.countdown, candidate.plan.reached = countdown, 0
        self.new_controller()

    def settle(self) -> None:
        self.cluster.settle()

    def come_to_rest(self) -> None:
        """Every broker runs, and controllers end no more."""
        self.cluster.settle()
        for candidate in self.cluster.candidates:
            candidate.plan.countdown = -1
        for broker_id in BROKERS:
            # Brokers that announced their end do stop, and are started again.
            self.bounce(broker_id)
            self.catch_up()
        self.catch_up()


@settings(max_examples=examples(90), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(steps, max_size=25))
def test_a_cluster_comes_back_to_order(story: list[Step]) -> None:
    play = Play()
    for each in story:
        getattr(play, each.name)(*each.arguments)
    play.come_to_rest()
    cluster = play.cluster
    assert set(cluster.admin.children(paths.TOPICS)) == play.created
    assert cluster.admin.children(paths.DELETE_TOPICS) == []
    assert cluster.admin.exists(paths.REASSIGNMENTS) is None
    assert not cluster.active.context.reassigning
    for name in play.created:
        for index, assignment in enumerate(cluster.topic(name).partitions):
            leadership = cluster.leadership(name, index)
            assert not assignment.is_being_reassigned
            assert leadership.leader in leadership.isr
            assert set(leadership.isr) == set(assignment.replicas)
    assert_all_know(cluster)


def test_a_crash_of_the_story_ends_the_controller() -> None:
    play = Play()
    play.crash_controller(1)
    play.create("a", [(1, 2)])
    assert play.cluster.candidates[0].is_crashed
    assert play.cluster.active.epoch == 2
