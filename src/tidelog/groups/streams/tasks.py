"""Tasks: a partition of the input of one subtopology, run as active, standby or warm-up task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

Tasks: TypeAlias = Mapping[str, frozenset[int]]
"""Partitions by subtopology; never changed once made, and without empty entries."""

NO_TASKS: Final[Tasks] = {}
TaskId: TypeAlias = tuple[str, int]
"""A subtopology and a partition."""


class TaskSet(NamedTuple):
    """Tasks of one member, by the role they have there."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, other: TaskSet) -> bool:
        """Whether both have some task in the same role."""
        return any(
            not partitions.isdisjoint(others.get(subtopology, ()))
            for mine, others in zip(self, other, strict=True)
            for subtopology, partitions in mine.items()
        )


NOTHING: Final = TaskSet()


def task_ids(tasks: Tasks) -> Iterator[TaskId]:
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def grouped(ids: Iterable[TaskId]) -> Tasks:
    """Tasks by subtopology."""
    found: dict[str, set[int]] = {}
    for subtopology, partition in ids:
        found.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


def is_within(some: Tasks, others: Tasks) -> bool:
    """Whether `others` has all of these tasks."""
    return all(partitions <= others.get(subtopology, frozenset()) for subtopology, partitions in some.items())
