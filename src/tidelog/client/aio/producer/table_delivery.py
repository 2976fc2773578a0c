"""What `send_arrow` returns: the outcome of a whole table."""

from collections.abc import Generator, Sequence
from time import monotonic
from typing import Any, NamedTuple

from tidelog.client.aio.producer.batch import RecordMetadata
from tidelog.client.aio.producer.delivery import BlockingDelivery, Delivery


class SentTable(NamedTuple):
    """Where the rows of a table were stored. Batches of other producers may lie between those of the table."""

    record_count: int
    batch_count: int
    offsets: dict[int, tuple[int, int]]
    """By partition, the first and the last offset; empty where it is unknown, as with acks=0."""


class TableDelivery:
    """The outcome of `AsyncProducer.send_arrow`. `await` it to know that every row is stored, or why not."""

    def __init__(self, deliveries: Sequence[tuple[int, Delivery]]) -> None:
        """`deliveries` are record counts of batches, and the deliveries of their first records."""
        self._deliveries = deliveries

    def __await__(self) -> Generator[Any, None, SentTable]:
        stored: list[tuple[int, RecordMetadata]] = []
        for count, delivery in self._deliveries:
            stored.append((count, (yield from delivery.__await__())))
        return _summed(stored)

    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return all(delivery.done() for _, delivery in self._deliveries)


class BlockingTableDelivery:
    """The outcome of `Producer.send_arrow`."""

    def __init__(self, deliveries: Sequence[tuple[int, BlockingDelivery]]) -> None:
        self._deliveries = deliveries

    def result(self, timeout: float | None = None) -> SentTable:
        """Wait up to `timeout` seconds for every row to be stored. Raises why the first was not, or DeliveryPending."""
        until = None if timeout is None else monotonic() + timeout
        stored: list[tuple[int, RecordMetadata]] = []
        for count, delivery in self._deliveries:
            left = None if until is None else max(until - monotonic(), 0)
            stored.append((count, delivery.result(left)))
        return _summed(stored)

    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return all(delivery.done() for _, delivery in self._deliveries)


def _summed(stored: Sequence[tuple[int, RecordMetadata]]) -> SentTable:
    offsets: dict[int, tuple[int, int]] = {}
    for count, metadata in stored:
        if metadata.offset >= 0:
            first = offsets.get(metadata.partition, (metadata.offset, 0))[0]
            offsets[metadata.partition] = (first, metadata.offset + count - 1)
    return SentTable(sum(count for count, _ in stored), len(stored), offsets)
