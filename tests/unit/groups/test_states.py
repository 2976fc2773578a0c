"""Every state against every event and every request: what follows, and what each is answered.

The tables are the claim: they name all pairs, so that a new state or request without an answer fails here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tests.unit.groups.world import World
from tidelog.coordination.transitions import IllegalTransitionError
from tidelog.groups import GroupState
from tidelog.groups.classic.states import TRANSITIONS, GroupEvent, advance
from tidelog.wire.errors import ErrorCode

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
NONE, UNKNOWN, REBALANCE = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
WAITS = "waits"


@pytest.mark.parametrize(("state", "event"), list(product(GroupState, GroupEvent)))
def test_only_the_transitions_of_the_table_happen(state: GroupState, event: GroupEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert advance(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(IllegalTransitionError, match=state.value):
            advance(state, event)


def test_nothing_leads_out_of_dead_and_everything_else_can_be_reached() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] is DEAD]
    assert set(TRANSITIONS.values()) == set(GroupState)


def group_in(state: GroupState) -> tuple[World, str, str]:
    """A group in a state, with the ids of its leader and of a follower (which are gone in Empty and Dead)."""
    world = World()
    leader, follower = world.stable(None, None)
    if state is PREPARING:
        world.join(protocols=(("range", b"new"),))
    elif state is COMPLETING:
        world.join(leader), world.join(follower)
    elif state is not STABLE:
        world.leave((leader, None), (follower, None))
        if state is DEAD:
            world.delete_group()
    found = world.shard.group("g")
    assert (found.state if found is not None else DEAD) is state
    return world, leader, follower


def outcome(call: object) -> object:
    return WAITS if call.is_waiting else call.code  # type: ignore[attr-defined]


def generation(world: World) -> int:
    group = world.shard.group("g")
    return 2 if group is None else group.generation


REQUESTS: dict[str, Callable[[World, str, str], object]] = {
    "join new": lambda w, _l, _f: outcome(w.join()),
    "join new, id required": lambda w, _l, _f: outcome(w.join(needs_member_id=True)),
    "join leader": lambda w, leader, _f: outcome(w.join(leader)),
    "join follower": lambda w, _l, follower: outcome(w.join(follower)),
    "join follower, changed": lambda w, _l, follower: outcome(w.join(follower, protocols=(("range", b"x"),))),
    "join stranger": lambda w, _l, _f: outcome(w.join("stranger")),
    "sync leader": lambda w, leader, _f: outcome(w.sync(leader, generation(w), {leader: b""})),
    "sync follower": lambda w, _l, follower: outcome(w.sync(follower, generation(w))),
    "sync stranger": lambda w, _l, _f: outcome(w.sync("stranger", generation(w))),
    "sync old generation": lambda w, leader, _f: outcome(w.sync(leader, 1)),
    "heartbeat": lambda w, leader, _f: w.heartbeat(leader, generation(w)),
    "heartbeat old generation": lambda w, leader, _f: w.heartbeat(leader, 1),
    "leave": lambda w, leader, _f: w.leave((leader, None))[0],
    "commit": lambda w, leader, _f: w.commit(1, member_id=leader, generation=generation(w)),
    "commit old generation": lambda w, leader, _f: w.commit(1, member_id=leader, generation=1),
    "commit simple": lambda w, _l, _f: w.commit(1),
    "delete": lambda w, _l, _f: w.delete_group(),
}

MEMBER_ID_REQUIRED, NON_EMPTY = ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NON_EMPTY_GROUP
ANSWERS: dict[str, tuple[object, object, object, object, object]] = {
    # in the order of the states:   Empty, PreparingRebalance, CompletingRebalance, Stable, Dead
    "join new": (NONE, WAITS, WAITS, WAITS, NONE),
    "join new, id required": (MEMBER_ID_REQUIRED,) * 5,
    "join leader": (UNKNOWN, WAITS, NONE, WAITS, UNKNOWN),
    "join follower": (UNKNOWN, WAITS, NONE, NONE, UNKNOWN),
    "join follower, changed": (UNKNOWN, WAITS, WAITS, WAITS, UNKNOWN),
    "join stranger": (UNKNOWN,) * 5,
    "sync leader": (UNKNOWN, REBALANCE, NONE, NONE, UNKNOWN),
    "sync follower": (UNKNOWN, REBALANCE, WAITS, NONE, UNKNOWN),
    "sync stranger": (UNKNOWN,) * 5,
    "sync old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, UNKNOWN),
    "heartbeat": (UNKNOWN, REBALANCE, NONE, NONE, UNKNOWN),
    "heartbeat old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, UNKNOWN),
    "leave": (UNKNOWN, NONE, NONE, NONE, UNKNOWN),
    "commit": (UNKNOWN, NONE, REBALANCE, NONE, ILLEGAL),
    "commit old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL),
    "commit simple": (NONE, UNKNOWN, UNKNOWN, UNKNOWN, NONE),
    "delete": (NONE, NON_EMPTY, NON_EMPTY, NON_EMPTY, ErrorCode.GROUP_ID_NOT_FOUND),
}
STATE_ORDER = (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)


def test_the_table_of_answers_names_every_request() -> None:
    assert ANSWERS.keys() == REQUESTS.keys()


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("state", STATE_ORDER)
def test_every_request_is_answered_in_every_state(state: GroupState, request_name: str) -> None:
    world, leader, follower = group_in(state)
    assert REQUESTS[request_name](world, leader, follower) == ANSWERS[request_name][STATE_ORDER.index(state)]
