"""The name of a partition, and the number that stands for no leader epoch, for all rooms."""

from typing import Final, NamedTuple, TypeAlias

NO_EPOCH: Final = -1
"""In place of a leader epoch: there was no leader, the epoch is not known, or it is not compared."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition as a plain tuple: three times faster to make, and equal to a `TopicPartition` as a key."""
