"""Who leads, for each cause. The cases are those of Kafka's own tests, as tables."""

import pytest

from tidelog.controller.context import ControllerContext, LiveBroker
from tidelog.controller.elections import ElectionCause, elect_leader
from tidelog.controller.partitions import Leadership
from tidelog.metadata.tree import BrokerRegistration, ReplicaAssignment, TopicAssignment
from tidelog.wire.partitions import TopicPartition

ORDERS = TopicPartition("orders", 0)


def context_of(
    replicas: tuple[int, ...],
    live: tuple[int, ...],
    shutting_down: tuple[int, ...] = (),
    target: tuple[int, ...] | None = None,
) -> ControllerContext:
    context = ControllerContext()
    context.live_brokers = {each: LiveBroker(BrokerRegistration(each, ()), each) for each in live}
    context.shutting_down = set(shutting_down)
    assignment = ReplicaAssignment(replicas)
    if target is not None:
        assignment = assignment.reassign_to(target)
    context.add_topic("orders", TopicAssignment(bytes(16), (assignment,)))
    return context


def elected(
    cause: ElectionCause, context: ControllerContext, isr: tuple[int, ...], leader: int = -1, *, unclean: bool = False
) -> tuple[int, tuple[int, ...], int] | None:
    """Leader, ISR and recovery state."""
    before = Leadership(leader, 4, isr, 7)
    election = elect_leader(cause, context, ORDERS, before, is_unclean_allowed=unclean)
    if election.leadership is None:
        return None
    assert election.leadership.leader_epoch == 5
    return election.leadership.leader, election.leadership.isr, election.leadership.recovery_state


@pytest.mark.parametrize(
    ("live", "isr", "unclean", "outcome"),
    [
        ((4,), (2, 4), False, (4, (4,), 0)),
        ((2, 4), (2, 4), False, (4, (2, 4), 0)),
        ((4,), (2,), False, None),
        ((), (2,), True, None),
        ((2, 4), (), True, (4, (4,), 1)),
        ((2,), (4,), True, (2, (2,), 1)),
        ((2, 4), (2,), True, (2, (2,), 0)),
    ],
)
def test_an_offline_partition_is_led_from_its_isr(
    live: tuple[int, ...], isr: tuple[int, ...], unclean: bool, outcome: object
) -> None:
    """The first live replica of the assignment that is in sync; any live one only where unclean is allowed."""
    context = context_of((4, 2), live)
    assert elected(ElectionCause.OFFLINE, context, isr, unclean=unclean) == outcome


def test_a_partition_that_recovers_stays_so_with_its_next_leader() -> None:
    before = Leadership(1, 4, (1, 2), 7, recovery_state=1)
    election = elect_leader(ElectionCause.OFFLINE, context_of((1, 2), (2,)), ORDERS, before)
    assert election.leadership == Leadership(2, 5, (2,), 7, recovery_state=1)


@pytest.mark.parametrize(
    ("live", "isr", "outcome"),
    [
        ((1, 2, 4, 5), (1, 2, 4, 5), (4, (1, 2, 4, 5), 0)),
        ((1, 2, 5), (1, 2, 4, 5), (5, (1, 2, 4, 5), 0)),
        ((1, 2), (1, 2, 4, 5), None),
        ((1, 2, 4, 5), (1, 2), None),
    ],
)
def test_a_reassigned_partition_is_led_by_a_target_replica(
    live: tuple[int, ...], isr: tuple[int, ...], outcome: object
) -> None:
    context = context_of((1, 2), live, target=(4, 5))
    assert elected(ElectionCause.REASSIGNMENT, context, isr, leader=1) == outcome


@pytest.mark.parametrize(
    ("live", "isr", "outcome"),
    [
        ((4, 2), (2, 4), (4, (2, 4), 0)),
        ((2,), (2, 4), None),
        ((4, 2), (2,), None),
    ],
)
def test_the_preferred_leader_is_the_first_replica_or_none(
    live: tuple[int, ...], isr: tuple[int, ...], outcome: object
) -> None:
    assert elected(ElectionCause.PREFERRED, context_of((4, 2), live), isr, leader=2) == outcome


@pytest.mark.parametrize(
    ("shutting_down", "isr", "outcome"),
    [
        ((2,), (2, 4), (4, (4,), 0)),
        ((2,), (2, 4, 5), (4, (4, 5), 0)),
        ((2, 4), (2, 4, 5), (5, (5,), 0)),
        ((2, 4, 5), (2, 4, 5), None),
        ((2,), (2,), None),
    ],
)
def test_a_broker_that_shuts_down_hands_over_to_one_that_does_not(
    shutting_down: tuple[int, ...], isr: tuple[int, ...], outcome: object
) -> None:
    context = context_of((2, 4, 5), (2, 4, 5), shutting_down)
    assert elected(ElectionCause.CONTROLLED_SHUTDOWN, context, isr, leader=2) == outcome


def test_the_recipients_of_an_election_are_those_who_must_know() -> None:
    context = context_of((1, 2, 3), (1, 2), (1,))
    before = Leadership(1, 0, (1, 2), 1)
    assert elect_leader(ElectionCause.OFFLINE, context, ORDERS, before).recipients == (2,)
    assert elect_leader(ElectionCause.CONTROLLED_SHUTDOWN, context, ORDERS, before).recipients == (1, 2)
    assert elect_leader(ElectionCause.PREFERRED, context, ORDERS, before).recipients == (1, 2, 3)
