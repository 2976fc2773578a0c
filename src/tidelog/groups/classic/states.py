"""The states of a group with the classic protocol, and what leads from one to the next.

    Empty                no members; offsets may be kept
    PreparingRebalance   waits until every member has sent a JoinGroup, or the rebalance timeout
    CompletingRebalance  members know their generation; waits for the leader's assignment
    Stable               members have their assignments
    Dead                 no members and no offsets any more, or it has become a consumer group; it is removed

The table below is the whole of it: `Group.advance` is the only place where a state changes, and it asks `advance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.coordination.transitions import follow


class GroupState(Enum):
    """Its value is the name that clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupEvent(Enum):
    """What may happen to a group."""

    REBALANCE_BEGAN = auto()
    """A member came, went or changed what it supports, or the leader asked for it."""
    MEMBERS_JOINED = auto()
    """Whoever is still a member has joined the next generation."""
    MEMBERS_GONE = auto()
    """Nobody has joined the next generation."""
    ASSIGNMENT_STORED = auto()
    """The leader's assignment is in the log."""
    REMOVED = auto()
    """It was deleted, or has nothing left to be kept for."""
    UPGRADED = auto()
    """It goes on as a consumer group, with its members."""


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
    """The state after `event`. An event that may not happen here raises and changes nothing."""
    return follow(TRANSITIONS, state, event, "group")


def may_rebalance(state: GroupState) -> bool:
    """Whether a rebalance can begin; while one is being prepared, it takes in whatever happens."""
    return (state, GroupEvent.REBALANCE_BEGAN) in TRANSITIONS
