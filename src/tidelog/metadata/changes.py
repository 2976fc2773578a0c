"""Numbered nodes that announce changes: of settings under `/config/changes`, of ACLs under `/kafka-acl-changes`.

Each change leaves a node that names what changed. A broker remembers the last number it has seen and takes what is
above; nodes that every broker must have seen by now are removed.
"""

import logging
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.metadata.errors import MalformedNodeError, NoNodeError
from tidelog.metadata.store import Store, Watcher, join_path

EXPIRATION_MS: Final = 15 * 60 * 1000

_logger = logging.getLogger(__name__)

Change = TypeVar("Change")


class Announcements(NamedTuple, Generic[Change]):
    """Where one kind of change is announced, and how a node names it."""

    root: str
    prefix: str
    decode: Callable[[str, bytes], Change]
    """Takes the node's path and data."""


class ChangeListener(Generic[Change]):
    """Finds what changed. After two changes in a row the first read may already see the second change."""

    def __init__(self, announcements: Announcements[Change], on_change: Watcher, wall_ms: Callable[[], int]) -> None:
        """`on_change` is called once after each `take` when there is something to take."""
        self._announcements = announcements
        self._on_change = on_change
        self._wall_ms = wall_ms
        self._last_seen = -1

    def take(self, store: Store) -> list[Change]:
        """What changed since the last call, in order."""
        root, prefix, decode = self._announcements
        changed = []
        now_ms = self._wall_ms()
        for name in store.children(root, self._on_change):
            number = name.removeprefix(prefix)
            if name == number or not (number.isascii() and number.isdigit() and len(number) <= 10):
                continue  # not one of these nodes
            path = join_path(root, name)
            try:
                data, stat = store.get(path)
                if int(number) > self._last_seen:
                    self._last_seen = int(number)
                    changed.append(decode(path, data))
                if stat.ctime_ms + EXPIRATION_MS < now_ms:
                    store.delete(path)
            except NoNodeError:
                continue  # another broker removed it first
            except MalformedNodeError:
                # The next change must still be found.
                _logger.exception("%s announces a change that cannot be read", path)
        return changed
