"""The old generation is collected while it is small, never by Python itself, and never under long work."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidelog.broker.runtime.garbage import GarbageCollection


class Calls:
    """Stands for the loop: what it was asked to call."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, function: Callable[[], None]) -> None:
        self.asked.append(function)


class Node:
    """Part of a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks


def collection_of(loop: Calls, *, is_busy: bool = False) -> GarbageCollection:
    collection = GarbageCollection(loop, lambda: is_busy)  # type: ignore[arg-type]
    collection.start()
    return collection


def old_garbage() -> weakref.ref[Node]:
    """A cycle that has become old before it became garbage."""
    node = Node()
    gc.collect(0)
    gc.collect(1)
    assert any(each is node for each in gc.get_objects(generation=2))
    return weakref.ref(node)


def test_python_does_not_collect_the_old_generation_by_itself() -> None:
    passes: list[int] = []
    collection_of(Calls())
    gc.callbacks.append(lambda phase, info: passes.append(info["generation"]) if phase == "stop" else None)
    kept: list[Any] = [[] for _ in range(400_000)]
    assert kept
    assert passes.count(1) > 20
    assert 2 not in passes


def test_it_is_asked_for_after_a_few_passes_over_younger_objects() -> None:
    loop = Calls()
    collection = collection_of(loop)
    kept: list[Any] = []
    while not loop.asked and len(kept) < 100_000:
        kept.append([])
    assert loop.asked == [collection.collect]
    assert len(kept) < 30_000, "the old generation is small by then"
    loop.asked.pop()()
    kept += [[] for _ in range(60_000)]
    assert loop.asked, "and again after as many"


def test_garbage_is_found_and_what_is_in_use_is_exempted() -> None:
    collection = collection_of(Calls())
    garbage = old_garbage()
    in_use = Node()
    collection.collect()
    assert garbage() is None
    assert all(each is not in_use for generation in range(3) for each in gc.get_objects(generation=generation))


def test_under_long_work_nothing_is_looked_at() -> None:
    """Its objects would be looked at in vain: they go when it ends."""
    collection = collection_of(Calls(), is_busy=True)
    garbage = old_garbage()
    collection.collect()
    assert garbage() is not None
    assert len(gc.get_objects(generation=2)) < 1_000
