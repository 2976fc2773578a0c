"""Mistakes around the metadata tree: sessions, watches, transactions of several operations."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_CONTROLLER: Final = "tidelog.controller.controller:Controller"

MISTAKES: Final = (
    mistake(
        "a broker that lost power registers while it still counts as in sync",
        "metadata",
        "tidelog.metadata.registrar:BrokerRegistrar._wait_until_out_of_sync",
        "while left:",
        "while False:",
    ),
    mistake(
        "a broker does not register again in its new session",
        "metadata",
        f"{_CONTROLLER}._on_new_session",
        "await self._register()",
        "pass",
    ),
    mistake(
        "a watch on the controller is not set again",
        "metadata",
        "tidelog.controller.tree:_controller_id",
        "store.exists(paths.CONTROLLER, watcher)",
        "store.exists(paths.CONTROLLER)",
    ),
    mistake(
        "the deletion of a node does not notify the watchers of its parent",
        "metadata",
        "tidelog.metadata.watches:events_of_delete",
        "WatchEvent(EventKind.CHILDREN, parent)",
        "WatchEvent(EventKind.DELETED, path)",
    ),
    mistake(
        "of several operations, those after the one that failed are left out",
        "metadata",
        "tidelog.metadata.submission:submit_each",
        "[_submit_one(multi, operation, fence) for operation in batch]",
        "[_submit_one(multi, batch[0], fence), *(NoNodeError(each.path) for each in batch[1:])]",
    ),
    mistake(
        "a controller goes on with what it believed when the tree did not answer",
        "metadata",
        f"{_CONTROLLER}.process",
        "self._is_in_doubt |= self.is_active",
        "pass",
    ),
    mistake(
        "two brokers take the same block of producer ids",
        "metadata",
        "tidelog.metadata.producer_ids:take_block",
        "if data else 0",
        "if data and data == b'' else 0",
    ),
)
