"""The producer for programs without an event loop: the same calls, blocking, safe to share between threads.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("topic", b"value", key=b"key")                 # blocks only for metadata and memory
        print(producer.send("topic", b"value").result(timeout=10))   # blocks until it is stored

The asyncio producer runs on a loop in a thread of its own. Records do not travel through that loop one by one: they are
put into batches by the calling thread, under a lock that the sender takes once per turn.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from tidelog.client.aio.background import FORKED
from tidelog.client.aio.producer.batch import DeliveryCallback
from tidelog.client.aio.producer.delivery import BlockingDelivery
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.aio.producer.record import ProducerRecord
from tidelog.client.aio.producer.sink import GivenHeaders
from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.arrow_parts import load
from tidelog.client.errors import ClientClosed
from tidelog.client.faces import Face, blocking, called_there
from tidelog.client.serialization import K, V
from tidelog.client.types import ArrowStream

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table

    from tidelog.client.aio.producer.options import ProducerOptions
    from tidelog.client.aio.producer.table_delivery import BlockingTableDelivery


class Producer(Face[AsyncProducer[K, V]], Generic[K, V]):
    """Sends records with keys of type `K` and values of type `V`: bytes, or what serializers take.

    Settings are Kafka's, as a dict with dots or as keywords with underscores.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        joining: TransactionHandle | None = None,
        **settings: "Unpack[ProducerOptions[K, V]]",
    ) -> None:
        """Reaches the cluster; raises BootstrapFailed when none of the bootstrap servers answers."""
        super().__init__(AsyncProducer(config, joining=joining, **settings), "tidelog-producer")
        self._lock = threading.RLock()
        self._hooks = self._async.hooks
        self._engine = self._background.run_first(self._async._start_for_threads(self._lock, BlockingDelivery))
        self._append: Callable[..., Any] = self._engine.sink.append
        self._background.end_with(self, partial(self._async.close, 0))
        _made.add(self)

    def _forked(self) -> None:
        """This is a child process: the thread that would send is not here, and a thread that held the lock neither."""
        self._lock = threading.RLock()
        self._engine.refuse(ClientClosed(FORKED))

    def close(self, timeout_s: float | None = None) -> None:
        """Send what waits, within `timeout_s`, then close; records that are not stored by then fail."""
        if self._background.is_alive:
            limit_s = self._async.settings.delivery_timeout_ms / 1000 if timeout_s is None else timeout_s
            self._background.run_last(self._async.close(timeout_s), limit_s)

    # Sending.

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> BlockingDelivery:
        """Take a record; returns when there is room for it. Blocks up to max.block.ms for metadata and memory."""
        if not self._hooks.is_active:
            with self._lock:
                taken = self._append(topic, value, key, partition, headers, timestamp_ms, on_delivery)
            if taken is not None:
                return taken  # type: ignore[no-any-return]
        record: ProducerRecord[Any, Any] = ProducerRecord(topic, value, key, partition, headers, timestamp_ms)
        if self._hooks.is_active:
            record, on_delivery = self._hooks.apply(record, on_delivery)
        with self._lock:
            taken = self._append(*record, on_delivery) or self._engine.take_nowait(record, on_delivery)
        if taken is None:
            taken = self._background.run(self._engine.take(record, on_delivery))
        return taken  # type: ignore[no-any-return]

    def append_batch(
        self, topic: str, partition: int, data: bytes | bytearray | memoryview, record_count: int
    ) -> BlockingDelivery:
        """Send a whole record batch of magic 2 that was built elsewhere; its producer fields are filled in here."""
        taken: BlockingDelivery = self._background.run(self._engine.take_batch(topic, partition, data, record_count))
        return taken

    def send_arrow(
        self,
        table: "Table | RecordBatch | ArrowStream",
        topic: str,
        *,
        key: str | None = "key",
        value: str | None = "value",
        partition: int | str | None = None,
        timestamp: int | str | None = None,
        headers: str | None = None,
    ) -> "BlockingTableDelivery":
        """Send the rows of a table, in order; returns when all are taken. Needs `tidelog[arrow]`.

        A table is Arrow's, a pandas or Polars DataFrame, or anything that offers Arrow's C stream interface.
        The arguments name columns: `key` and `value` of bytes or text, `partition` of numbers, `timestamp` of times or
        milliseconds, `headers` of lists of key and value. `partition` and `timestamp` may also be the same for all
        rows. Without partition the key decides. Serializers and interceptors are not called.
        """
        sending, writing = load("sending"), load("writing")
        meaning = writing.Meaning(key, value, partition, timestamp, headers)
        delivery: BlockingTableDelivery = sending.send_from_thread(
            self._background, self._engine, table, topic, meaning
        )
        return delivery

    partitions_for = blocking(AsyncProducer.partitions_for)
    flush = blocking(AsyncProducer.flush)
    metrics = called_there(AsyncProducer.metrics)

    # Transactions.

    init_transactions = blocking(AsyncProducer.init_transactions)
    begin = blocking(AsyncProducer.begin)
    commit = blocking(AsyncProducer.commit)
    abort = blocking(AsyncProducer.abort)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    add_partitions_to_transaction = blocking(AsyncProducer.add_partitions_to_transaction)
    join = blocking(AsyncProducer.join)

    @property
    def transaction_handle(self) -> TransactionHandle:
        """The open transaction, to be handed to other processes; see `AsyncProducer.transaction_handle`."""
        return self._async.transaction_handle

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """`with producer.transaction():` begins, commits at the end, and aborts if the block raises."""
        self.begin()
        try:
            yield self
            self.commit()
        except BaseException:
            if self._engine.can_abort:
                self.abort()
            raise


_made: "weakref.WeakSet[Producer[Any, Any]]" = weakref.WeakSet()


def _after_fork() -> None:
    for producer in _made:
        producer._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
