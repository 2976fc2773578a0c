"""Requests that name many partitions are cut into parts."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.broker.handlers._parts import PARTITIONS_AT_ONCE, are_few, in_parts


@pytest.mark.parametrize(
    "sizes", [[], [0], [1], [500], [501], [499, 1], [1, 499, 2], [1_700, 3, 0, 900], [0, 0, 1_500], [3] * 400]
)
def test_parts_hold_everything_in_order_and_are_short(sizes: list[int]) -> None:
    topics = [(f"topic {number}", list(range(size))) for number, size in enumerate(sizes)]
    parts = list(in_parts(topics))
    entries = [(name, index) for part in parts for name, some in part for index in some]
    assert entries == [(name, index) for name, indexes in topics for index in indexes]
    for part in parts:
        assert sum(len(some) + 1 for _, some in part) <= 2 * PARTITIONS_AT_ONCE + 1


def test_topics_without_partitions_count_too() -> None:
    """A million empty topics would be one part otherwise."""
    parts: list[Any] = list(in_parts(("t", []) for _ in range(2_000)))
    assert [len(part) for part in parts] == [PARTITIONS_AT_ONCE] * 4
    assert list(in_parts([])) == []


def test_few_are_few_topics_with_few_partitions() -> None:
    assert are_few([[1]] * PARTITIONS_AT_ONCE)
    assert not are_few([[]] * (PARTITIONS_AT_ONCE + 1))
    assert not are_few([range(PARTITIONS_AT_ONCE), [1]])
