"""Elects the leader of a partition, for each cause of an election. Nothing is written: the leadership is returned."""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from tidelog.controller.context import ControllerContext
from tidelog.controller.partitions import Leadership
from tidelog.wire.partitions import TopicPartition


class ElectionCause(Enum):
    """Why a leader is elected."""

    OFFLINE = "offline"
    """The partition has no leader that is alive."""
    REASSIGNMENT = "reassignment"
    """The leader is not among the replicas that the partition moves to."""
    PREFERRED = "preferred"
    """The first replica of the assignment should lead."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """The leader's broker is about to stop."""


class Election(NamedTuple):
    """The outcome: None if no replica may lead. The recipients are the brokers that are notified of it."""

    leadership: Leadership | None
    recipients: tuple[int, ...]


def elect_leader(
    cause: ElectionCause,
    context: ControllerContext,
    partition: TopicPartition,
    leadership: Leadership,
    *,
    is_unclean_allowed: bool = False,
) -> Election:
    """Elect a leader for `partition`, whose state node holds `leadership`.

    `is_unclean_allowed` lets a replica from outside the ISR lead an offline partition; records may then be lost.
    """
    return _SELECTORS[cause](context, partition, leadership, is_unclean_allowed)


def _elect_offline(
    context: ControllerContext, partition: TopicPartition, leadership: Leadership, is_unclean_allowed: bool
) -> Election:
    online = context.online_replicas(partition)
    leader = _first(online, leadership.isr)
    elected = None
    if leader is not None:
        elected = leadership.next(leader, tuple(replica for replica in leadership.isr if replica in online))
    elif is_unclean_allowed and online:
        elected = leadership.next_unclean(online[0])
    return Election(elected, tuple(online))


def _elect_reassigned(
    context: ControllerContext, partition: TopicPartition, leadership: Leadership, _is_unclean_allowed: bool
) -> Election:
    target = context.assignment(partition).target
    leader = _first([replica for replica in target if context.is_online(replica, partition)], leadership.isr)
    return Election(None if leader is None else leadership.next(leader), target)


def _elect_preferred(
    context: ControllerContext, partition: TopicPartition, leadership: Leadership, _is_unclean_allowed: bool
) -> Election:
    replicas = context.assignment(partition).replicas
    preferred = replicas[0]
    if context.is_online(preferred, partition) and preferred in leadership.isr:
        return Election(leadership.next(preferred), replicas)
    return Election(None, replicas)


def _elect_at_shutdown(
    context: ControllerContext, partition: TopicPartition, leadership: Leadership, _is_unclean_allowed: bool
) -> Election:
    registered = [
        replica
        for replica in context.assignment(partition).replicas
        if context.is_online(replica, partition, or_shutting_down=True)
    ]
    staying = tuple(replica for replica in leadership.isr if replica not in context.shutting_down)
    leader = _first(registered, staying)
    return Election(None if leader is None else leadership.next(leader, staying), tuple(registered))


def _first(candidates: Collection[int], eligible: Collection[int]) -> int | None:
    return next((candidate for candidate in candidates if candidate in eligible), None)


_Selector: TypeAlias = Callable[[ControllerContext, TopicPartition, Leadership, bool], Election]
_SELECTORS: Final[Mapping[ElectionCause, _Selector]] = {
    ElectionCause.OFFLINE: _elect_offline,
    ElectionCause.REASSIGNMENT: _elect_reassigned,
    ElectionCause.PREFERRED: _elect_preferred,
    ElectionCause.CONTROLLED_SHUTDOWN: _elect_at_shutdown,
}
