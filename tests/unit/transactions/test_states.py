"""The table of states."""

import pytest

from tidelog.coordination.transitions import IllegalTransitionError
from tidelog.transactions.schemas import STATE_IDS
from tidelog.transactions.states import TRANSITIONS, TransactionEvent, TransactionState, advance

S = TransactionState
E = TransactionEvent


def test_a_commit_goes_through_four_states() -> None:
    state = S.EMPTY
    for event in (E.PARTITIONS_ADDED, E.COMMIT_ASKED, E.MARKERS_WRITTEN, E.PARTITIONS_ADDED):
        state = advance(state, event)
    assert state is S.ONGOING


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_decided_transaction_can_only_complete(state: TransactionState) -> None:
    assert {event for at, event in TRANSITIONS if at is state} == {E.MARKERS_WRITTEN}


def test_only_ids_without_an_open_transaction_expire() -> None:
    assert {state for state, event in TRANSITIONS if event is E.EXPIRED} == {
        S.EMPTY,
        S.COMPLETE_COMMIT,
        S.COMPLETE_ABORT,
    }


def test_nothing_leads_out_of_death() -> None:
    assert not [state for state, _ in TRANSITIONS if state is S.DEAD]


def test_an_event_out_of_place_raises_and_names_both() -> None:
    with pytest.raises(IllegalTransitionError, match="COMMIT_ASKED is not allowed for a transaction in state Empty"):
        advance(S.EMPTY, E.COMMIT_ASKED)


def test_every_state_can_be_reached_from_a_new_id() -> None:
    reached = {S.EMPTY}
    while True:
        following = {after for (before, _), after in TRANSITIONS.items() if before in reached}
        if following <= reached:
            break
        reached |= following
    assert reached == set(TransactionState)


def test_states_have_kafkas_numbers_in_the_log() -> None:
    assert {state.value: number for state, number in STATE_IDS.items()} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }
