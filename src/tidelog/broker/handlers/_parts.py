"""Requests that name many partitions, cut into parts that each take a millisecond or two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

PARTITIONS_AT_ONCE: Final = 500
"""Partitions of one request that are dealt with in one step."""

T = TypeVar("T")
Topic = TypeVar("Topic")


def are_few(lists: Sequence[Sequence[object]]) -> bool:
    """Whether the partitions of so many topics can be dealt with in one step."""
    return len(lists) <= PARTITIONS_AT_ONCE and sum(map(len, lists)) <= PARTITIONS_AT_ONCE


def in_parts(topics: Iterable[tuple[Topic, Sequence[T]]]) -> Iterator[list[tuple[Topic, Sequence[T]]]]:
    """Topics and their partitions in parts for one step each; a topic with many partitions is in several."""
    part: list[tuple[Topic, Sequence[T]]] = []
    room = PARTITIONS_AT_ONCE
    for name, partitions in topics:
        for start in range(0, len(partitions) or 1, PARTITIONS_AT_ONCE):
            some = partitions[start : start + PARTITIONS_AT_ONCE]
            part.append((name, some))
            room -= len(some) + 1
            if room <= 0:
                yield part
                part, room = [], PARTITIONS_AT_ONCE
    if part:
        yield part
