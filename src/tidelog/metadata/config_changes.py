"""Hearing of settings that were changed, by us or by another broker: the listener on `/config/changes`.

Each change leaves a numbered node that names the entity. A broker remembers the last number it has seen and takes what
is above; nodes that every broker must have seen by now are removed.
"""

import logging
from collections.abc import Callable
from typing import Final

from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store, WatchEvent, join_path
from tidelog.metadata.tree import decode_config_change

EXPIRATION_MS: Final = 15 * 60 * 1000

_logger = logging.getLogger(__name__)


class ConfigChangeListener:
    """Calls `handler` with the path of each entity whose settings changed: `topics/T`, `brokers/<default>`, ….

    The handler reads the settings anew; two changes in a row may find it reading the second twice.
    """

    def __init__(self, store: Store, handler: Callable[[str], object], wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._handler = handler
        self._wall_ms = wall_ms
        self._last_seen = -1

    def start(self) -> None:
        """Take what has come so far, and from now on whatever comes."""
        self._take()

    def _on_event(self, _event: WatchEvent) -> None:
        self._take()

    def _take(self) -> None:
        now_ms = self._wall_ms()
        for name in self._store.children(paths.CONFIG_CHANGES, self._on_event):
            number = name.removeprefix(paths.CONFIG_CHANGE_PREFIX)
            if name == number or not (number.isascii() and number.isdigit() and len(number) <= 10):
                continue  # not one of these nodes
            path = join_path(paths.CONFIG_CHANGES, name)
            try:
                data, stat = self._store.get(path)
                if int(number) > self._last_seen:
                    self._last_seen = int(number)
                    self._tell(path, data)
                if stat.ctime_ms + EXPIRATION_MS < now_ms:
                    self._store.delete(path)
            except NoNodeError:
                continue  # another broker removed it first

    def _tell(self, path: str, data: bytes) -> None:
        try:
            self._handler(decode_config_change(path, data))
        except Exception:
            # The next change must still be heard of.
            _logger.exception("a change of settings could not be taken over; its notice is %s", path)
