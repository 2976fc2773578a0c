"""The watches of one session: watchers by node, each called once at a change of its node.

For stores that have no server which keeps watches.
"""

import logging
from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from tidelog.metadata.store import EventKind, Watcher, WatchEvent

_logger = logging.getLogger(__name__)

Notification: TypeAlias = tuple[Watcher, WatchEvent]


class WatchTable:
    """ZooKeeper keeps two kinds of watches, on data (and existence) and on children; an event may trigger both."""

    def __init__(self) -> None:
        # Dictionaries as ordered sets: setting the same watcher on a node twice makes it fire once.
        self._data: dict[str, dict[Watcher, None]] = {}
        self._children: dict[str, dict[Watcher, None]] = {}
        self._pending: deque[Notification] = deque()
        self._is_delivering = False

    def watch_data(self, path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self._data.setdefault(path, {})[watcher] = None

    def watch_children(self, path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            self._children.setdefault(path, {})[watcher] = None

    def clear(self) -> None:
        """The session is over: drop all watches."""
        self._data.clear()
        self._children.clear()
        self._pending.clear()

    def fire(self, events: Iterable[WatchEvent]) -> None:
        """Notify the watchers of these events, in order. Events of changes made by a watcher come after these."""
        self.deliver(self.take(events))

    def take(self, events: Iterable[WatchEvent]) -> list[Notification]:
        """Remove the watches that these events trigger. Pass the result to `deliver`."""
        if not self._data and not self._children:
            return []
        return [(watcher, event) for event in events for watcher in self._take(event)]

    def deliver(self, notifications: Iterable[Notification]) -> None:
        """Call watchers, one after the other, even if one of them changes the tree and so triggers more."""
        self._pending.extend(notifications)
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._pending:
                call_watcher(*self._pending.popleft())
        finally:
            self._is_delivering = False

    def _take(self, event: WatchEvent) -> dict[Watcher, None]:
        if event.kind is EventKind.CHILDREN:
            return self._children.pop(event.path, {})
        watchers = self._data.pop(event.path, {})
        if event.kind is EventKind.DELETED:
            watchers |= self._children.pop(event.path, {})
        return watchers


def call_watcher(watcher: Watcher, event: WatchEvent) -> None:
    """Call a watcher. The change has been made already: a watcher that fails is only logged."""
    try:
        watcher(event)
    except Exception:
        _logger.exception("a watcher of %s failed on event %s", event.path, event.kind.value)


def events_of_create(path: str, parent: str) -> tuple[WatchEvent, WatchEvent]:
    return WatchEvent(EventKind.CREATED, path), WatchEvent(EventKind.CHILDREN, parent)


def events_of_delete(path: str, parent: str) -> tuple[WatchEvent, WatchEvent]:
    return WatchEvent(EventKind.DELETED, path), WatchEvent(EventKind.CHILDREN, parent)
