"""Plain data that producers, consumers and admins share, and that callers hand in and get back."""

from collections.abc import Mapping
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class BrokerNode(NamedTuple):
    """A broker as metadata names it. Bootstrap servers, whose ids are not known yet, count down from -1."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        return f"{self.host}:{self.port}"


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the offset to read next, and the epoch of the record before it where it is known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Places = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets to commit: the next one to read, with or without metadata."""


def as_place(place: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """An offset as a place."""
    return OffsetAndMetadata(place) if isinstance(place, int) else place


def as_places(offsets: Places) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as places."""
    return {TopicPartition(*each): as_place(place) for each, place in offsets.items()}


class ConsumerGroupMetadata(NamedTuple):
    """What a group knows a member by; a producer commits offsets inside a transaction in its name (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
