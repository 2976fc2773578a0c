"""Records that wait to be sent: a queue of batches per partition, and when each is due.

    begin_batch   a new last batch of a partition's queue, if there is memory
    ready         which brokers have something due, and when to look again
    drain         the first batch of each due queue, sealed and numbered, up to a request's size
    requeue       back to the front, in the order of sequences
    expire        what has waited for delivery.timeout.ms

Pure: the time is an argument and nothing here waits. Records are added to the open batch by `RecordSink`, which is the
hot path; the sender's turn calls the rest. A synchronous producer guards both with one lock.
"""

from collections import deque
from typing import Final, NamedTuple

from tidelog.client.aio.metadata import MetadataCache, TopicMetadata
from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.compression_ratio import CompressionRatio
from tidelog.client.aio.producer.sequences import PartitionSequences, SequenceTracker
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.waits import Wait
from tidelog.client.backoff import Backoff
from tidelog.client.types import TopicPartition
from tidelog.records.header import HEADER_BYTES

NEVER: Final = 1 << 62
"""Milliseconds that do not pass."""

_FIRST_RESERVE_BYTES: Final = 16 * 1024
_SMALLEST_LIMIT_BYTES: Final = 512


class PartitionQueue:
    """The batches of one partition: the first goes out next, the last may still be open."""

    # fmt: off
    __slots__ = (
        "batches", "batches_retried", "batches_stored", "bytes_stored", "is_in_transaction", "is_muted",
        "leader_epoch", "leader_id", "open", "partition", "records_failed", "records_stored", "sequences", "topic",
    )
    # fmt: on

    def __init__(self, topic: str, partition: int, sequences: PartitionSequences | None) -> None:
        self.topic = topic
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The last batch, while it takes records."""
        self.leader_id = -1
        self.leader_epoch = -1
        self.is_muted = False
        self.is_in_transaction = False
        self.sequences = sequences
        self.records_stored = 0
        self.bytes_stored = 0
        self.batches_stored = 0
        self.batches_retried = 0
        self.records_failed = 0

    @property
    def where(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class TopicQueue:
    """A topic that records are sent to: its partitions' queues."""

    __slots__ = (
        "available",
        "batch_bytes_max",
        "last_used_ms",
        "partition_count",
        "queues",
        "sticky",
        "sticky_batch",
        "sticky_bytes",
        "topic",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.queues: list[PartitionQueue] = []
        self.available: list[PartitionQueue] = []
        """Those with a leader."""
        self.partition_count = 0
        """Current number of partitions; a recreated topic may have fewer than the old one has queues."""
        self.sticky: PartitionQueue | None = None
        """Where records without key go now."""
        self.sticky_batch: ProducerBatch | None = None
        self.sticky_bytes = 0
        """What closed batches have brought there since it was chosen."""
        self.last_used_ms = 0
        self.batch_bytes_max = 1 << 31
        """Beneath what this topic has found too large."""


class Ready(NamedTuple):
    """What `ready` found."""

    nodes: dict[int, list[PartitionQueue]]
    look_again_ms: int
    has_leaderless: bool


class Accumulator:
    """All queues of one producer."""

    def __init__(self, settings: ProducerSettings, pool: BufferPool, sequence_tracker: SequenceTracker | None) -> None:
        self.topic_queues: dict[str, TopicQueue] = {}
        self.incomplete: dict[ProducerBatch, None] = {}
        """Every batch that is not done, in the order of their beginning."""
        self.is_flushing = 0
        self.is_closing = False
        self._pool = pool
        self._sequence_tracker = sequence_tracker
        self._batch_bytes = settings.batch_size
        self._linger_ms = settings.linger_ms
        self._delivery_timeout_ms = settings.delivery_timeout_ms
        self._retry_backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._codec = settings.codec
        self._level = settings.codec_level
        self._ratio = CompressionRatio(settings.codec)
        self._keeps_order_by_muting = settings.max_in_flight_requests_per_connection == 1
        self._waiting: dict[PartitionQueue, None] = {}
        """Queues that hold batches."""
        self._drain_turn = 0

    # Topics.

    def learn(self, topic: TopicMetadata, metadata: MetadataCache) -> TopicQueue:
        """Create or refresh the queue of a topic after new metadata."""
        topic_queue = self.topic_queues.get(topic.name)
        if topic_queue is None:
            topic_queue = self.topic_queues[topic.name] = TopicQueue(topic.name)
        for index in range(len(topic_queue.queues), len(topic.partitions)):
            sequences = None if self._sequence_tracker is None else self._sequence_tracker.partition()
            topic_queue.queues.append(PartitionQueue(topic.name, index, sequences))
        for queue, partition in zip(topic_queue.queues, topic.partitions, strict=False):
            queue.leader_id = partition.leader_id if partition.leader_id in metadata.nodes else -1
            queue.leader_epoch = partition.leader_epoch
        topic_queue.partition_count = len(topic.partitions)
        topic_queue.available = [
            queue for queue in topic_queue.queues[: topic_queue.partition_count] if queue.leader_id >= 0
        ]
        return topic_queue

    # Adding.

    def begin_batch(self, queue: PartitionQueue, record_bytes: int, now_ms: int) -> ProducerBatch | None:
        """A new open batch at the end of `queue`; None if there is not the memory for it."""
        size_bytes = self._ratio.uncompressed(min(self._batch_bytes, self.topic_queues[queue.topic].batch_bytes_max))
        most_bytes = max(size_bytes - HEADER_BYTES, record_bytes)
        limit_bytes = min(most_bytes, max(_FIRST_RESERVE_BYTES, record_bytes))
        if not self._pool.reserve(limit_bytes):
            return None
        batch = ProducerBatch(queue.topic, queue.partition, now_ms, limit_bytes, self._codec, self._level)
        batch.most_bytes = most_bytes
        batch.reserved_bytes = limit_bytes
        queue.open = batch
        self._enter(queue, batch)
        return batch

    def widen(self, batch: ProducerBatch, record_bytes: int) -> bool:
        """Make room for another record in an open batch, if it may grow and there is the memory for it.

        Batches reserve memory as they grow: with thousands of partitions most of them never get full.
        """
        needed_bytes = batch.size_bytes + record_bytes
        if needed_bytes > batch.most_bytes:
            return False
        wanted_bytes = min(max(batch.limit_bytes * 2, needed_bytes), batch.most_bytes)
        if not self._pool.reserve(wanted_bytes - batch.limit_bytes):
            return False
        batch.limit_bytes = batch.reserved_bytes = wanted_bytes
        return True

    def add_prebuilt(
        self, queue: PartitionQueue, data: bytes | bytearray | memoryview, record_count: int, now_ms: int
    ) -> ProducerBatch | None:
        """A whole encoded batch at the end of `queue`; None if there is not the memory for it."""
        if not self._pool.reserve(len(data)):
            return None
        batch = ProducerBatch(queue.topic, queue.partition, now_ms, 0)
        batch.reserved_bytes = len(data)
        batch.seal_prebuilt(data, record_count)
        queue.open = None
        self._enter(queue, batch)
        return batch

    def _enter(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.batches.append(batch)
        self._waiting[queue] = None
        self.incomplete[batch] = None

    # Sending.

    def ready(self, now_ms: int) -> Ready:
        """Which queues are due, by the broker that leads them."""
        nodes: dict[int, list[PartitionQueue]] = {}
        look_again_ms = NEVER
        has_leaderless = False
        for queue in self._waiting:
            wait = self.wait_of(queue, now_ms)
            if wait is None:
                nodes.setdefault(queue.leader_id, []).append(queue)
            elif wait is Wait.BATCH_LEADER:
                has_leaderless = True
            elif wait is Wait.LINGER or wait is Wait.BATCH_RETRY:
                look_again_ms = min(look_again_ms, self._due_in_ms(queue, now_ms))
        return Ready(nodes, look_again_ms, has_leaderless)

    def wait_of(self, queue: PartitionQueue, now_ms: int) -> Wait | None:
        """What the first batch of a queue waits for; None if it may be sent now."""
        first = queue.batches[0]
        if queue.leader_id < 0:
            return Wait.BATCH_LEADER
        if queue.is_muted:
            return Wait.MUTED
        if self._due_in_ms(queue, now_ms) > 0:
            return Wait.BATCH_RETRY if first.attempts else Wait.LINGER
        if self._sequence_tracker is None:
            return None
        if self._sequence_tracker.is_transactional and not queue.is_in_transaction:
            return Wait.TRANSACTION
        assert queue.sequences is not None
        if self._sequence_tracker.may_send(queue.sequences, first):
            return None
        return Wait.IDENTITY if self._sequence_tracker.needs_identity else Wait.SEQUENCE

    def _due_in_ms(self, queue: PartitionQueue, now_ms: int) -> int:
        """How long the first batch of `queue` still has to wait; 0 or less when it is due."""
        first = queue.batches[0]
        if first.attempts:
            if first.leader_epoch < queue.leader_epoch:
                return 0  # there is a new leader: waiting would gain nothing (KIP-951)
            return first.last_attempt_ms + self._retry_backoff.after(first.attempts) - now_ms
        is_due = (
            queue.open is not first
            or first.size_bytes >= first.most_bytes
            or self.is_flushing
            or self.is_closing
            or self._pool.waiting
        )
        return 0 if is_due else first.created_ms + self._linger_ms - now_ms

    def outside_transaction(self) -> list[PartitionQueue]:
        """Queues with something to send whose partitions the transaction does not have yet."""
        return [queue for queue in self._waiting if not queue.is_in_transaction]

    def leave_transaction(self) -> None:
        """A transaction is over: the next one has no partitions."""
        for topic_queue in self.topic_queues.values():
            for queue in topic_queue.queues:
                queue.is_in_transaction = False

    def drain(self, queues: list[PartitionQueue], now_ms: int, limit_bytes: int) -> list[ProducerBatch]:
        """One batch of each queue that is due, until a request of `limit_bytes` is full.

        Each call begins with another queue, so that none starves when they do not all fit.
        """
        drained: list[ProducerBatch] = []
        size_bytes = 0
        self._drain_turn += 1
        count = len(queues)
        for step in range(count):
            queue = queues[(self._drain_turn + step) % count]
            if not queue.batches or self.wait_of(queue, now_ms) is not None:
                continue
            batch = queue.batches[0]
            if drained and size_bytes + batch.size_bytes > limit_bytes:
                break
            self._take(queue, batch)
            size_bytes += batch.encoded_bytes
            drained.append(batch)
        return drained

    def _take(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.batches.popleft()
        if not queue.batches:
            del self._waiting[queue]
        if queue.open is batch:
            queue.open = None
        if self._sequence_tracker is not None and queue.sequences is not None:
            self._sequence_tracker.assign(queue.sequences, batch)
        if not batch.is_sealed:
            batch.seal(self._pool.lend)
            self._ratio.observe(batch.raw_bytes, batch.encoded_bytes)
        batch.leader_epoch = queue.leader_epoch
        queue.is_muted = self._keeps_order_by_muting

    # After an answer.

    def queue_of(self, batch: ProducerBatch) -> PartitionQueue:
        """The queue a batch belongs to."""
        return self.topic_queues[batch.topic].queues[batch.partition]

    def unmute(self, batch: ProducerBatch) -> None:
        """The batch has its answer; the next one of its partition may go."""
        self.queue_of(batch).is_muted = False

    def requeue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Send it again, after the back-off, before all that come after it."""
        batch.attempts += 1
        batch.last_attempt_ms = now_ms
        queue = self.queue_of(batch)
        queue.batches_retried += 1
        self._insert(queue, batch)

    def divide(self, batch: ProducerBatch) -> list[ProducerBatch]:
        """Put smaller batches in the place of one that its topic found too large."""
        self._ratio.reset()
        topic_queue = self.topic_queues[batch.topic]
        topic_queue.batch_bytes_max = min(
            topic_queue.batch_bytes_max, max(batch.encoded_bytes // 2, _SMALLEST_LIMIT_BYTES)
        )
        parts = batch.split(self._batch_bytes)
        queue = topic_queue.queues[batch.partition]
        if self._sequence_tracker is not None and queue.sequences is not None:
            self._sequence_tracker.divided(queue.sequences, batch, parts)
        parts[0].reserved_bytes, batch.reserved_bytes = batch.reserved_bytes, 0
        for part in reversed(parts):
            self.incomplete[part] = None
            self._insert(queue, part)
        batch.divide(parts)
        self.finish(batch)
        return parts

    def _insert(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """In front, but behind retried batches that precede it in the sequence."""
        place = 0
        sequences = queue.sequences
        if sequences is not None and batch in sequences.in_flight:
            order = {each: index for index, each in enumerate(sequences.in_flight)}
            mine = order[batch]
            while place < len(queue.batches) and order.get(queue.batches[place], mine) < mine:
                place += 1
        queue.batches.insert(place, batch)
        self._waiting[queue] = None

    def finish(self, batch: ProducerBatch, *, buffer_is_free: bool = True) -> None:
        """The batch is done: give back its memory. A buffer that a socket may still read from is left to it."""
        self.incomplete.pop(batch, None)
        buffer, batch.buffer = batch.buffer, None
        if isinstance(buffer, bytearray) and buffer_is_free:
            self._pool.take_back(buffer)
        self._pool.release(batch.reserved_bytes)
        batch.reserved_bytes = 0

    # Giving up.

    def expire(self, now_ms: int) -> list[ProducerBatch]:
        """Take out batches that wait for longer than delivery.timeout.ms. The oldest are in front of their queues."""
        expired: list[ProducerBatch] = []
        horizon_ms = now_ms - self._delivery_timeout_ms
        for queue in list(self._waiting):
            while queue.batches and queue.batches[0].created_ms <= horizon_ms:
                expired.append(self._remove_first(queue))
        return expired

    def expiry_in_ms(self, now_ms: int) -> int:
        """When `expire` will next find something."""
        oldest = next(iter(self.incomplete), None)
        return NEVER if oldest is None else max(oldest.created_ms + self._delivery_timeout_ms - now_ms, 0)

    def take_all(self, *, only_unsent: bool = False) -> list[ProducerBatch]:
        """Empty the queues: of everything, or (`only_unsent`) of what has no sequence yet."""
        taken: list[ProducerBatch] = []
        for queue in list(self._waiting):
            kept = [batch for batch in queue.batches if only_unsent and batch.has_sequence]
            taken += [batch for batch in queue.batches if batch not in kept]
            queue.batches = deque(kept)
            queue.open = None
            if not kept:
                del self._waiting[queue]
        return taken

    def _remove_first(self, queue: PartitionQueue) -> ProducerBatch:
        batch = queue.batches.popleft()
        if not queue.batches:
            del self._waiting[queue]
        if queue.open is batch:
            queue.open = None
        return batch
