"""The consumer for programs without an event loop of their own.

    with Consumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...

The same as `AsyncConsumer`, which says more about each call. Heartbeats and fetches run in a background thread, so a
program that takes long over a record stays in its group. Listeners and callbacks of commits are called in the thread
that calls the consumer, deserializers and interceptors in the background thread. It serves one thread at a time; only
`wakeup` may come from another one.
"""

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from tidelog.client.aio.background import BackgroundLoop
from tidelog.client.aio.consumer import queries
from tidelog.client.aio.consumer.async_commits import CommitCallback
from tidelog.client.aio.consumer.caller_thread import CallerThread
from tidelog.client.aio.consumer.consumer import CLOSE_TIMEOUT_S
from tidelog.client.aio.consumer.cursor import Cursor
from tidelog.client.aio.consumer.engine import ConsumerEngine, make_hooks
from tidelog.client.aio.consumer.errors import ConcurrentAccess
from tidelog.client.aio.consumer.listeners import RebalanceListener
from tidelog.client.aio.consumer.offset_reset import EARLIEST, LATEST
from tidelog.client.aio.consumer.settings import load_consumer_settings
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords, FetchedBatches, OffsetAndTimestamp
from tidelog.client.aio.metadata import PartitionMetadata
from tidelog.client.arrow import load
from tidelog.client.errors import ClientClosed
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.serialization import K, V
from tidelog.client.types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    Places,
    TopicPartition,
    as_partitions,
    as_place,
    as_places,
    milliseconds,
)

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyarrow import Table

    from tidelog.client.options import ConsumerOptions

# Long enough to cost nothing, short enough that Ctrl-C is seen soon where a wait cannot be interrupted.
_ITERATION_POLL_S = 1.0


