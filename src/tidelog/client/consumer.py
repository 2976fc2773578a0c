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

import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Unpack

from tidelog.client.aio.consumer.caller_thread import CallerThread
from tidelog.client.aio.consumer.consumer import CLOSE_TIMEOUT_S, AsyncConsumer
from tidelog.client.aio.consumer.cursor import Cursor
from tidelog.client.aio.consumer.engine import ConsumerEngine
from tidelog.client.aio.consumer.errors import ConcurrentAccess
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords, FetchedBatches
from tidelog.client.arrow_parts import load
from tidelog.client.errors import ClientClosed
from tidelog.client.faces import Face, Result, blocking, called_there
from tidelog.client.metrics import ConsumerMetrics
from tidelog.client.serialization import K, V
from tidelog.client.types import ConsumerGroupMetadata, TopicPartition, milliseconds

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyarrow import Table

    from tidelog.client.aio.consumer.options import ConsumerOptions

# Long enough to cost nothing, short enough that Ctrl-C is seen soon where a wait cannot be interrupted.
_ITERATION_POLL_S = 1.0


class Consumer(Face[AsyncConsumer[K, V]], Generic[K, V]):
    """Reads records of topics, alone or as a member of a group.

    Keys are of type `K` and values of type `V`: bytes, or what deserializers make of them.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: "Unpack[ConsumerOptions[K, V]]") -> None:
        """Settings under Kafka's names: dotted in `config`, with underscores as keywords."""
        super().__init__(AsyncConsumer(config, **settings), "tidelog-consumer")
        self._caller = CallerThread(self._background)
        self._owner: int | None = None
        self._depth = 0
        self._is_closing = False
        self._is_closed = False
        self._engine = self._background.run_first(self._async._start_for_thread(self._caller.invoke))
        self._background.end_with(self, self._engine.drop)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """One thread at a time; a listener that runs inside its call may call again."""
        self._acquire()
        try:
            yield
        finally:
            self._release()

    def _wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._caller.run(work)

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

    subscribe = blocking(AsyncConsumer.subscribe)
    assign = blocking(AsyncConsumer.assign)
    unsubscribe = blocking(AsyncConsumer.unsubscribe)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to, or those the pattern matches now."""
        return self._async.subscription

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return self._async.assignment

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
        with self._calling():
            return self._poll_batches(timeout_s)

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
        with self._calling():
            fetched = self._poll_batches(timeout_s)
            try:
                return getattr(frames, form)(reading.to_table(fetched, columns), **options)
            except BaseException:
                self._caller.call(reading.put_back, self._engine, fetched)
                raise

    def _poll_batches(self, timeout_s: float) -> Sequence[FetchedBatches]:
        before = self._engine.unclaimed
        try:
            return self._caller.run(self._engine.poll_batches(milliseconds(timeout_s)))
        except BaseException:
            self._reclaim(before)
            raise

    def _reclaim(self, before: object) -> None:
        """What a signal's handler raised while a poll was under way must not cost the records that it took."""
        if self._background.is_alive:
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
                self._background.run(_rewind(engine))

    # Where to read.

    position = blocking(AsyncConsumer.position)
    seek = called_there(AsyncConsumer.seek)
    seek_to_beginning = called_there(AsyncConsumer.seek_to_beginning)
    seek_to_end = called_there(AsyncConsumer.seek_to_end)
    seek_to_committed = blocking(AsyncConsumer.seek_to_committed)
    pause = called_there(AsyncConsumer.pause)
    resume = called_there(AsyncConsumer.resume)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._async.paused

    # Committing.

    commit = blocking(AsyncConsumer.commit)
    commit_async = called_there(AsyncConsumer.commit_async)
    committed = blocking(AsyncConsumer.committed)

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member in its group, for a transactional producer that commits its offsets."""
        return self._async.group_metadata

    enforce_rebalance = called_there(AsyncConsumer.enforce_rebalance)

    # Asking.

    beginning_offsets = blocking(AsyncConsumer.beginning_offsets)
    end_offsets = blocking(AsyncConsumer.end_offsets)
    offsets_for_times = blocking(AsyncConsumer.offsets_for_times)
    partitions_for = blocking(AsyncConsumer.partitions_for)
    list_topics = blocking(AsyncConsumer.list_topics)

    def lag(self, partition: TopicPartition) -> int | None:
        """How far the position is behind the end; None while it is unknown. May be called at any time."""
        return self._async.lag(partition)

    def metrics(self) -> ConsumerMetrics:
        """Metrics of this consumer, its brokers and its partitions; `as_dict()` returns them as for JSON."""
        return self._background.call(self._async.metrics)

    # Ending.

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken. May be called from any thread."""
        if not self._is_closed:
            self._background.call_soon(self._engine.wakeup)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is automatic, leave the group and end; within `timeout_s`. A second call does nothing."""
        if self._is_closing:
            return
        with self._calling():
            self._is_closing = True
            try:
                self._wait_for(self._async.close(timeout_s))
            finally:
                self._is_closed = True
                self._background.close()


async def _rewind(engine: ConsumerEngine) -> None:
    if engine.cursor is not None:
        engine.rewind(engine.cursor)
