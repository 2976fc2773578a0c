"""The asyncio producer.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        await producer.send("topic", b"value", key=b"key")            # returns once there is room for it
        metadata = await producer.send_and_wait("topic", b"value")    # returns once it is stored

A wrapper around `ProducerEngine`.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from tidelog.client.aio.producer.batch import DeliveryCallback, ProducerBatch, RecordMetadata
from tidelog.client.aio.producer.delivery import Delivery
from tidelog.client.aio.producer.engine import ProducerEngine
from tidelog.client.aio.producer.record import Hooks, ProducerRecord
from tidelog.client.aio.producer.settings import load_producer_settings
from tidelog.client.aio.producer.sink import GivenHeaders
from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.aio.producer.transactions import Transactions
from tidelog.client.arrow_parts import load
from tidelog.client.errors import ClientClosed, ClientConfigError, IllegalState
from tidelog.client.metrics import ProducerMetrics
from tidelog.client.serialization import K, V
from tidelog.client.types import ArrowStream, ConsumerGroupMetadata, Places, TopicPartition, as_places, milliseconds

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table

    from tidelog.client.aio.producer.options import ProducerOptions
    from tidelog.client.aio.producer.table_delivery import TableDelivery


class AsyncProducer(Generic[K, V]):
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
        """`joining` writes in a transaction that another producer has begun and will end; see `transaction_handle`."""
        self.settings = load_producer_settings(config, settings)
        if joining is not None and self.settings.transactional_id is not None:
            raise ClientConfigError("transactional.id belongs to the producer that owns the transaction being joined")
        self._joining = joining
        self.hooks = Hooks(self.settings)
        self._engine: ProducerEngine | None = None
        self._append: Callable[..., Any] = _nothing
        """The short way, once it can be taken: without hooks, and started."""
        self._is_closed = False

    # Life.

    async def start(self) -> Self:
        """Reach the cluster; `async with` calls this. Raises BootstrapFailed when no bootstrap server answers."""
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if self._engine is None:
            await self._start(ProducerEngine(self.settings, joining=self._joining))
        return self

    async def _start_for_threads(
        self, lock: AbstractContextManager[Any], make_delivery: Callable[[ProducerBatch, int], Any]
    ) -> ProducerEngine:
        """Start for `Producer`, whose callers put records in from other threads under `lock`."""
        return await self._start(
            ProducerEngine(self.settings, joining=self._joining, lock=lock, make_delivery=make_delivery)
        )

    async def _start(self, engine: ProducerEngine) -> ProducerEngine:
        await engine.start()
        self._engine = engine
        if not self.hooks.is_active:
            self._append = engine.sink.append
        return engine

    async def close(self, timeout_s: float | None = None) -> None:
        """Send what waits, within `timeout_s` (default: as long as delivery.timeout.ms allows), then close.

        What is not stored by then fails with ClientClosed. An open transaction is aborted.
        """
        limit_ms = None if timeout_s is None else milliseconds(timeout_s)
        self._is_closed = True
        if self._engine is not None:
            await self._engine.close(limit_ms)

    async def stop(self) -> None:
        """The counterpart of `start`: the same as `close`."""
        await self.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _running(self) -> ProducerEngine:
        if self._engine is None:
            raise IllegalState("start the producer first, or use it as `async with`")
        return self._engine

    # Sending.

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Take a record; returns when there is room for it, with a `Delivery` that can be awaited or ignored.

        Waits up to max.block.ms for metadata and memory. Raises an error if the record is invalid;
        later errors are in the delivery and are passed to `on_delivery(metadata, error)`.
        """
        taken: Delivery | None = self._append(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if taken is not None:
            return taken
        record, on_delivery = self._prepare(
            ProducerRecord(topic, value, key, partition, headers, timestamp_ms), on_delivery
        )
        waited: Delivery = await self._running().take(record, on_delivery)
        return waited

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send a record and return when it is stored."""
        return await (
            await self.send(topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms)
        )

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery | None:
        """Take a record if that is possible at once; None if it would have to wait for metadata or memory.

        The loop must get its turn between calls, or nothing is ever sent.
        """
        taken: Delivery | None = self._append(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if taken is None:
            record, on_delivery = self._prepare(
                ProducerRecord(topic, value, key, partition, headers, timestamp_ms), on_delivery
            )
            taken = self._running().take_nowait(record, on_delivery)
        return taken

    def _prepare(
        self, record: ProducerRecord[Any, Any], on_delivery: DeliveryCallback | None
    ) -> tuple[ProducerRecord, DeliveryCallback | None]:
        """The record in bytes, and the callback for its result."""
        self._running()
        return self.hooks.apply(record, on_delivery) if self.hooks.is_active else (record, on_delivery)

    async def append_batch(
        self, topic: str, partition: int, data: bytes | bytearray | memoryview, record_count: int
    ) -> Delivery:
        """Send a whole record batch of magic 2 that was built elsewhere; its producer fields are filled in here.

        The delivery is that of its first record.
        """
        taken: Delivery = await self._running().take_batch(topic, partition, data, record_count)
        return taken

    async def send_arrow(
        self,
        table: "Table | RecordBatch | ArrowStream",
        topic: str,
        *,
        key: str | None = "key",
        value: str | None = "value",
        partition: int | str | None = None,
        timestamp: int | str | None = None,
        headers: str | None = None,
    ) -> "TableDelivery":
        """Send the rows of a table, in order; returns when all are taken. Needs `tidelog[arrow]`.

        A table is Arrow's, a pandas or Polars DataFrame, or anything that offers Arrow's C stream interface.
        The arguments name columns: `key` and `value` of bytes or text, `partition` of numbers, `timestamp` of times or
        milliseconds, `headers` of lists of key and value. `partition` and `timestamp` may also be the same for all
        rows. Without partition the key decides. Serializers and interceptors are not called.
        """
        sending, writing = load("sending"), load("writing")
        meaning = writing.Meaning(key, value, partition, timestamp, headers)
        delivery: TableDelivery = await sending.send_in_loop(self._running(), table, topic, meaning)
        return delivery

    async def partitions_for(self, topic: str, *, is_fresh: bool = False, timeout_s: float | None = None) -> int:
        """How many partitions a topic has; waits for metadata up to `timeout_s`, by default max.block.ms.

        What is known may be as old as metadata.max.age.ms; `is_fresh` asks brokers now.
        """
        engine = self._running()
        topic_queue = await engine.topic_queue(topic, None if timeout_s is None else milliseconds(timeout_s))
        if is_fresh:
            await engine.refresh()
            topic_queue = await engine.topic_queue(topic)
        return topic_queue.partition_count

    async def flush(self, timeout_s: float | None = None) -> None:
        """Send everything now, and return when all that was sent before this call is stored or given up.

        Raises DeadlinePassed after `timeout_s`; the records stay under way.
        """
        await self._running().flush(None if timeout_s is None else milliseconds(timeout_s))

    def metrics(self) -> ProducerMetrics:
        """Metrics of this producer, its brokers and its partitions; `as_dict()` returns them as for JSON."""
        return self._running().metrics()

    # Transactions.

    async def init_transactions(self) -> None:
        """Claim the transactional id: finish what its former holder left open, and fence that one."""
        await self._transactions().initialize()

    async def begin(self) -> None:
        """Open a transaction. Everything sent from now on is in it."""
        self._transactions()
        self._running().begin()

    async def commit(self) -> None:
        """Store everything and make it visible. Raises TransactionFailed if that is not possible; then abort."""
        self._transactions()
        await self._running().commit()

    async def abort(self) -> None:
        """Undo the transaction: what was not sent is dropped, what was sent will not be read by read_committed."""
        self._transactions()
        await self._running().abort()

    async def send_offsets_to_transaction(self, offsets: Places, group: ConsumerGroupMetadata | str) -> None:
        """Commit consumed offsets with the transaction: `group` is the consumer's `group_metadata()` or a group id."""
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self._transactions().send_offsets(as_places(offsets), metadata)

    async def add_partitions_to_transaction(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring in partitions that other processes will write to in this transaction; see `transaction_handle`."""
        await self._transactions().add_partitions(partitions)

    @property
    def transaction_handle(self) -> TransactionHandle:
        """The open transaction, to be handed to other processes.

        Each of them makes `AsyncProducer(..., joining=handle)` and writes to partitions that no other writes to;
        this producer adds these partitions and ends the transaction.
        """
        return self._transactions().handle

    async def join(self, handle: TransactionHandle) -> None:
        """For a producer made with `joining=`: write in another transaction, once all that was sent is stored."""
        self._running().join(handle)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction():` begins, commits at the end, and aborts if the block raises."""
        await self.begin()
        try:
            yield self
            await self.commit()
        except BaseException:
            if self._running().can_abort:
                await self.abort()
            raise

    def _transactions(self) -> Transactions:
        engine = self._running()
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if engine.transactions is None:
            raise IllegalState("this producer has no transactional.id")
        return engine.transactions


def _nothing(*_: object) -> None:
    return None
