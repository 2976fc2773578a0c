"""The states of a group with the classic protocol and the transitions between them.

    Empty                no members; offsets may be kept
    PreparingRebalance   waits until every member has sent a JoinGroup, or the rebalance timeout
    CompletingRebalance  members know their generation; waits for the leader's assignment
    Stable               members have their assignments
    Dead                 no members and no offsets any more, or it has become a consumer group; it is removed

The table below has every transition: `Group.advance` is the only place where a state changes, and it uses `advance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.coordination.transitions import follow


class GroupState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """What may happen to a group."""

    REBALANCE_BEGAN = auto()
    """A member joined, left or changed its protocols, or the leader joined again."""
    MEMBERS_JOINED = auto()
    """The remaining members have joined the next generation."""
    MEMBERS_GONE = auto()
    """No member has joined the next generation."""
    ASSIGNMENT_STORED = auto()
    """The leader's assignment is in the log."""
    REMOVED = auto()
    """It was deleted, or has neither members nor offsets."""
    UPGRADED = auto()
    """It became a consumer group, with its members."""


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = {
    (GroupState.EMPTY, GroupEvent.REBALANCE_BEGAN): GroupState.PREPARING_REBALANCE,
    (GroupState.STABLE, GroupEvent.REBALANCE_BEGAN): GroupState.PREPARING_REBALANCE,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE_BEGAN): GroupState.PREPARING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEvent.MEMBERS_JOINED): GroupState.COMPLETING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupEvent.MEMBERS_GONE): GroupState.EMPTY,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNMENT_STORED): GroupState.STABLE,
    (GroupState.EMPTY, GroupEvent.REMOVED): GroupState.DEAD,
    (GroupState.PREPARING_REBALANCE, GroupEvent.UPGRADED): GroupState.DEAD,
    (GroupState.COMPLETING_REBALANCE, GroupEvent.UPGRADED): GroupState.DEAD,
    (GroupState.STABLE, GroupEvent.UPGRADED): GroupState.DEAD,
}


def advance(state: GroupState, event: GroupEvent) -> GroupState:
    """The state after `event`; raises IllegalTransitionError if the table does not allow it."""
    return follow(TRANSITIONS, state, event, "group")


def may_rebalance(state: GroupState) -> bool:
    """Whether a rebalance can begin; one that is being prepared covers later causes too."""
    return (state, GroupEvent.REBALANCE_BEGAN) in TRANSITIONS
