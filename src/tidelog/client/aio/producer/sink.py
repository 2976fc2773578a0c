"""Put records into batches: the hot path of `send`, and the slower path for all other records.

`append` handles nearly every call: bytes for a known topic, into an open batch with room. For any other record it
returns None, and `place` does all the steps: checks, headers, the choice of a partition, a new batch. If `place` would
have to wait, it returns the reason as `Missing`, and the caller waits.

`appendable_topics` holds the topics that `append` may use without another check. It is empty while sending is not
allowed (closed, outside a transaction, after an error), so the hot path needs no check of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from time import time_ns
from typing import Any, Final

from tidelog.client._native import speedups
from tidelog.client.aio.producer.accumulator import Accumulator, PartitionQueue, TopicQueue
from tidelog.client.aio.producer.batch import DeliveryCallback, ProducerBatch, estimated_bytes
from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.delivery import Delivery
from tidelog.client.aio.producer.partitioners import choose_sticky, own_partitioner
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.errors import RecordTooLarge, SerializationFailed
from tidelog.client.partitioner import partition_for_key
from tidelog.records.bulk import RECORD_OVERHEAD_BYTES
from tidelog.records.header import HEADER_BYTES, MAGIC, read_header

Headers = Sequence[tuple[str, bytes | None]]
GivenHeaders = Headers | Mapping[str, bytes | None] | None

_TIMESTAMP_MAX: Final = (1 << 63) - 1


class Missing(Enum):
    """Why a record cannot be appended now."""

    METADATA = "metadata"
    MEMORY = "memory"
    TURN = "turn"
    """A batch is full; the sender should run before the next batch is opened."""


class RecordSink:
    """Puts records into batches. Not safe to share between threads without a lock."""

    def __init__(
        self,
        settings: ProducerSettings,
        accumulator: Accumulator,
        pool: BufferPool,
        *,
        on_work: Callable[[], None],
        make_delivery: Callable[[ProducerBatch, int], Any] = Delivery,
    ) -> None:
        self.appendable_topics: Final[dict[str, TopicQueue]] = {}
        self._settings = settings
        self._accumulator = accumulator
        self._pool = pool
        self.on_work = on_work
        self._deliver = make_delivery
        self._own_partitioner = own_partitioner(settings.partitioner_class)
        self.takes_shortcuts = self._own_partitioner is None and not settings.partitioner_ignore_keys
        """Whether `append` may choose partitions, so that topics may become appendable."""
        self._record_bytes_max = min(settings.max_request_size, settings.buffer_memory)
        self.appender = self._new_appender()
        """`append_in_python` in C; None where that is not there."""
        self.append: Callable[..., Any] = self.appender or self.append_in_python

    def _new_appender(self) -> Callable[..., Any] | None:
        if speedups is None or not getattr(self._deliver, "is_batch_and_index", False):
            return None
        appender: Callable[..., Any] = speedups.Appender(
            self.appendable_topics, TopicQueue, PartitionQueue, ProducerBatch, self._deliver, RECORD_OVERHEAD_BYTES
        )
        return appender

    def append_in_python(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: GivenHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> Any:
        """A delivery if the record fits an open batch, else None, without any change."""
        topic_queue = self.appendable_topics.get(topic)
        if topic_queue is None or headers or partition is not None or on_delivery is not None:
            return None
        if key is None:
            queue = topic_queue.sticky
            size = RECORD_OVERHEAD_BYTES
        elif key.__class__ is bytes:
            queue = topic_queue.queues[partition_for_key(key, topic_queue.partition_count)]
            size = RECORD_OVERHEAD_BYTES + len(key)
        else:
            return None
        if value.__class__ is bytes:
            size += len(value)
        elif value is not None:
            return None
        batch = queue.open  # type: ignore[union-attr]
        if batch is None:
            return None
        size += batch.size_bytes
        if size > batch.limit_bytes:
            return None
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= _TIMESTAMP_MAX:
            return None
        batch.size_bytes = size
        records = batch.records
        index = len(records)
        records.append((timestamp_ms, key, value, ()))
        return self._deliver(batch, index)

    def place(
        self,
        topic_queue: TopicQueue,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: GivenHeaders,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
        now_ms: int,
        *,
        had_turn: bool = True,
    ) -> Any:
        """A delivery, or `Missing`. Raises SerializationFailed, RecordTooLarge or ValueError for an invalid record."""
        record = (
            time_ns() // 1_000_000 if timestamp_ms is None else _checked_timestamp(timestamp_ms),
            _as_bytes("key", key),
            _as_bytes("value", value),
            read_only_headers(headers),
        )
        size = estimated_bytes(record)
        if size + HEADER_BYTES > self._record_bytes_max:
            raise self._too_large(topic_queue.topic, size + HEADER_BYTES)
        queue = self._choose(topic_queue, record[1], record[2], partition, size)
        if queue is None:
            return Missing.METADATA
        batch = queue.open
        if batch is None or not self._has_room(batch, size):
            if batch is not None and not had_turn:
                return Missing.TURN
            batch = self._accumulator.begin_batch(queue, size, now_ms)
            if batch is None:
                return Missing.MEMORY
            topic_queue.last_used_ms = now_ms
            if queue is topic_queue.sticky:
                topic_queue.sticky_batch = batch
            self.on_work()
        index = len(batch.records)
        batch.records.append(record)
        batch.size_bytes += size
        if on_delivery is not None:
            batch.add_callback(index, on_delivery)
        return self._deliver(batch, index)

    def place_batch(
        self,
        topic_queue: TopicQueue,
        partition: int,
        data: bytes | bytearray | memoryview,
        record_count: int,
        now_ms: int,
    ) -> Any:
        """Delivery of an encoded batch's first record, or `Missing`. Raises ValueError if it is not one batch."""
        _check_batch(data, record_count)
        _check_partition(topic_queue.topic, partition)
        if len(data) > self._record_bytes_max:
            raise self._too_large(topic_queue.topic, len(data))
        if partition >= topic_queue.partition_count:
            return Missing.METADATA
        batch = self._accumulator.add_prebuilt(topic_queue.queues[partition], data, record_count, now_ms)
        if batch is None:
            return Missing.MEMORY
        topic_queue.last_used_ms = now_ms
        self.on_work()
        return self._deliver(batch, 0)

    def _choose(
        self, topic_queue: TopicQueue, key: bytes | None, value: bytes | None, partition: int | None, size: int
    ) -> PartitionQueue | None:
        """The queue of a record; None if the partition is unknown."""
        if partition is None:
            if self._own_partitioner is not None:
                partition = self._own_partitioner(topic_queue.topic, key, value, topic_queue.partition_count)
            elif key is not None and not self._settings.partitioner_ignore_keys:
                partition = partition_for_key(key, topic_queue.partition_count)
            else:
                return self._sticky(topic_queue, size)
        _check_partition(topic_queue.topic, partition)
        return topic_queue.queues[partition] if partition < topic_queue.partition_count else None

    def _sticky(self, topic_queue: TopicQueue, size: int) -> PartitionQueue:
        queue, last = topic_queue.sticky, topic_queue.sticky_batch
        is_spent = queue is None or queue.partition >= topic_queue.partition_count
        if queue is not None and last is not None:
            is_open = queue.open is last
            is_full = is_open and not self._has_room(last, size)
            if is_full or not is_open:
                topic_queue.sticky_bytes += last.size_bytes
                topic_queue.sticky_batch = None
                is_spent = is_spent or is_full or topic_queue.sticky_bytes >= self._settings.batch_size
        if queue is None or is_spent:
            queue = choose_sticky(topic_queue, is_adaptive=self._settings.partitioner_adaptive_partitioning_enable)
            topic_queue.sticky, topic_queue.sticky_batch, topic_queue.sticky_bytes = queue, queue.open, 0
        return queue

    def _has_room(self, batch: ProducerBatch, size: int) -> bool:
        return batch.size_bytes + size <= batch.limit_bytes or self._accumulator.widen(batch, size)

    def _too_large(self, topic: str, size: int) -> RecordTooLarge:
        name = "max.request.size" if self._record_bytes_max == self._settings.max_request_size else "buffer.memory"
        return RecordTooLarge(f"a record of {size} bytes for topic {topic!r} exceeds {name}={self._record_bytes_max}")


