"""The plain data that a share consumer takes and gives."""

from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum
from typing import Final, Generic, NamedTuple

from tidelog.client.errors import ClientError
from tidelog.client.serialization import Headers, K, V
from tidelog.client.types import TopicPartition
from tidelog.records.header import TimestampType


class AcknowledgeType(IntEnum):
    """How a record is acknowledged, by its number on the wire."""

    ACCEPT = 1
    """It is done."""
    RELEASE = 2
    """It is to be delivered again, to this consumer or another one."""
    REJECT = 3
    """It cannot be processed and is never delivered again; a group with dead letters keeps a copy there."""
    RENEW = 4
    """It takes longer: its lock begins again. The record is returned by the next poll once the lock is renewed."""


class ShareRecord(NamedTuple, Generic[K, V]):
    """One locked record, as `poll` returns it. Key and value are bytes unless deserializers were given."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: K | None
    value: V | None
    headers: Headers
    timestamp_type: TimestampType
    leader_epoch: int
    """The epoch of the leader that appended the record; -1 for what was written before epochs were kept."""
    delivery_count: int
    """How often the record was delivered, this time included."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record is."""
        return TopicPartition(self.topic, self.partition)


Acknowledged = Mapping[TopicPartition, ClientError | None]
"""What became of the acknowledgements of each partition: an error, or None if they are confirmed."""

AcknowledgementCallback = Callable[
    [Mapping[TopicPartition, frozenset[int]], ClientError | None], Awaitable[None] | None
]
"""Called with the offsets of one partition whose acknowledgements were answered, and the error if they were refused."""

TopicIdPartition = tuple[bytes, int]
"""A partition as share sessions name it."""


class Ack(NamedTuple):
    """One acknowledgement: a number of the wire, and how long a released record waits."""

    kind: int
    delay_ms: int = -1
    """-1: as long as the settings of the group say."""


GAP: Final = Ack(0)
"""An offset that was locked and has no record."""
ACCEPTED: Final = Ack(AcknowledgeType.ACCEPT)
RELEASED: Final = Ack(AcknowledgeType.RELEASE)


class Origin(NamedTuple):
    """Where a record was locked: acknowledgements go back there, whoever leads the partition by then."""

    node_id: int
    key: TopicIdPartition
    where: TopicPartition


Acks = dict[Origin, dict[int, Ack]]
"""Acknowledgements by offset."""
