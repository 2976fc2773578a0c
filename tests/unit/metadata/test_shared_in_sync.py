"""A broker that ended without a shutdown stays away while the metadata counts it as in sync together with others."""

from __future__ import annotations

import pytest

from tidelog.metadata import paths
from tidelog.metadata.registrar import shared_in_sync
from tidelog.metadata.tree import PartitionState, encode_partition_state
from tidelog.metadata.walk import ensure_paths
from tidelog.testing.memory_store import MemoryStore


def tree(isr: tuple[int, ...], alive: tuple[int, ...]) -> MemoryStore:
    store = MemoryStore()
    ensure_paths(store, [paths.BROKER_IDS, paths.partition("orders", 0)])
    store.create(paths.partition_state("orders", 0), encode_partition_state(PartitionState(isr[0], 3, isr, 1)))
    for broker_id in alive:
        store.create(paths.broker(broker_id), b"{}")
    return store


@pytest.mark.parametrize(
    ("isr", "alive", "is_shared"),
    [
        ((1, 2), (2, 3), True),  # broker 2 can lead: the controller has not noticed yet
        ((2, 1), (2, 3), True),
        ((2, 3), (2, 3), False),  # it has
        ((1,), (2, 3), False),  # no other has the records: this broker must lead
        ((1, 2), (3,), False),  # the other one is gone, too
        ((1, 2), (), False),  # the whole cluster starts again
    ],
)
def test_only_partitions_that_another_live_broker_can_lead_are_waited_for(
    isr: tuple[int, ...], alive: tuple[int, ...], is_shared: bool
) -> None:
    assert shared_in_sync(tree(isr, alive), 1, [("orders", 0)]) == ([("orders", 0)] if is_shared else [])


def test_a_partition_that_is_gone_is_not_waited_for() -> None:
    assert shared_in_sync(tree((1, 2), (2,)), 1, [("gone", 0)]) == []