def read_only_headers(given: GivenHeaders) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as an immutable tuple."""
    if not given:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        headers = tuple([(name, content) for name, content in pairs])
    except (TypeError, ValueError):
        raise SerializationFailed(f"headers {given!r} are not pairs of text and bytes") from None
    for name, content in headers:
        # A consumer returns invalid UTF-8 as surrogates; they are encoded back to the same bytes.
        if not _is_text(name, "surrogateescape") or not (content is None or isinstance(content, bytes)):
            raise SerializationFailed(f"header {name!r}={content!r} is not a pair of text and bytes")
    return headers


def check_topic(topic: str) -> None:
    """Reject a name that no request can contain; brokers check whether the name is legal."""
    if not _is_text(topic):
        raise ValueError(f"{topic!r} is not a topic name")


def _is_text(given: Any, surrogates: str = "strict") -> bool:
    if not isinstance(given, str):
        return False
    try:
        given.encode("utf-8", surrogates)
    except UnicodeEncodeError:
        return False
    return True


def _check_batch(data: bytes | bytearray | memoryview, record_count: int) -> None:
    """Reject data that is not one whole batch of `record_count` records: later sequence numbers depend on the count."""
    if len(data) >= HEADER_BYTES:
        header = read_header(data)
        if header.magic == MAGIC and header.size_bytes == len(data) and header.record_count == record_count > 0:
            return
    raise ValueError(f"{len(data)} bytes are not one whole batch of magic {MAGIC} with {record_count} records")


def _check_partition(topic: str, partition: int) -> None:
    if not isinstance(partition, int) or partition < 0:
        raise ValueError(f"partition {partition!r} of {topic!r} must be a number, 0 or higher")


def _as_bytes(what: str, given: Any) -> bytes | None:
    if given is None or given.__class__ is bytes:
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise SerializationFailed(
        f"a {what} of type {type(given).__name__} is not bytes: encode it, or set {what}.serializer"
    )


def _checked_timestamp(timestamp_ms: int) -> int:
    if not isinstance(timestamp_ms, int) or not 0 <= timestamp_ms <= _TIMESTAMP_MAX:
        raise ValueError(f"timestamp {timestamp_ms!r} is not a number of milliseconds since 1970")
    return timestamp_ms
