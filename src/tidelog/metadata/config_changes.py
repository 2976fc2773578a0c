"""Settings that were changed, by us or by another broker: the listener on `/config/changes`.

Each change leaves a numbered node that names the entity. A broker remembers the last number it has seen and takes what
is above; nodes that every broker must have seen by now are removed.
"""

import logging
from collections.abc import Callable
from typing import Final

from tidelog.metadata import paths
from tidelog.metadata.errors import MalformedNodeError, NoNodeError
from tidelog.metadata.store import Store, Watcher, join_path
from tidelog.metadata.tree import decode_config_change

EXPIRATION_MS: Final = 15 * 60 * 1000

_logger = logging.getLogger(__name__)


class ConfigChangeListener:
    """Finds the entities whose settings changed: `topics/T`, `brokers/<default>`, ….

    The caller reads their settings. After two changes in a row the first read may already see the second change.
    """

    def __init__(self, on_change: Watcher, wall_ms: Callable[[], int]) -> None:
        """`on_change` is called once after each `take` when there is something to take."""
        self._on_change = on_change
        self._wall_ms = wall_ms
        self._last_seen = -1

    def take(self, store: Store) -> list[str]:
        """The entities that changed since the last call, in order."""
        changed = []
        now_ms = self._wall_ms()
        for name in store.children(paths.CONFIG_CHANGES, self._on_change):
            number = name.removeprefix(paths.CONFIG_CHANGE_PREFIX)
            if name == number or not (number.isascii() and number.isdigit() and len(number) <= 10):
                continue  # not one of these nodes
            path = join_path(paths.CONFIG_CHANGES, name)
            try:
                data, stat = store.get(path)
                if int(number) > self._last_seen:
                    self._last_seen = int(number)
                    changed.append(decode_config_change(path, data))
                if stat.ctime_ms + EXPIRATION_MS < now_ms:
                    store.delete(path)
            except NoNodeError:
                continue  # another broker removed it first
            except MalformedNodeError:
                # The next change must still be found.
                _logger.exception("a malformed node under /config/changes is ignored")
        return changed
