"""Schedules for a world of replicas: steps in any order, then healing, which checks the claims of the world."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

Step = tuple[str, int]
"""The name of a step, and a number that picks the broker."""


class Playable(Protocol):
    """Replicas in a directory."""

    def do(self, step: Step) -> None: ...

    def heal(self) -> None: ...

    def close(self) -> None: ...


NewWorld = Callable[[Path], Playable]


def play(new_world: NewWorld, schedule: Sequence[Step]) -> None:
    """Take the steps and heal. AssertionError if a claim does not hold."""
    directory = Path(tempfile.mkdtemp())
    world = new_world(directory)
    try:
        for step in schedule:
            world.do(step)
        world.heal()
    finally:
        world.close()
        shutil.rmtree(directory)


def random_schedule(names: Sequence[str], seed: int, length: int) -> list[Step]:
    source = random.Random(seed)
    return [(source.choice(names), source.randrange(3)) for _ in range(length)]


def assert_found(
    mistake: Callable[[], AbstractContextManager[None]],
    new_world: NewWorld,
    names: Sequence[str],
    *,
    seeds: int,
    length: int,
) -> None:
    """Some schedule fails with a planted mistake, and holds without it."""
    for seed in range(seeds):
        schedule = random_schedule(names, seed, length)
        try:
            with mistake():
                play(new_world, schedule)
        except AssertionError:
            play(new_world, schedule)
            return
    pytest.fail("no schedule shows the planted mistake")
