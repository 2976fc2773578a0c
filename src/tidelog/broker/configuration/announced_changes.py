"""Follows changes that are announced in the metadata tree, whether this broker made them or another one.

Announcements are taken one after the other. A change that cannot be followed is logged, and the next one is followed.
After a session has ended, `look` sets the watch again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from tidelog.metadata.changes import Announcements, ChangeListener
from tidelog.metadata.errors import StoreError
from tidelog.tasks import OwnedTasks

if TYPE_CHECKING:
    from tidelog.metadata.store import Store, WatchEvent
    from tidelog.metadata.store_queue import StoreQueue

logger = logging.getLogger(__name__)

Change = TypeVar("Change")


class AnnouncedChanges(Generic[Change]):
    """One kind of announcement, and what follows each."""

    def __init__(
        self,
        noun: str,
        announcements: Announcements[Change],
        metadata: StoreQueue,
        wall_ms: Callable[[], int],
        follow: Callable[[Change], Awaitable[None]],
    ) -> None:
        """`noun` is what changes, for the log: `settings`, `ACLs`."""
        self._noun = noun
        self._metadata = metadata
        self._follow = follow
        self._listener = ChangeListener(announcements, metadata.on_loop(self._on_announcement), wall_ms)
        self._lock = asyncio.Lock()
        self._tasks = OwnedTasks()

    def start(self, store: Store) -> None:
        """Listen from now on; what was announced before is not followed."""
        self._listener.take(store)

    async def take(self) -> None:
        """Follow every change that was announced until now."""
        async with self._lock:
            for change in await self._metadata.run(self._listener.take):
                try:
                    await self._follow(change)
                except Exception:
                    # The next change must still be followed.
                    logger.exception("changed %s (%s) could not be applied", self._noun, change)

    def look(self) -> None:
        """Follow what has changed, soon, and watch for more."""
        self._tasks.spawn(self._take_announced())

    def _on_announcement(self, _event: WatchEvent) -> None:
        self.look()

    async def _take_announced(self) -> None:
        try:
            await self.take()
        except StoreError as error:
            # The broker stops, or its disk fails: nothing can be followed any more.
            logger.warning("changed %s cannot be read: %s", self._noun, error)
