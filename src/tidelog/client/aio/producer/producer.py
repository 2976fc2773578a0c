"""The producer under asyncio: `send` records, get told where they were stored.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        await producer.send("topic", b"value", key=b"key")            # returns once there is room for it
        metadata = await producer.send_and_wait("topic", b"value")    # returns once it is stored

This class waits: for metadata, for memory, for flushes. What it waits with is a pure core (accumulator, sequences) and
a sender that works in turns of the loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from types import TracebackType
from typing import Any, Self

from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.accumulator import Accumulator, Lane
from tidelog.client.aio.producer.batch import DeliveryCallback, ProducerBatch, RecordMetadata
from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.delivery import Delivery, batch_done
from tidelog.client.aio.producer.partitioners import choose_sticky
from tidelog.client.aio.producer.record import ProducerInterceptor, ProducerRecord, serializer_of
from tidelog.client.aio.producer.sender import Sender
from tidelog.client.aio.producer.sequences import SequenceBook
from tidelog.client.aio.producer.settings import load_producer_settings
from tidelog.client.aio.producer.sink import GivenHeaders, Missing, RecordSink
from tidelog.client.aio.producer.transaction_state import State, TransactionHandle
from tidelog.client.aio.producer.transactions import Transactions
from tidelog.client.aio.reactions import error_code_of, reaction_to
from tidelog.client.errors import BufferExhausted, ClientClosed, ClientConfigError, DeadlinePassed, IllegalState
from tidelog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ApiError

_log = logging.getLogger("tidelog.client.producer")


class AsyncProducer:
    """Sends records. Settings are Kafka's, as a dict with dots or as keywords with underscores."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        joining: TransactionHandle | None = None,
        lock: AbstractContextManager[Any] | None = None,
        make_delivery: Callable[[ProducerBatch, int], Any] = Delivery,
        **settings: Any,
    ) -> None:
        """`joining` fills a transaction that another producer owns; `lock` and `make_delivery` are for `Producer`."""
        self.settings = load_producer_settings(config, settings)
        if joining is not None and self.settings.transactional_id is not None:
            raise ClientConfigError("transactional.id belongs to the producer that owns the transaction being joined")
        self._joining = joining
        self._lock = nullcontext() if lock is None else lock
        self._make_delivery = make_delivery
        self._serialize_key = serializer_of(self.settings.key_serializer, "key")
        self._serialize_value = serializer_of(self.settings.value_serializer, "value")
        self._interceptors: tuple[ProducerInterceptor, ...] = tuple(
            each() if isinstance(each, type) else each for each in self.settings.interceptor_classes
        )
        self._is_hooked = bool(self._interceptors or self._serialize_key or self._serialize_value)
        self._topics: dict[str, None] = {}
        self._memory_waiters: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._is_started = False

    # Life.

    async def start(self) -> Self:
        """Reach the cluster. Called by `async with`, and by the first call that needs it."""
        if self._is_started:
            return self
        settings = self.settings
        is_transactional = settings.transactional_id is not None or self._joining is not None
        self._client = NetworkClient(
            settings,
            in_flight_max=settings.max_in_flight_requests_per_connection,
            topics_wanted=self._topics_wanted,
            may_create_topics=settings.allow_auto_create_topics,
        )
        self._pool = BufferPool(settings.buffer_memory, settings.batch_size)
        book = SequenceBook(is_transactional=is_transactional) if settings.enable_idempotence else None
        self._accumulator = Accumulator(settings, self._pool, book)
        self._sender = Sender(settings, self._client, self._accumulator, book, self._lock, self._memory_freed)
        self._sink = RecordSink(
            settings, self._accumulator, self._pool, on_work=self._sender.wake, make_delivery=self._make_delivery
        )
        self._transactions = self._new_transactions(book) if is_transactional and book is not None else None
        self._sender.transactions = self._transactions
        self._client.on_metadata(self._learn)
        try:
            await self._client.start(settings.max_block_ms)
        except BaseException:
            await self._client.close()
            raise
        self._is_started = True
        return self

    def _new_transactions(self, book: SequenceBook) -> Transactions:
        transactional_id = self.settings.transactional_id or (self._joining and self._joining.transactional_id)
        assert transactional_id is not None
        return Transactions(
            self.settings,
            self._client,
            book,
            transactional_id=transactional_id,
            on_change=self._transaction_changed,
            joined=self._joining,
        )

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send what waits, within `timeout_ms` (default: as long as delivery.timeout.ms allows), then let go.

        What is not stored by then fails with ClientClosed. An open transaction is left to be aborted by its timeout.
        """
        if self._is_closed or not self._is_started:
            self._is_closed = True
            return
        self._is_closed = True
        self._sink.gate = {}
        try:
            if timeout_ms != 0:
                await self._flush_for_close(timeout_ms)
        finally:
            self._sender.fail_all(ClientClosed("the producer was closed before these records were stored"))
            self._sender.stop()
            self._memory_freed()
            await self._client.close()

    async def _flush_for_close(self, timeout_ms: int | None) -> None:
        self._accumulator.is_closing = True
        self._sender.wake()
        limit_ms = self.settings.delivery_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._wait_for_incomplete()
        except TimeoutError:
            _log.warning("%d batches were not sent within %d ms of close", len(self._accumulator.incomplete), limit_ms)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Sending.

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Take a record; returns when there is room for it, with a `Delivery` that can be awaited or ignored.

        Waits up to max.block.ms for metadata and memory. Raises what makes the record impossible to send;
        what happens later is told by the delivery and to `on_delivery(metadata, error)`.
        """
        if self._is_hooked:
            topic, value, key, partition, headers, timestamp_ms, on_delivery = self._hook(
                ProducerRecord(topic, value, key, partition, headers, timestamp_ms), on_delivery
            )
        if self._is_started:
            delivery = self._sink.append(topic, value, key, partition, headers, timestamp_ms, on_delivery)
            if delivery is not None:
                return delivery  # type: ignore[no-any-return]
        return await self._send_waiting(
            topic, lambda lane: self._place(lane, value, key, partition, headers, timestamp_ms, on_delivery)
        )

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> RecordMetadata:
        """Send a record and return when it is stored."""
        return await (await self.send(topic, value, key, **options))

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery | None:
        """Take a record if that is possible at once; None if it would have to wait for metadata or memory.

        The loop must get its turn between calls, or nothing is ever sent.
        """
        if self._is_hooked:
            topic, value, key, partition, headers, timestamp_ms, on_delivery = self._hook(
                ProducerRecord(topic, value, key, partition, headers, timestamp_ms), on_delivery
            )
        self._check_open()
        delivery = self._sink.append(topic, value, key, partition, headers, timestamp_ms, on_delivery)
        if delivery is None:
            lane = self._lane(topic)
            if lane is None:
                self._client.request_refresh()
                return None
            delivery = self._place(lane, value, key, partition, headers, timestamp_ms, on_delivery)
            if isinstance(delivery, Missing):
                return None
            self._open_gate(lane)
        return delivery  # type: ignore[no-any-return]

    async def append_batch(
        self, topic: str, partition: int, data: bytes | bytearray | memoryview, record_count: int
    ) -> Delivery:
        """Send a whole record batch of magic 2 that was built elsewhere; its producer fields are filled in here.

        The delivery is that of its first record.
        """
        return await self._send_waiting(
            topic, lambda lane: self._sink.place_batch(lane, partition, data, record_count, self._client.now_ms())
        )

    async def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has; waits for metadata up to max.block.ms."""
        lane = await self._await_lane(topic, self._now_ms() + self.settings.max_block_ms)
        return lane.partition_count

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and return when all that was sent before this call is stored or given up."""
        if not self._is_started or not self._accumulator.incomplete:
            return
        self._accumulator.is_flushing += 1
        self._sender.wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._wait_for_incomplete()
        except TimeoutError:
            raise DeadlinePassed(f"not everything was stored within {timeout_ms} ms") from None
        finally:
            self._accumulator.is_flushing -= 1

    async def _wait_for_incomplete(self) -> None:
        for batch in list(self._accumulator.incomplete):
            await batch_done(batch)

    # Transactions.

    async def init_transactions(self) -> None:
        """Claim the transactional id: finish what its former holder left open, and fence that one."""
        await self._owned().initialize()

    async def begin(self) -> None:
        """Open a transaction. Everything sent from now on is in it."""
        transactions = self._owned()
        self._accumulator.leave_transaction()
        transactions.begin()

    async def commit(self) -> None:
        """Store everything and make it visible. Raises TransactionFailed if that is not possible; then abort."""
        await self._owned().end(is_commit=True, settle=self.flush)

    async def abort(self) -> None:
        """Undo the transaction: what was not sent is dropped, what was sent will not be read by read_committed."""
        await self._owned().end(is_commit=False, settle=self._settle_abort)

    async def _settle_abort(self) -> None:
        self._sender.fail_all(IllegalState("the transaction was aborted before this record was sent"), only_unsent=True)
        await self.flush()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit consumed offsets with the transaction: `group` is the consumer's `group_metadata()` or a group id."""
        metadata = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self._owned().send_offsets(offsets, metadata)

    async def add_partitions_to_transaction(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring in partitions that other processes will write to in this transaction; see `transaction_handle`."""
        await self._owned().add_partitions(partitions)

    @property
    def transaction_handle(self) -> TransactionHandle:
        """The open transaction, to be handed to other processes.

        Each of them makes `AsyncProducer(..., joining=handle)` and writes to partitions that no other writes to;
        this producer adds these partitions and ends the transaction.
        """
        return self._owned().handle

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """`async with producer.transaction():` begins, commits at the end, and aborts if the block raises."""
        await self.begin()
        try:
            yield self
            await self.commit()
        except BaseException:
            if self._owned().status.state not in (State.READY, State.FENCED):
                await self.abort()
            raise

    def _owned(self) -> Transactions:
        self._check_open()
        if self._transactions is None:
            raise IllegalState("this producer has no transactional.id")
        return self._transactions

    def _transaction_changed(self) -> None:
        """Sending is allowed in an open transaction only; the hot path learns it from an empty gate."""
        transactions = self._transactions
        if transactions is not None and transactions.status.state not in (State.OPEN, State.JOINED):
            self._sink.gate = {}
        self._sender.wake()

    # The ways to wait.

    async def _send_waiting(self, topic: str, place: Callable[[Lane], Any]) -> Delivery:
        """Try, and wait for what is missing, until max.block.ms have passed."""
        if not self._is_started:
            await self.start()
        deadline_ms = self._now_ms() + self.settings.max_block_ms
        while True:
            self._check_may_send()
            lane = self._lane(topic) or await self._await_lane(topic, deadline_ms)
            delivery = place(lane)
            if delivery is Missing.METADATA:
                await self._await_more_partitions(lane, deadline_ms)
            elif delivery is Missing.MEMORY:
                await self._await_memory(deadline_ms)
            else:
                self._open_gate(lane)
                # A caller that only ever sends must let the sender have its turn, once per batch.
                await asyncio.sleep(0)
                return delivery  # type: ignore[no-any-return]

    def _place(
        self,
        lane: Lane,
        value: Any,
        key: Any,
        partition: int | None,
        headers: GivenHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> Any:
        self._check_may_send()
        return self._sink.place(lane, value, key, partition, headers, timestamp_ms, on_delivery, self._client.now_ms())

    def _lane(self, topic: str) -> Lane | None:
        if topic not in self._topics:
            self._topics[topic] = None
            self._client.request_refresh()
        lane = self._accumulator.lanes.get(topic)
        return lane if lane is not None and lane.partition_count else None

    def _open_gate(self, lane: Lane) -> None:
        """Let the next records of this topic take the short way."""
        if self._sink.takes_shortcuts:
            if lane.sticky is None:
                lane.sticky = choose_sticky(lane, is_adaptive=False)
            self._sink.gate[lane.topic] = lane

    async def _await_lane(self, topic: str, deadline_ms: int) -> Lane:
        if not self._is_started:
            await self.start()
        self._topics[topic] = None
        known = self._client.metadata.topic(topic)
        while True:
            lane = self._lane(topic)
            if lane is not None:
                return lane
            if known is not None and known.error_code and not reaction_to(known.error_code).is_retriable:
                code = error_code_of(known.error_code)
                raise ApiError(code, f"topic {topic!r}: {code.text}")
            await self._refresh(f"metadata of topic {topic!r}", deadline_ms, is_repeated=known is not None)
            known = self._client.metadata.topic(topic)

    async def _await_more_partitions(self, lane: Lane, deadline_ms: int) -> None:
        count = lane.partition_count
        await self._refresh(
            f"a partition that {lane.topic!r} does not have: it has {count} of them", deadline_ms, is_repeated=True
        )

    async def _refresh(self, what: str, deadline_ms: int, *, is_repeated: bool) -> None:
        left_ms = deadline_ms - self._now_ms()
        if is_repeated:
            left_ms -= self.settings.retry_backoff_ms
            await asyncio.sleep(max(min(self.settings.retry_backoff_ms, left_ms), 0) / 1000)
        if left_ms <= 0:
            raise DeadlinePassed(f"no {what} within max.block.ms={self.settings.max_block_ms}")
        await self._client.refresh(left_ms)

    async def _await_memory(self, deadline_ms: int) -> None:
        """Wait in line. While anybody waits, every batch is due."""
        left_ms = deadline_ms - self._now_ms()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._memory_waiters.append(waiter)
        self._pool.waiting += 1
        self._sender.wake()
        try:
            async with asyncio.timeout(max(left_ms, 0) / 1000):
                await waiter
        except TimeoutError:
            raise BufferExhausted(
                f"no room among {self._pool.total_bytes} bytes within max.block.ms={self.settings.max_block_ms}"
            ) from None
        finally:
            self._pool.waiting -= 1

    def _memory_freed(self) -> None:
        waiters, self._memory_waiters = self._memory_waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Metadata.

    def _topics_wanted(self) -> list[str]:
        return list(self._topics)

    def _learn(self) -> None:
        metadata = self._client.metadata
        with self._lock:
            self._forget_idle()
            for topic in metadata.topics.values():
                if not topic.error_code and topic.name in self._topics:
                    lane = self._accumulator.learn(topic, metadata)
                    if lane.sticky is not None and lane.sticky.partition >= lane.partition_count:
                        lane.sticky = choose_sticky(lane, is_adaptive=False)
        self._sender.wake()

    def _forget_idle(self) -> None:
        """Ask no more for topics that were not sent to for metadata.max.idle.ms; their sequences are kept."""
        horizon_ms = self._client.now_ms() - self.settings.metadata_max_idle_ms
        for topic, lane in self._accumulator.lanes.items():
            if lane.last_used_ms and lane.last_used_ms < horizon_ms and not any(q.batches for q in lane.queues):
                self._topics.pop(topic, None)
                self._sink.gate.pop(topic, None)

    # Checks and hooks.

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        if not self._is_started:
            raise IllegalState("start the producer first, or use it as `async with`")

    def _check_may_send(self) -> None:
        self._check_open()
        if self._sender.fatal is not None:
            raise self._sender.fatal
        if self._transactions is not None:
            self._transactions.status.check_may_send()

    def _hook(self, record: ProducerRecord, on_delivery: DeliveryCallback | None) -> tuple[Any, ...]:
        """Interceptors, then serializers."""
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                _log.exception("interceptor %r failed in on_send", interceptor)
        if self._interceptors:
            on_delivery = self._acknowledging(on_delivery)
        topic, value, key = record.topic, record.value, record.key
        try:
            if self._serialize_key is not None:
                key = self._serialize_key(topic, key)
            if self._serialize_value is not None:
                value = self._serialize_value(topic, value)
        except Exception as error:
            self._acknowledge(None, error)
            raise
        return topic, value, key, record.partition, record.headers, record.timestamp_ms, on_delivery

    def _acknowledging(self, on_delivery: DeliveryCallback | None) -> DeliveryCallback:
        def acknowledge(metadata: RecordMetadata | None, error: Exception | None) -> None:
            self._acknowledge(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return acknowledge

    def _acknowledge(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:
                _log.exception("interceptor %r failed in on_acknowledgement", interceptor)
