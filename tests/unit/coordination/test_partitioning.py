"""Where a group lives: every client and every broker must compute the same partition."""

from __future__ import annotations

import pytest

from tidelog.coordination import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_hashes_are_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(("group_id", "partition"), [("console-consumer-90277", 26), ("console-consumer-49366", 19)])
def test_partitions_are_those_of_kafkas_formula(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


def test_the_hash_without_a_positive_counterpart_is_partition_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
