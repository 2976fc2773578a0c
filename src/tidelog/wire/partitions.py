"""How a partition is named, in every room."""

from typing import NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition as a plain tuple, which is a third of the price and equal to a `TopicPartition` as a key."""
