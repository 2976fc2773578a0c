"""The result of `send`: it can be awaited, or waited for in a thread, queried, or ignored at no cost.

A delivery is a batch and an index. Only waiting makes a future, one per batch and not per record, so programs that
send a million records and flush once do not pay for a million futures.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any

from tidelog.client.aio.producer.batch import DeliveryCallback, ProducerBatch, RecordMetadata
from tidelog.client.errors import DeliveryPending


async def batch_done(batch: ProducerBatch) -> None:
    """Return when the outcome of a batch is known."""
    if batch.is_done:
        return
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(_batch: ProducerBatch) -> None:
        if not waiter.done():
            waiter.set_result(None)

    batch.watch(tell)
    await waiter


class Delivery:
    """The outcome of one `send`. `await delivery` gives RecordMetadata or raises why the record was not stored."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            yield from batch_done(self._batch).__await__()
        return self.result()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.is_done

    def result(self) -> RecordMetadata:
        """Where the record is. Raises why it was not stored, or InvalidStateError while that is not known."""
        error = self.exception()
        if error is not None:
            raise error
        return self._batch.metadata_of(self._index)

    def exception(self) -> Exception | None:
        """Why the record was not stored, if it was not."""
        if not self._batch.is_done:
            raise asyncio.InvalidStateError("the record has no result yet")
        return self._batch.error_of(self._index)

    @property
    def attempts(self) -> int:
        """How often the record was sent, so far."""
        return self._batch.attempts_of(self._index)

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call `callback` with this delivery when the outcome is known; at once if it is."""
        self._batch.add_callback(self._index, lambda _metadata, _error: callback(self))

    def add_callback(self, callback: DeliveryCallback) -> None:
        """Call `callback(metadata, error)` when the outcome is known: the order is that of the sends."""
        self._batch.add_callback(self._index, callback)


class BlockingDelivery:
    """The result of one `send`, with the methods of `concurrent.futures.Future`."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: ProducerBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait up to `timeout` seconds; where the record is. Raises why it was not stored, or DeliveryPending."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._batch.metadata_of(self._index)

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait up to `timeout` seconds; why the record was not stored, if it was not."""
        if not self._batch.is_done:
            done = threading.Event()
            self._batch.watch(lambda _: done.set())
            if not done.wait(timeout):
                raise DeliveryPending(f"the record has no result after {timeout} s")
        return self._batch.error_of(self._index)

    def add_done_callback(self, callback: Callable[["BlockingDelivery"], object]) -> None:
        """Call `callback` with this delivery, in the client's thread, when the outcome is known; at once if it is."""
        self._batch.add_callback(self._index, lambda _metadata, _error: callback(self))
