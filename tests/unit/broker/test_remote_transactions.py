"""A partition that the image of a broker lacks is deleted only if the tree says so: otherwise its marker is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tidelog.broker.topology.channels import BrokerChannels
from tidelog.broker.topology.remote_transactions import RemoteTransactions
from tidelog.metadata import paths
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import Watcher
from tidelog.testing.memory_store import MemoryStore
from tidelog.wire.errors import ErrorCode

TOPIC_OF_TWO = b'{"version":3,"partitions":{"0":[1],"1":[1]},"adding_replicas":{},"removing_replicas":{}}'


class Runner:
    """Runs at once what a `StoreQueue` runs on its thread."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.store, *args, **kwargs)

    def on_loop(self, watcher: Watcher) -> Watcher:
        return watcher


def looked_up(store: MemoryStore, topic: str, index: int) -> ErrorCode:
    async def run() -> ErrorCode:
        reported: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        transactions = RemoteTransactions(cast(BrokerChannels, None), Runner(store), lambda: None)
        transactions.look_up((topic, index), reported.set_result)
        return await reported

    return asyncio.run(run())


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    prepare_tree(store)
    store.create(paths.topic("orders"), TOPIC_OF_TWO)
    return store


def test_a_topic_that_is_in_the_tree_still_needs_its_marker(store: MemoryStore) -> None:
    """A marker that is given up leaves its transaction open for ever. Seed 1382 of the simulator found it."""
    assert looked_up(store, "orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("topic", "index"), [("events", 0), ("orders", 2)])
def test_what_the_tree_does_not_have_was_deleted(store: MemoryStore, topic: str, index: int) -> None:
    assert looked_up(store, topic, index) is ErrorCode.NONE


def test_a_tree_that_cannot_be_asked_decides_nothing(store: MemoryStore) -> None:
    store.suspend()
    assert looked_up(store, "events", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
