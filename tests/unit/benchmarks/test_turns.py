"""Brokers are measured in alternate turns."""

from __future__ import annotations

import threading

import pytest

from benchmarks.turns import OwnTurn, Turns, turn_lengths

DEADLINE_S = 10.0


def run_all(order: list[str], lengths: dict[str, int]) -> list[str]:
    """What the threads of `lengths` note in so many turns each."""
    turns, noted = Turns(order), []

    def run(name: str) -> None:
        with OwnTurn(turns, name) as turn:
            for _ in range(lengths[name] - 1):
                noted.append(name)
                turn.pass_on()
            noted.append(name)

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in order]
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    return noted


def test_the_first_begins_and_they_alternate() -> None:
    assert run_all(["b", "a"], {"a": 3, "b": 3}) == ["b", "a", "b", "a", "b", "a"]


def test_one_that_has_left_takes_no_turns() -> None:
    assert run_all(["a", "b"], {"a": 1, "b": 3}) == ["a", "b", "b", "b"]


def test_one_alone_never_waits() -> None:
    assert run_all(["a"], {"a": 3}) == ["a"] * 3


@pytest.mark.parametrize(("seconds", "count"), [(3.0, 6), (0.5, 1), (0.1, 1), (8.0, 16), (0.8, 2)])
def test_turns_add_up_to_the_measured_time(seconds: float, count: int) -> None:
    lengths = turn_lengths(seconds)
    assert len(lengths) == count
    assert sum(lengths) == pytest.approx(seconds)
