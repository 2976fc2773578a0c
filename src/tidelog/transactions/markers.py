"""Writing transaction markers to the partitions of a transaction whose outcome is decided.

The shard orders them and tracks which partitions have theirs and which must be retried. The edge writes them, into its
own logs or through the leaders of others, and reports each to `TransactionShard.on_marker`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

from tidelog.wire.errors import ErrorCode
from tidelog.wire.partitions import PartitionKey


class MarkerOrder(NamedTuple):
    """Markers to write to `partitions`. The edge reports each of them with this order."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[PartitionKey, ...]
    protocol: int = 0
    """The version of the transaction protocol: from version 2 on no other transaction has markers with this epoch."""


MarkerSender: TypeAlias = Callable[[MarkerOrder], None]
"""Takes an order; it must return before it reports any marker."""


class Fate(Enum):
    """How to go on after the response to a marker."""

    WRITTEN = auto()
    RETRY = auto()
    """The partition may accept it later: its leader moves, its replicas return."""
    FENCED = auto()
    """A later coordinator has the transactional id, and ends the transaction itself."""


FATES: Final = {
    ErrorCode.NONE: Fate.WRITTEN,
    # Only a log of a format before transactions returns this, and it has no records of the transaction.
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Fate.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Fate.FENCED,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Fate.FENCED,
}
"""Any other error is retried: a decided transaction must end in every partition."""


def fate_of(code: ErrorCode) -> Fate:
    return FATES.get(code, Fate.RETRY)


class MarkerProgress:
    """The markers of one transaction: partitions `to_write` have none yet, those in `to_retry` rejected it."""

    __slots__ = ("order", "to_retry", "to_write")

    def __init__(self, order: MarkerOrder) -> None:
        self.order = order
        self.to_write = set(order.partitions)
        self.to_retry: set[PartitionKey] = set()

    @property
    def is_done(self) -> bool:
        return not self.to_write

    def is_of(self, order: MarkerOrder) -> bool:
        """Whether `order` is for these markers, or is a retry of some of them."""
        return self.order[:5] == order[:5]

    def settle(self, partition: PartitionKey, code: ErrorCode) -> Fate:
        """Record the result of one marker."""
        fate = fate_of(code)
        if fate is Fate.WRITTEN:
            self.to_write.discard(partition)
            self.to_retry.discard(partition)
        elif fate is Fate.RETRY and partition in self.to_write:
            self.to_retry.add(partition)
        return fate

    def take_retries(self) -> MarkerOrder:
        """An order for the markers that were rejected."""
        order = self.order._replace(partitions=tuple(sorted(self.to_retry)))
        self.to_retry.clear()
        return order
