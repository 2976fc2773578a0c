"""The queue of the controller's events."""

from __future__ import annotations

from tidelog.controller import events
from tidelog.controller.events import EventQueue


def test_a_shutdown_is_not_dropped_when_the_session_expires_meanwhile() -> None:
    """A broker that was stopping when its session expired never stopped. Found by the simulator."""
    queue = EventQueue()
    queue.put(events.TopicChange())
    queue.put(events.Shutdown())
    queue.clear_and_put(events.Expire())
    left = [queue.pop(), queue.pop(), queue.pop()]
    assert sorted(type(event).__name__ for event in left if event is not None) == ["Expire", "Shutdown"]