class Consumer(Generic[K, V]):
    """Reads records of topics, alone or as a member of a group.

    Keys are of type `K` and values of type `V`: bytes, or what deserializers make of them.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: "Unpack[ConsumerOptions[K, V]]") -> None:
        """Settings under Kafka's names: dotted in `config`, with underscores as keywords."""
        self._settings = load_consumer_settings(config, settings)
        self._hooks = make_hooks(self._settings)
        self._loop = BackgroundLoop("tidelog-consumer")
        self._caller = CallerThread(self._loop)
        self._owner: int | None = None
        self._depth = 0
        self._is_closing = False
        self._is_closed = False
        try:
            self._engine: ConsumerEngine = self._loop.run(self._make_engine())
        except BaseException:
            self._loop.close()
            raise
        self._loop.end_with(self, self._engine.drop)

    async def _make_engine(self) -> ConsumerEngine:
        engine = ConsumerEngine(self._settings, self._hooks, self._caller.invoke)
        engine.client.report(partial(queries.metrics, engine))
        return engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _serving(self) -> Iterator[ConsumerEngine]:
        """One thread at a time; a listener that runs inside its call may call again."""
        self._acquire()
        try:
            yield self._engine
        finally:
            self._release()

    def _acquire(self) -> None:
        if self._is_closed:
            raise ClientClosed("this consumer is closed")
        thread = threading.get_ident()
        if self._owner is not None and self._owner != thread:
            raise ConcurrentAccess(f"a consumer can be used by one thread at a time; thread {self._owner} is using it")
        self._owner = thread
        self._depth += 1

    def _release(self) -> None:
        self._depth = max(self._depth - 1, 0)
        if not self._depth:
            self._owner = None

    # What to read.

    def subscribe(
        self,
        topics: Collection[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, by name or all whose whole name matches `pattern`, as a member of the group."""
        with self._serving() as engine:
            if pattern is not None:
                self._caller.run(engine.subscribe_pattern(pattern, listener))
            else:
                self._caller.run(engine.subscribe(topics, listener))

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without group assignment."""
        with self._serving() as engine:
            self._caller.run(engine.assign(as_partitions(partitions)))

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        with self._serving() as engine:
            self._caller.run(engine.unsubscribe())

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to, or those the pattern matches now."""
        return self._engine.subscription.topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._engine.subscription.partitions)

    # Reading.

    def poll(self, timeout_s: float = 1.0) -> ConsumerRecords[K, V]:
        """Records as soon as there are some, at most max.poll.records; none when `timeout_s` has passed."""
        self._acquire()
        before = self._engine.unclaimed
        try:
            records = self._caller.run(self._engine.poll(milliseconds(timeout_s)))
            self._release()
            return records
        except BaseException:
            self._reclaim(before)
            self._release()
            raise

    def poll_batches(self, timeout_s: float = 1.0) -> Sequence[FetchedBatches]:
        """The same without decoding: whole record batches."""
        with self._serving() as engine:
            return self._poll_batches(engine, timeout_s)

    def poll_arrow(self, timeout_s: float = 1.0, columns: Sequence[str] | None = None) -> "Table":
        """The same as an Arrow table; only `columns` if given. Needs `tidelog[arrow]`.

        Columns are those of `tidelog.client.arrow.schema`. Deserializers and interceptors are not called. What
        cannot be decoded is not passed over: the positions are left where they were.
        """
        return self._poll_table(timeout_s, columns, "as_it_is")

    def poll_pandas(
        self, timeout_s: float = 1.0, columns: Sequence[str] | None = None, *, text: bool = False
    ) -> "pd.DataFrame":
        """What `poll_arrow` returns, as a pandas DataFrame; keys and values as text if they are. `tidelog[pandas]`."""
        return self._poll_table(timeout_s, columns, "to_pandas", text=text)

    def poll_polars(
        self, timeout_s: float = 1.0, columns: Sequence[str] | None = None, *, text: bool = False
    ) -> "pl.DataFrame":
        """What `poll_arrow` returns, as a Polars DataFrame; keys and values as text if they are. `tidelog[polars]`."""
        frame: pl.DataFrame = self._poll_table(timeout_s, columns, "to_polars", text=text)
        return frame

    def _poll_table(self, timeout_s: float, columns: Sequence[str] | None, form: str, **options: bool) -> Any:
        """Poll, and make a table of it by a function of `frames`."""
        reading, frames = load("reading"), load("frames")
        with self._serving() as engine:
            fetched = self._poll_batches(engine, timeout_s)
            try:
                return getattr(frames, form)(reading.to_table(fetched, columns), **options)
            except BaseException:
                self._caller.call(reading.put_back, engine, fetched)
                raise

    def _poll_batches(self, engine: ConsumerEngine, timeout_s: float) -> Sequence[FetchedBatches]:
        before = engine.unclaimed
        try:
            return self._caller.run(engine.poll_batches(milliseconds(timeout_s)))
        except BaseException:
            self._reclaim(before)
            raise

    def _reclaim(self, before: object) -> None:
        """What a signal's handler raised while a poll was under way must not cost the records that it took."""
        if self._loop.is_alive:
            self._caller.run(self._engine.reclaim(before))

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Records one by one, for ever. What was not taken when the loop is left is read again."""
        engine = self._engine
        try:
            while True:
                records = self.poll(_ITERATION_POLL_S)
                if records:
                    engine.cursor = cursor = Cursor(records)
                    yield from cursor
        finally:
            if engine.cursor is not None and not self._is_closed:
                self._loop.run(_rewind(engine))

    # Where to read.

    def position(self, partition: TopicPartition, timeout_s: float | None = None) -> int:
        """The offset of the next record to be returned."""
        with self._serving() as engine:
            return self._caller.run(engine.position(partition, self._within(timeout_s)))

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read from `offset` with the next poll."""
        with self._serving() as engine:
            self._caller.call(engine.seek, partition, as_place(offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read from the first record there is; all assigned partitions if none is named."""
        with self._serving() as engine:
            self._caller.call(engine.seek_by, as_partitions(partitions), EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read what comes from now on; all assigned partitions if none is named."""
        with self._serving() as engine:
            self._caller.call(engine.seek_by, as_partitions(partitions), LATEST)

    def seek_to_committed(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Read again from what the group has committed; all assigned partitions if none is named.

        Where nothing is committed, auto.offset.reset decides. Returns what was committed.
        """
        with self._serving() as engine:
            return self._caller.run(engine.seek_to_committed(as_partitions(partitions), self._within(timeout_s)))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        with self._serving() as engine:
            self._caller.call(engine.pause, as_partitions(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        with self._serving() as engine:
            self._caller.call(engine.resume, as_partitions(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(state.topic_partition for state in self._engine.subscription if state.is_paused)

    # Committing.

    def commit(self, offsets: Places | None = None, timeout_s: float | None = None) -> None:
        """Commit and wait: `offsets`, or all that polls have returned."""
        with self._serving() as engine:
            self._caller.run(engine.commit(None if offsets is None else as_places(offsets), self._within(timeout_s)))

    def commit_async(self, offsets: Places | None = None, callback: CommitCallback | None = None) -> None:
        """Commit and go on. `callback(offsets, error)` is called inside a later call of this consumer."""
        with self._serving() as engine:
            self._caller.call(engine.commit_async, None if offsets is None else as_places(offsets), callback)

    def committed(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What the group has committed for these partitions; those without a commit are left out."""
        with self._serving() as engine:
            return self._caller.run(engine.committed(as_partitions(partitions), self._within(timeout_s)))

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member in its group, for a transactional producer that commits its offsets."""
        return self._engine.demand_group().membership.metadata

    def enforce_rebalance(self, reason: str = "enforced by the application") -> None:
        """Have the group rebalance with the next poll."""
        with self._serving() as engine:
            self._caller.call(engine.demand_group().request_rejoin, reason)

    # Asking.

    def beginning_offsets(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        with self._serving() as engine:
            return self._caller.run(
                queries.beginning_offsets(engine, as_partitions(partitions), self._within(timeout_s))
            )

    def end_offsets(self, *partitions: TopicPartition, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that may be read."""
        with self._serving() as engine:
            return self._caller.run(queries.end_offsets(engine, as_partitions(partitions), self._within(timeout_s)))

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        with self._serving() as engine:
            return self._caller.run(queries.offsets_for_times(engine, times_ms, self._within(timeout_s)))

    def partitions_for(self, topic: str, timeout_s: float | None = None) -> Sequence[PartitionMetadata]:
        """The partitions of a topic; empty if there is no such topic."""
        with self._serving() as engine:
            return self._caller.run(queries.partitions_for(engine, topic, self._within(timeout_s)))

    def list_topics(self, timeout_s: float | None = None) -> dict[str, Sequence[PartitionMetadata]]:
        """All topics that this consumer may read."""
        with self._serving() as engine:
            return self._caller.run(queries.list_topics(engine, self._within(timeout_s)))

    def lag(self, partition: TopicPartition) -> int | None:
        """How far the position is behind the end; None while it is unknown. May be called at any time."""
        return queries.lag(self._engine, partition)

    def metrics(self) -> ConsumerMetrics:
        """Metrics of this consumer, its brokers and its partitions; `as_dict()` returns them as for JSON."""
        return self._loop.call(partial(queries.metrics, self._engine))

    # Ending.

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken. May be called from any thread."""
        if not self._is_closed:
            self._loop.call_soon(self._engine.wakeup)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is automatic, leave the group and end; within `timeout_s`. A second call does nothing."""
        if self._is_closing:
            return
        with self._serving() as engine:
            self._is_closing = True
            try:
                self._caller.run(engine.close(milliseconds(timeout_s)))
            finally:
                self._is_closed = True
                self._loop.close()

    def _within(self, timeout_s: float | None) -> int:
        return self._settings.default_api_timeout_ms if timeout_s is None else milliseconds(timeout_s)


async def _rewind(engine: ConsumerEngine) -> None:
    if engine.cursor is not None:
        engine.rewind(engine.cursor)
