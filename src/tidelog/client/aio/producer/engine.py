"""The parts of a producer put together, and everything that has to wait: metadata, memory, flushes, the end.

`AsyncProducer` and `Producer` are wrappers around it. The asyncio one calls it from its loop. The blocking one puts
records in from any thread, under the lock it gave, and everything else runs in the loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from tidelog.client.aio.metadata import FINAL_TOPIC_ERRORS
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.accumulator import Accumulator, TopicQueue
from tidelog.client.aio.producer.batch import DeliveryCallback, ProducerBatch
from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.delivery import Delivery, batch_done
from tidelog.client.aio.producer.partitioners import choose_sticky
from tidelog.client.aio.producer.record import ProducerRecord
from tidelog.client.aio.producer.sender import Sender
from tidelog.client.aio.producer.sequences import SequenceTracker
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.producer.sink import Missing, RecordSink, check_topic
from tidelog.client.aio.producer.transaction_state import State, TransactionHandle
from tidelog.client.aio.producer.transactions import Transactions
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import (
    ApiError,
    BufferExhausted,
    ClientClosed,
    ClientError,
    DeadlinePassed,
    IllegalState,
    TransactionFailed,
)
from tidelog.client.metrics import ProducerMetrics, ProducerPartitionMetrics

_log = logging.getLogger("tidelog.client.producer")


class ProducerEngine:
    """A running producer. Made in the loop it belongs to; `start` it first."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        joining: TransactionHandle | None = None,
        lock: AbstractContextManager[Any] | None = None,
        make_delivery: Callable[[ProducerBatch, int], Any] = Delivery,
    ) -> None:
        self.settings = settings
        self.is_closed = False
        self._closed_reason: ClientClosed | None = None
        self._loop = asyncio.get_running_loop()
        self._lock = nullcontext() if lock is None else lock
        self._topics: dict[str, None] = {}
        self._memory_waiters: deque[asyncio.Future[None]] = deque()
        self._client = NetworkClient(
            settings,
            in_flight_max=settings.max_in_flight_requests_per_connection,
            topics_wanted=lambda: list(self._topics),
            may_create_topics=settings.allow_auto_create_topics,
        )
        is_transactional = settings.transactional_id is not None or joining is not None
        sequence_tracker = SequenceTracker(is_transactional=is_transactional) if settings.enable_idempotence else None
        self._pool = BufferPool(settings.buffer_memory, settings.batch_size)
        self._accumulator = Accumulator(settings, self._pool, sequence_tracker)
        self._sender = Sender(
            settings, self._client, self._accumulator, sequence_tracker, self._lock, self._memory_freed
        )
        on_work = self._sender.wake if lock is None else self._sender.waker_for_threads(self._loop)
        self.sink = RecordSink(settings, self._accumulator, self._pool, on_work=on_work, make_delivery=make_delivery)
        self.transactions: Transactions | None = None
        if is_transactional and sequence_tracker is not None:
            self.transactions = Transactions(
                settings, self._client, sequence_tracker, on_change=self._transaction_changed, joined=joining
            )
            self._sender.transactions = self.transactions

    # Life.

    async def start(self) -> None:
        """Reach the cluster. Raises BootstrapFailed when none of the bootstrap servers answers."""
        self._client.on_metadata(self._learn)
        try:
            await self._client.start(self.settings.max_block_ms)
            self._client.report(self.metrics)
        except BaseException:
            await self._client.close()
            raise

    async def close(self, timeout_ms: int | None) -> None:
        """Finish within `timeout_ms`: an open transaction is aborted, everything else is sent. Then close."""
        if self.is_closed:
            return
        self.is_closed = True
        self.sink.appendable_topics.clear()
        limit_ms = self.settings.delivery_timeout_ms if timeout_ms is None else timeout_ms
        try:
            if limit_ms:
                async with asyncio.timeout(limit_ms / 1000):
                    await self._finish()
        except TimeoutError:
            _log.warning(
                "producer closed: %d batches were not stored within %d ms", len(self._accumulator.incomplete), limit_ms
            )
        finally:
            self._sender.fail_all(ClientClosed("the producer was closed before these records were stored"))
            self._sender.stop()
            self._memory_freed()
            await self._client.close()

    def refuse(self, reason: ClientClosed) -> None:
        """Take no more records; requests in flight are not awaited."""
        self.is_closed = True
        self._closed_reason = reason
        self.sink.appendable_topics.clear()

    async def _finish(self) -> None:
        if self.can_abort:
            with suppress(ClientError):
                await self.abort()
        self._accumulator.is_closing = True
        self._sender.wake()
        await self._all_done()

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send everything now, and return when all that was taken before this call is stored or given up."""
        self._accumulator.is_flushing += 1
        self._sender.wake()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._all_done()
        except TimeoutError:
            raise DeadlinePassed(f"not all records were stored within {timeout_ms} ms") from None
        finally:
            self._accumulator.is_flushing -= 1

    async def _all_done(self) -> None:
        with self._lock:
            batches = list(self._accumulator.incomplete)
        for batch in batches:
            await batch_done(batch)

    # Transactions.

    def begin(self) -> None:
        """Open a transaction."""
        assert self.transactions is not None
        self.transactions.begin()
        self._accumulator.leave_transaction()

    def join(self, handle: TransactionHandle) -> None:
        """Write in another transaction than the one joined before, in which nothing must be left to send."""
        with self._lock:
            self.check_may_send()
            if self._accumulator.incomplete:
                raise IllegalState("records of the current transaction are still being sent; call flush() first")
            if self.transactions is None:
                raise IllegalState("this producer cannot join transactions; create it with joining=")
            self.transactions.join(handle)

    async def commit(self) -> None:
        """Store everything, then end the transaction."""
        assert self.transactions is not None
        await self.transactions.end(is_commit=True, settle=self.flush)

    async def abort(self) -> None:
        """Drop what was not sent, wait for what was, then end the transaction."""
        assert self.transactions is not None
        await self.transactions.end(is_commit=False, settle=self._settle_abort)

    async def _settle_abort(self) -> None:
        dropped = TransactionFailed("the transaction was aborted before this record was sent")
        self._sender.fail_all(dropped, only_unsent=True)
        await self.flush()

    @property
    def can_abort(self) -> bool:
        """Whether there is a transaction of ours to abort."""
        return self.transactions is not None and self.transactions.can_abort

    def _transaction_changed(self) -> None:
        """Sending is allowed in an open transaction only; `append` sees this as an empty `appendable_topics`."""
        if self.transactions is not None and self.transactions.status.state not in (State.OPEN, State.JOINED):
            self.sink.appendable_topics.clear()
        self._sender.wake()

    # The way of a record that the short one (`sink.append`) did not take.

    def take_nowait(self, record: ProducerRecord, on_delivery: DeliveryCallback | None) -> Any:
        """A delivery, or None if the record would have to wait. The lock, if there is one, is held by the caller."""
        self.check_may_send()
        topic_queue = self._topic_queue(record.topic)
        if topic_queue is None:
            return None
        delivery = self.sink.place(topic_queue, *record[1:], on_delivery, self._client.now_ms())
        if isinstance(delivery, Missing):
            return None
        self._make_appendable(topic_queue)
        return delivery

    async def take(self, record: ProducerRecord, on_delivery: DeliveryCallback | None) -> Any:
        """A delivery, after waiting for whatever the record needs."""
        place = self.sink.place
        now_ms = self._client.now_ms
        return await self._place_waiting(
            record.topic,
            lambda topic_queue, had_turn: place(topic_queue, *record[1:], on_delivery, now_ms(), had_turn=had_turn),
        )

    async def take_batch(
        self, topic: str, partition: int, data: bytes | bytearray | memoryview, record_count: int
    ) -> Any:
        """The delivery of a whole encoded batch, after waiting for whatever it needs."""
        return await self._place_waiting(
            topic,
            lambda topic_queue, _: self.sink.place_batch(
                topic_queue, partition, data, record_count, self._client.now_ms()
            ),
        )

    async def _place_waiting(self, topic: str, place: Callable[[TopicQueue, bool], Any]) -> Any:
        """Try, and wait for what is missing, until max.block.ms have passed."""
        deadline_ms = self._client.now_ms() + self.settings.max_block_ms
        had_turn = False
        while True:
            with self._lock:
                self.check_may_send()
                topic_queue = self._topic_queue(topic)
                delivery = Missing.METADATA if topic_queue is None else place(topic_queue, had_turn)
                if topic_queue is not None and not isinstance(delivery, Missing):
                    self._make_appendable(topic_queue)
                    return delivery
            if topic_queue is None:
                await self.topic_queue(topic, deadline_ms - self._client.now_ms(), limit=self._max_block)
            elif delivery is Missing.TURN:
                # A caller that does nothing but send must let the loop run, once per batch: when the batch is full.
                await asyncio.sleep(0)
                had_turn = True
            elif delivery is Missing.METADATA:
                known = f"topic {topic_queue.topic!r} has only {topic_queue.partition_count} partitions"
                await self._refresh(known, deadline_ms, self._max_block, is_repeated=True)
            else:
                await self._await_memory(deadline_ms)

    def check_may_send(self) -> None:
        """Raise unless records may be sent now."""
        if self.is_closed:
            raise self._closed_reason or ClientClosed("the producer is closed")
        if self._sender.fatal is not None:
            raise self._sender.fatal
        if self.transactions is not None:
            self.transactions.status.check_may_send()

    # Metadata.

    async def topic_queue(self, topic: str, limit_ms: int | None = None, *, limit: str = "") -> TopicQueue:
        """The queue of a topic, once its partitions are known; `limit` is what an error calls `limit_ms`."""
        if limit_ms is None:
            limit_ms, limit = self.settings.max_block_ms, self._max_block
        try:
            return await self._find_topic_queue(topic, self._client.now_ms() + limit_ms, limit or f"{limit_ms} ms")
        finally:
            if topic not in self._accumulator.topic_queues:
                # Otherwise the client would request its metadata until the producer is closed, and keep an old error.
                self._topics.pop(topic, None)
                self._client.metadata.forget_topic(topic)

    async def refresh(self) -> None:
        """Ask for metadata now."""
        await self._client.refresh(self.settings.max_block_ms)

    async def _find_topic_queue(self, topic: str, deadline_ms: int, limit: str) -> TopicQueue:
        known = self._client.metadata.topic(topic)
        while True:
            topic_queue = self._topic_queue(topic)
            if topic_queue is not None:
                return topic_queue
            if known is not None and known.error_code in FINAL_TOPIC_ERRORS:
                code = error_code_of(known.error_code)
                raise ApiError(code, f"topic {topic!r}: {code.text}")
            reason = f" ({error_code_of(known.error_code).name})" if known is not None and known.error_code else ""
            problem = f"no metadata for topic {topic!r}{reason}"
            await self._refresh(problem, deadline_ms, limit, is_repeated=known is not None)
            known = self._client.metadata.topic(topic)

    def _topic_queue(self, topic: str) -> TopicQueue | None:
        if topic not in self._topics:
            check_topic(topic)
            self._topics[topic] = None
            if topic in self._accumulator.topic_queues:
                self._client.request_refresh()  # it was forgotten for a while
        topic_queue = self._accumulator.topic_queues.get(topic)
        return topic_queue if topic_queue is not None and topic_queue.partition_count else None

    def _make_appendable(self, topic_queue: TopicQueue) -> None:
        """Let the next records of this topic use `sink.append`."""
        if self.sink.takes_shortcuts:
            if topic_queue.sticky is None:
                topic_queue.sticky = choose_sticky(topic_queue, is_adaptive=False)
            self.sink.appendable_topics[topic_queue.topic] = topic_queue

    @property
    def _max_block(self) -> str:
        return f"max.block.ms={self.settings.max_block_ms}"

    async def _refresh(self, problem: str, deadline_ms: int, limit: str, *, is_repeated: bool) -> None:
        left_ms = deadline_ms - self._client.now_ms()
        if is_repeated:
            pause_ms = max(min(self.settings.retry_backoff_ms, left_ms), 0)
            await asyncio.sleep(pause_ms / 1000)
            left_ms -= pause_ms
        try:
            if left_ms > 0:
                await self._client.refresh(left_ms)
                return
        except DeadlinePassed:
            pass  # it only knows how much was left
        raise DeadlinePassed(f"{problem} after {limit}")

    def _learn(self) -> None:
        metadata = self._client.metadata
        with self._lock:
            self._forget_idle()
            for topic in metadata.topics.values():
                if not topic.error_code and topic.name in self._topics:
                    topic_queue = self._accumulator.learn(topic, metadata)
                    if topic_queue.sticky is not None and topic_queue.sticky.partition >= topic_queue.partition_count:
                        topic_queue.sticky = choose_sticky(topic_queue, is_adaptive=False)
        self._sender.wake()

    def _forget_idle(self) -> None:
        """Ask no more for topics that were not sent to for metadata.max.idle.ms; their sequences are kept."""
        horizon_ms = self._client.now_ms() - self.settings.metadata_max_idle_ms
        for topic, topic_queue in self._accumulator.topic_queues.items():
            if (
                topic_queue.last_used_ms
                and topic_queue.last_used_ms < horizon_ms
                and not any(q.batches for q in topic_queue.queues)
            ):
                self._topics.pop(topic, None)
                self.sink.appendable_topics.pop(topic, None)

    # Figures.

    def metrics(self) -> ProducerMetrics:
        """What this producer has done, and what waits."""
        with self._lock:
            queues = [queue for topic_queue in self._accumulator.topic_queues.values() for queue in topic_queue.queues]
        partitions = {
            queue.where: ProducerPartitionMetrics(
                leader_id=queue.leader_id,
                records_stored=queue.records_stored,
                bytes_stored=queue.bytes_stored,
                batches_stored=queue.batches_stored,
                batches_retried=queue.batches_retried,
                records_failed=queue.records_failed,
                batches_waiting=len(queue.batches),
            )
            for queue in queues
        }
        return ProducerMetrics(
            client_id=self.settings.client_id,
            age_s=self._client.age_s(),
            brokers=self._client.broker_metrics(),
            partitions=partitions,
            records_stored=sum(queue.records_stored for queue in queues),
            records_failed=sum(queue.records_failed for queue in queues),
            batches_incomplete=len(self._accumulator.incomplete),
            buffer_bytes_used=self._pool.total_bytes - self._pool.free_bytes,
            buffer_bytes_total=self._pool.total_bytes,
            sends_waiting=self._pool.waiting,
        )

    # Memory.

    async def _await_memory(self, deadline_ms: int) -> None:
        """Wait for free memory. While a call waits, every batch is due."""
        left_ms = deadline_ms - self._client.now_ms()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._memory_waiters.append(waiter)
        self._pool.waiting += 1
        self._sender.wake()
        try:
            async with asyncio.timeout(max(left_ms, 0) / 1000):
                await waiter
        except TimeoutError:
            raise BufferExhausted(
                f"buffer.memory={self._pool.total_bytes} stayed full for max.block.ms={self.settings.max_block_ms}"
            ) from None
        finally:
            self._pool.waiting -= 1

    def _memory_freed(self) -> None:
        waiters, self._memory_waiters = self._memory_waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
