"""The checker finds each anomaly that it has a name for, and nothing in a history that is right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelog.testing.simulation.history import History, Transaction, Verdict

PLACE = ("events", 0)


def sent(history: History, value: bytes, offset: int, transaction: Transaction | None = None) -> None:
    history.send(value, transaction=transaction).acknowledged(PLACE, offset)


def held(history: History, *values: bytes) -> None:
    """What the log has at the end, from offset 0 on."""
    for offset, value in enumerate(values):
        history.final.saw(PLACE, offset, value)
        history.final_committed.saw(PLACE, offset, value)


def right() -> History:
    history = History()
    sent(history, b"a", 0)
    sent(history, b"b", 1)
    held(history, b"a", b"b")
    return history


def test_a_right_history_has_no_anomalies() -> None:
    history = right()
    reader = history.reader("reader")
    reader.saw(PLACE, 0, b"a")
    reader.saw(PLACE, 1, b"b")
    assert history.anomalies() == []


def test_a_send_without_an_acknowledgement_may_be_there_or_not() -> None:
    history = right()
    history.send(b"c")
    history.send(b"d")
    history.final.saw(PLACE, 2, b"c")
    assert history.anomalies() == []


def lose(history: History) -> None:
    sent(history, b"c", 2)


def move(history: History) -> None:
    history.send(b"c").acknowledged(PLACE, 5)
    history.final.saw(PLACE, 2, b"c")


def duplicate(history: History) -> None:
    history.final.saw(PLACE, 2, b"b")


def read_something_else(history: History) -> None:
    history.reader("reader").saw(PLACE, 0, b"b")


def read_what_is_gone(history: History) -> None:
    history.send(b"c")
    history.reader("reader").saw(PLACE, 2, b"c")


def read_what_was_never_sent(history: History) -> None:
    history.final.saw(PLACE, 2, b"x")


def go_back(history: History) -> None:
    reader = history.reader("reader")
    reader.saw(PLACE, 1, b"b")
    reader.saw(PLACE, 0, b"a")


def skip(history: History) -> None:
    sent(history, b"c", 2)
    history.final.saw(PLACE, 2, b"c")
    reader = history.reader("reader")
    reader.saw(PLACE, 0, b"a")
    reader.saw(PLACE, 2, b"c")


def show_an_aborted_transaction(history: History) -> None:
    transaction = Transaction()
    transaction.verdict = Verdict.ABORTED
    sent(history, b"c", 2, transaction)
    for reader in (history.final, history.final_committed):
        reader.saw(PLACE, 2, b"c")


def read_an_aborted_transaction(history: History) -> None:
    transaction = Transaction()
    history.send(b"c", transaction=transaction)
    transaction.verdict = Verdict.ABORTED
    history.final.saw(PLACE, 2, b"c")
    history.reader("reader", is_committed_only=True).saw(PLACE, 2, b"c")


def tear_a_transaction(history: History) -> None:
    transaction = Transaction()
    history.send(b"c", transaction=transaction)
    history.send(b"d", transaction=transaction)
    for reader in (history.final, history.final_committed):
        reader.saw(PLACE, 2, b"c")


def lose_a_transaction(history: History) -> None:
    transaction = Transaction()
    history.send(b"c", transaction=transaction)
    transaction.verdict = Verdict.COMMITTED


def send_out_of_order(history: History) -> None:
    for value, offset in ((b"c", 3), (b"d", 2)):
        history.send(value, producer="producer").acknowledged(PLACE, offset)
    history.final.saw(PLACE, 2, b"d")
    history.final.saw(PLACE, 3, b"c")


def deliver_only_some(history: History) -> None:
    history.reader("first", group="group").saw(PLACE, 0, b"a")
    sent(history, b"c", 2)
    history.final.saw(PLACE, 2, b"c")
    history.reader("second", group="group").saw(PLACE, 2, b"c")


@pytest.mark.parametrize(
    ("happen", "name"),
    [
        (lose, "lost write"),
        (move, "wrong offset"),
        (duplicate, "duplicate"),
        (read_something_else, "inconsistent offset"),
        (read_what_is_gone, "lost write"),
        (read_what_was_never_sent, "unknown record"),
        (go_back, "non-monotonic poll"),
        (send_out_of_order, "non-monotonic send"),
        (skip, "skipped record"),
        (deliver_only_some, "unseen"),
        (show_an_aborted_transaction, "aborted read"),
        (read_an_aborted_transaction, "aborted read"),
        (tear_a_transaction, "torn transaction"),
        (lose_a_transaction, "lost write"),
    ],
)
def test_each_anomaly_is_found_by_its_name(happen: Callable[[History], None], name: str) -> None:
    history = right()
    happen(history)
    assert [line.partition(":")[0] for line in history.anomalies()] == [name]


def test_a_reader_may_begin_and_end_anywhere() -> None:
    history = right()
    history.reader("late").saw(PLACE, 1, b"b")
    history.reader("early").saw(PLACE, 0, b"a")
    assert history.anomalies() == []
