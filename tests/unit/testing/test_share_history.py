"""What a share group's members may not see, as the simulator judges it."""

from __future__ import annotations

import pytest

from tidelog.testing.simulation.share_history import Exchange, ShareHistory

ANN, BOB = object(), object()
LEADER = "leader"
PLACE = (0, 7)


@pytest.fixture
def history() -> ShareHistory:
    return ShareHistory(lock_seconds=1.0, delivery_count_limit=3)


def exchange(session: object, at: float, source: object = LEADER) -> Exchange:
    return Exchange(session, source, at, at + 0.1)


def anomalies(history: ShareHistory, *letters: tuple[int, int]) -> list[str]:
    return [text.partition(":")[0] for text in history.anomalies({PLACE: b"x"}, letters)]


def accept(history: ShareHistory, at: float) -> None:
    history.acknowledging([PLACE], accepts=True, rejects=False)
    history.accepted([PLACE], at)


def test_a_record_that_is_locked_released_locked_again_and_accepted_is_fine(history: ShareHistory) -> None:
    history.delivered(PLACE, 1, exchange(ANN, 0))
    history.acknowledging([PLACE], accepts=False, rejects=False)
    history.released([PLACE], 0.5, exchange(ANN, 0.2))
    history.delivered(PLACE, 2, exchange(BOB, 0.8))
    accept(history, 1.0)
    assert anomalies(history) == []


def test_two_locks_at_once_count_if_the_first_session_is_known_to_have_lived(history: ShareHistory) -> None:
    history.delivered(PLACE, 1, exchange(ANN, 0))
    history.delivered(PLACE, 1, exchange(BOB, 0.5))
    assert history.violations == []
    history.is_alive(ANN)
    assert history.violations == [f"locked twice at once: {PLACE}"]


@pytest.mark.parametrize("later", [0.95, 2.0])
def test_a_lock_that_ended_with_its_session_or_its_time_is_no_lock(history: ShareHistory, later: float) -> None:
    history.delivered(PLACE, 1, exchange(ANN, 0))
    history.delivered(PLACE, 1, exchange(BOB, later))
    if later < 1:
        history.is_lost(ANN)
    history.is_alive(ANN)
    assert history.violations == []


def test_locks_of_different_leaders_are_not_compared(history: ShareHistory) -> None:
    history.delivered(PLACE, 1, exchange(ANN, 0))
    history.delivered(PLACE, 1, exchange(BOB, 0.5, "another leader"))
    history.is_alive(ANN)
    assert history.violations == []


def test_nothing_comes_after_a_confirmed_accept_but_from_a_leader_that_was_replaced(history: ShareHistory) -> None:
    history.delivered(PLACE, 1, exchange(ANN, 0))
    accept(history, 0.5)
    history.delivered(PLACE, 2, exchange(BOB, 0.4))
    history.delivered(PLACE, 2, exchange(BOB, 0.6, None))
    assert history.violations == []
    history.delivered(PLACE, 2, exchange(BOB, 0.6))
    assert history.violations == [f"delivered after a confirmed accept: {PLACE}"]


def test_a_delay_and_the_limit_of_deliveries_hold(history: ShareHistory) -> None:
    history.delivered(PLACE, 1, exchange(ANN, 0))
    history.acknowledging([PLACE], accepts=False, rejects=False)
    history.released([PLACE], 5.0, exchange(ANN, 0.2))
    history.delivered(PLACE, 2, exchange(BOB, 1.0))
    history.delivered((0, 8), 4, exchange(BOB, 1.0))
    assert [text.partition(":")[0] for text in history.violations] == [
        "delivered before its delay was over",
        "delivered too often",
    ]


def test_what_is_left_in_the_end_was_accepted_or_has_a_dead_letter(history: ShareHistory) -> None:
    assert anomalies(history) == ["never delivered"]
    assert anomalies(history, PLACE) == []
    history.delivered(PLACE, 1, exchange(ANN, 0))
    history.acknowledging([PLACE], accepts=True, rejects=False)
    history.refused([PLACE])
    assert anomalies(history) == ["never delivered"], "the accept came too late"
    accept(history, 3.0)
    assert anomalies(history) == []
    assert anomalies(history, PLACE) == ["dead letter of an accepted record"]
