"""Names that stand in a request again."""

from __future__ import annotations

from tidelog.broker.handlers._answers import REPEATS_MAX, Answers


def test_a_repeated_name_is_answered_again_without_the_work() -> None:
    """As Kafka answers it, while repetitions are few."""
    answers: Answers[list[str]] = Answers()
    made = []
    for name in ["a", "b", "a"]:
        answers.add(name, lambda name=name: made.append(name) or [name])  # type: ignore[func-returns-value,misc]
    assert answers.all == [["a"], ["b"], ["a"]]
    assert answers.all[0] is answers.all[2]
    assert made == ["a", "b"]


def test_many_repetitions_are_left_out() -> None:
    answers: Answers[int] = Answers()
    for number in range(1_000):
        answers.add(number % 2, lambda: 7)
    assert answers.all == [7] * (2 + REPEATS_MAX)
