"""The tree as the controller uses it."""

import asyncio

import pytest

from tests.unit.metadata.repeating_store import RepeatingStore
from tidelog.controller.tree import ControllerEpoch, ControllerTree
from tidelog.metadata.errors import ControllerMovedError
from tidelog.metadata.store import Watcher
from tidelog.testing.memory_store import MemoryStore, MemoryTree


class Runner:
    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def run(self, function, *args, **kwargs):
        return function(self.store, *args, **kwargs)

    def on_loop(self, watcher: Watcher) -> Watcher:
        return watcher


def become_controller(store: MemoryStore, broker_id: int) -> ControllerEpoch:
    tree = ControllerTree(Runner(store), lambda path, kind: None)
    return asyncio.run(tree.become_controller(broker_id, 0))


def test_an_election_whose_reply_was_lost_is_won() -> None:
    """Otherwise the node names a broker that does not know it is controller, and the cluster has none."""
    tree = MemoryTree()
    tree.connect().create("/controller_epoch", b"4")
    assert become_controller(RepeatingStore(tree), 1) == ControllerEpoch(5, 1)


def test_an_election_that_another_broker_won_is_lost() -> None:
    tree = MemoryTree()
    assert become_controller(tree.connect(), 1) == ControllerEpoch(1, 1)
    with pytest.raises(ControllerMovedError, match="another broker was elected before broker 2"):
        become_controller(tree.connect(), 2)
