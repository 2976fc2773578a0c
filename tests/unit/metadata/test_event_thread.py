"""Watchers and listeners are called in order, on one thread, whatever one of them does."""

import threading
from functools import partial

import pytest

from tidelog.metadata.event_thread import EventThread


@pytest.fixture
def events() -> EventThread:
    return EventThread("events-under-test")


def test_calls_are_run_in_order_on_one_other_thread(events: EventThread) -> None:
    run: list[tuple[int, str]] = []

    def note(number: int) -> None:
        run.append((number, threading.current_thread().name))

    for number in range(100):
        events.post(partial(note, number))
    assert events.wait_until_idle(30)
    assert run == [(number, "events-under-test") for number in range(100)]
    events.stop()


def test_a_call_that_fails_is_logged_and_the_next_is_run(events: EventThread, caplog: pytest.LogCaptureFixture) -> None:
    run: list[int] = []
    events.post(lambda: 1 // 0)
    events.post(lambda: run.append(1))
    assert events.wait_until_idle(30)
    assert run == [1]
    assert "a listener of the metadata store failed" in caplog.text
    events.stop()


def test_waiting_ends_when_calls_posted_by_calls_have_run(events: EventThread) -> None:
    run: list[int] = []
    events.post(lambda: events.post(lambda: events.post(lambda: run.append(1))))
    assert events.wait_until_idle(30)
    assert run == [1]
    events.stop()


def test_nothing_runs_after_stopping_even_from_within(events: EventThread) -> None:
    run: list[int] = []
    stopped = threading.Event()

    def stop() -> None:
        events.post(lambda: run.append(1))
        events.stop()
        events.post(lambda: run.append(2))
        stopped.set()

    events.post(stop)
    assert stopped.wait(30)
    events.stop()
    assert run == []


def test_waiting_has_a_deadline(events: EventThread) -> None:
    gate = threading.Event()
    events.post(gate.wait)
    assert not events.wait_until_idle(0.01)
    gate.set()
    events.stop()
