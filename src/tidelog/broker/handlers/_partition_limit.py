"""How many partitions one request may make, for CreateTopics and CreatePartitions.

Each takes a directory and its files. Kafka's limit and words are those of its
KRaft controller; in ZooKeeper mode one request could ask for billions.
"""

from __future__ import annotations

from typing import Final

from tidelog.wire.errors import ApiError, ErrorCode

NEW_PARTITIONS_MAX: Final = 10_000
COUNTED_AT_ONCE: Final = 100
"""Topics of a request that are counted in one step, before any of them is changed."""


def partition_limit_error(new_partitions: int) -> ApiError | None:
    """The error for every topic of a request that asks for so many new partitions, None if it may."""
    if new_partitions <= NEW_PARTITIONS_MAX:
        return None
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"Excessively large number of partitions per request: more than {NEW_PARTITIONS_MAX}.",
    )
