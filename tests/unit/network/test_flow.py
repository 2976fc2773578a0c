"""The states of a connection: every pair of a state and an event, and what a socket would be watched for after it."""

import pytest

from tidelog.network import flow
from tidelog.network.flow import BEGINS, ENDS, IS_CLOSED, OUTPUT_IS_STUCK, READING, REASONS, STATES

OPEN_REASONS = [reason for reason in REASONS if reason != IS_CLOSED]
PAIRS = [(state, reason) for state in STATES for reason in REASONS]


def test_the_tables_have_every_pair() -> None:
    assert set(BEGINS) == set(ENDS) == set(PAIRS)
    assert len(PAIRS) == 64 * 6


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("state", STATES)
def test_what_begins_and_ends(state: int, reason: int) -> None:
    """In each state: reading stops with the first reason and goes on after the last, writing is watched while stuck."""
    is_over = bool(state & IS_CLOSED)
    after, to_do = BEGINS[state, reason]
    assert after == (state if is_over else state | reason)
    assert bool(to_do & flow.STOP_READING) == (state == READING and reason != IS_CLOSED)
    assert bool(to_do & flow.START_WRITING) == (not is_over and not state & reason and reason == OUTPUT_IS_STUCK)
    assert bool(to_do & flow.WAIT_FOR_ROOM) == (not is_over and not state & reason and reason == flow.CHANNEL_IS_FULL)
    assert not to_do & (flow.STOP_WRITING | flow.GO_ON)

    after, to_do = ENDS[state, reason]
    assert after == (state if is_over else state & ~reason)
    assert bool(to_do & flow.STOP_WRITING) == (not is_over and bool(state & reason) and reason == OUTPUT_IS_STUCK)
    assert bool(to_do & flow.GO_ON) == (not is_over and state == reason)
    assert not to_do & (flow.STOP_READING | flow.START_WRITING | flow.WAIT_FOR_ROOM)


@pytest.mark.parametrize("reason", REASONS)
def test_nothing_happens_after_the_end(reason: int) -> None:
    """The descriptor may belong to another client by then."""
    for state in STATES:
        if state & IS_CLOSED:
            assert BEGINS[state, reason] == ENDS[state, reason] == (state, 0)


@pytest.mark.parametrize("reason", OPEN_REASONS)
def test_a_reason_that_begins_twice_ends_once(reason: int) -> None:
    once, _ = BEGINS[READING, reason]
    assert BEGINS[once, reason] == (once, 0)
    after, to_do = ENDS[once, reason]
    assert after == READING
    assert to_do & flow.GO_ON
    assert ENDS[after, reason] == (READING, 0)
