"""The features of the cluster as this broker knows them: which level of each is in effect now.

Whatever depends on a level asks `level` at the moment that it decides; a change of the tree takes effect with the next
question. A broker that supports less than is finalised lowers the levels of the whole cluster when it registers: those
that know better see its registration and write what all can do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.metadata.errors import StoreError
from tidelog.metadata.features import (
    NOTHING_FINALISED,
    Finalised,
    Refusal,
    Support,
    Update,
    change_levels,
    check_reachable,
    common_levels,
    read_finalised,
    read_support,
    refusal_of,
    with_levels,
)

if TYPE_CHECKING:
    from tidelog.metadata.store import Store, WatchEvent
    from tidelog.metadata.store_queue import StoreQueue

logger = logging.getLogger(__name__)


class ClusterFeatures:
    """What is finalised, followed in the tree."""

    def __init__(self, metadata: StoreQueue) -> None:
        self._metadata = metadata
        self._watcher = metadata.on_loop(self._on_change)
        self._tasks: set[asyncio.Task[None]] = set()
        self.finalised = NOTHING_FINALISED

    @property
    def are_topic_ids_kept(self) -> bool:
        """Whether offsets are stored with the ids of their topics. Release 0.2.0 does not read those offsets, so they
        begin only when no broker of it can be a member, and going back to it costs no offset before that."""
        return self.finalised.is_raised

    def level(self, name: str) -> int:
        """The level of a feature that is in effect; 0 while it is off."""
        return self.finalised.level(name)

    def start(self, store: Store) -> None:
        """Read the levels, and follow them from now on. Raises `UnreachableLevelError` if one is not known here."""
        finalised = self._read(store)
        check_reachable(finalised)
        self.finalised = finalised

    def _read(self, store: Store) -> Finalised:
        finalised, support = read_finalised(store, self._watcher), read_support(store, self._watcher)
        if common_levels(finalised, support) != finalised.levels:
            finalised = change_levels(store, common_levels)
        return finalised

    def _on_change(self, _event: WatchEvent) -> None:
        self.look()

    def look(self) -> None:
        """Read the levels again, soon, and watch for more changes."""
        task = asyncio.get_running_loop().create_task(self._refresh())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refresh(self) -> None:
        try:
            self._take(await self._metadata.run(self._read))
        except StoreError as error:
            # The broker stops, or its disk fails: nothing can be followed any more.
            logger.warning("the levels of features cannot be read: %s", error)

    def _take(self, finalised: Finalised) -> None:
        before, self.finalised = self.finalised.in_effect(), finalised
        after = finalised.in_effect()
        for name in sorted(before.keys() | after.keys()):
            if before.get(name, 0) != after.get(name, 0):
                logger.info("feature %s is at level %d, was at %d", name, after.get(name, 0), before.get(name, 0))

    async def update(
        self, updates: Sequence[Update], *, is_partial: bool = False, validate_only: bool = False
    ) -> Mapping[str, Refusal]:
        """Make the updates, and return why some cannot be made; unless `is_partial`, none is made then."""
        refused: dict[str, Refusal] = {}

        def decide(finalised: Finalised, support: Support) -> Mapping[str, int]:
            refused.clear()
            for update in updates:
                refusal = refusal_of(update, finalised, support)
                if refusal is not None:
                    refused[update.name] = refusal
            if validate_only or (refused and not is_partial):
                return finalised.levels
            made = {update.name: update.level for update in updates if update.name not in refused}
            return with_levels(finalised, made)

        self._take(await self._metadata.run(change_levels, decide))
        return refused
