"""The settings that groups and subscriptions to clients' metrics have for themselves, as the tree has them now.

Read whole at the start and followed from then on. Listeners hear of a change after it can be read here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.entities import KINDS, name_of, read_entities
from tidelog.metadata.store import Store
from tidelog.metadata.store_queue import StoreQueue

_NONE: Final[Mapping[str, str]] = {}


class EntitySettings:
    """Overrides by kind (`metadata.entities.KINDS`) and name."""

    def __init__(self, metadata: StoreQueue) -> None:
        self._metadata = metadata
        self._overrides: dict[str, dict[str, Mapping[str, str]]] = {kind: {} for kind in KINDS}
        self._listeners: dict[str, list[Callable[[str], None]]] = {kind: [] for kind in KINDS}

    def overrides(self, kind: str, name: str) -> Mapping[str, str]:
        """What is set for one; nothing for one that has no settings."""
        return self._overrides[kind].get(name, _NONE)

    def names(self, kind: str) -> list[str]:
        """Those that have settings, by name."""
        return sorted(self._overrides[kind])

    def has_any(self, kind: str) -> bool:
        return bool(self._overrides[kind])

    def listen(self, kind: str, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each whose settings have changed, and of all that are there at the start."""
        self._listeners[kind].append(listener)

    def start(self, store: Store) -> None:
        """Read all; called on the thread of the metadata, before the broker serves."""
        for kind in KINDS:
            for name, overrides in read_entities(store, kind):
                self._overrides[kind][name] = overrides

    async def follow(self, kind: str, node: str) -> None:
        """The settings of one have changed."""
        overrides = await self._metadata.run(read_overrides, ConfigEntity(kind, node))
        name = name_of(node)
        if overrides:
            self._overrides[kind][name] = overrides
        else:
            self._overrides[kind].pop(name, None)
        for listener in self._listeners[kind]:
            listener(name)
