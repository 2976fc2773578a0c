"""The asyncio consumer.

    async with AsyncConsumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}) as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            ...

Only one task may use it at a time; a second one gets ConcurrentAccess. Times are in seconds.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from tidelog.client.aio.consumer import queries
from tidelog.client.aio.consumer.async_commits import CommitCallback
from tidelog.client.aio.consumer.cursor import Cursor
from tidelog.client.aio.consumer.engine import ConsumerEngine, make_hooks
from tidelog.client.aio.consumer.errors import ConcurrentAccess
from tidelog.client.aio.consumer.listeners import Invoke, RebalanceListener, call_here
from tidelog.client.aio.consumer.offset_reset import EARLIEST, LATEST
from tidelog.client.aio.consumer.settings import load_consumer_settings
from tidelog.client.aio.consumer.types import (
    ConsumerRecord,
    ConsumerRecords,
    FetchedBatches,
    OffsetAndTimestamp,
)
from tidelog.client.aio.metadata import PartitionMetadata
from tidelog.client.arrow_parts import load
from tidelog.client.errors import ClientClosed, IllegalState
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

    from tidelog.client.aio.consumer.options import ConsumerOptions

CLOSE_TIMEOUT_S = 30.0
_ITERATION_POLL_MS = 60_000


class AsyncConsumer(Generic[K, V]):
    """Reads records of topics, alone or as a member of a group.

    Keys are of type `K` and values of type `V`: bytes, or what deserializers make of them. It can be made anywhere, and
    belongs to the loop in which it is called first.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: "Unpack[ConsumerOptions[K, V]]") -> None:
        """Settings under Kafka's names: dotted in `config`, with underscores as keywords."""
        self._settings = load_consumer_settings(config, settings)
        self._hooks = make_hooks(self._settings)
        self._running: ConsumerEngine | None = None
        self._owner: object = None
        self._current_user: Callable[[], object] = asyncio.current_task
        self._invoke: Invoke = call_here
        self._depth = 0
        self._is_closing = False
        self._is_closed = False

    async def start(self) -> Self:
        """Reach the cluster; `async with` calls this. Raises BootstrapFailed when no bootstrap server answers."""
        with self._serving() as engine:
            try:
                await engine.start()
            except BaseException:
                self._running = None
                await engine.drop()
                raise
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _engine(self) -> ConsumerEngine:
        if self._running is None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                raise IllegalState("this consumer was not started, and no event loop is running to start it") from None
            self._running = engine = ConsumerEngine(self._settings, self._hooks, self._invoke)
            engine.client.report(partial(queries.metrics, engine))
        return self._running

    async def _start_for_thread(self, invoke: Invoke) -> ConsumerEngine:
        """Start for `Consumer`: it has one thread call at a time, and `invoke` runs listeners in that thread."""
        self._current_user, self._invoke = _the_thread, invoke
        return self._engine

    @contextmanager
    def _serving(self) -> Iterator[ConsumerEngine]:
        """One task at a time; a listener that runs inside the task's call may call again."""
        if self._is_closed:
            raise ClientClosed("this consumer is closed")
        engine = self._engine
        user = self._current_user()
        if self._owner is not None and self._owner is not user:
            assert isinstance(self._owner, asyncio.Task)
            raise ConcurrentAccess(
                f"a consumer can be used by one task at a time; {self._owner.get_name()} is using it"
            )
        self._owner = user
        self._depth += 1
        try:
            yield engine
        finally:
            self._depth -= 1
            if not self._depth:
                self._owner = None

    # What to read.

    async def subscribe(
        self,
        topics: Collection[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics, by name or all whose whole name matches `pattern`, as a member of the group."""
        with self._serving() as engine:
            if pattern is not None:
                await engine.subscribe_pattern(pattern, listener)
            else:
                await engine.subscribe(topics, listener)

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, without group assignment."""
        with self._serving() as engine:
            await engine.assign(as_partitions(partitions))

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        with self._serving() as engine:
            await engine.unsubscribe()

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to, or those the pattern matches now."""
        return frozenset() if self._running is None else self._running.subscription.topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset() if self._running is None else frozenset(self._running.subscription.partitions)

    # Reading.

    async def poll(self, timeout_s: float = 1.0) -> ConsumerRecords[K, V]:
        """Records as soon as there are some, at most max.poll.records; none when `timeout_s` has passed."""
        with self._serving() as engine:
            # Other tasks, heartbeats and fetches among them, get a turn even if there is always something to return.
            await asyncio.sleep(0)
            return await engine.poll(milliseconds(timeout_s))

    async def poll_batches(self, timeout_s: float = 1.0) -> Sequence[FetchedBatches]:
        """The same without decoding: whole record batches."""
        with self._serving() as engine:
            await asyncio.sleep(0)
            return await engine.poll_batches(milliseconds(timeout_s))

    async def poll_arrow(self, timeout_s: float = 1.0, columns: Sequence[str] | None = None) -> "Table":
        """The same as an Arrow table, decoded in a thread; only `columns` if given. Needs `tidelog[arrow]`.

        Columns are those of `tidelog.client.arrow.schema`. Deserializers and interceptors are not called. What
        cannot be decoded is not passed over: the positions are left where they were.
        """
        return await self._poll_table(timeout_s, columns, "as_it_is")

    async def poll_pandas(
        self, timeout_s: float = 1.0, columns: Sequence[str] | None = None, *, text: bool = False
    ) -> "pd.DataFrame":
        """What `poll_arrow` returns, as a pandas DataFrame; keys and values as text if they are. `tidelog[pandas]`."""
        return await self._poll_table(timeout_s, columns, "to_pandas", text=text)

    async def poll_polars(
        self, timeout_s: float = 1.0, columns: Sequence[str] | None = None, *, text: bool = False
    ) -> "pl.DataFrame":
        """What `poll_arrow` returns, as a Polars DataFrame; keys and values as text if they are. `tidelog[polars]`."""
        frame: pl.DataFrame = await self._poll_table(timeout_s, columns, "to_polars", text=text)
        return frame

    async def _poll_table(self, timeout_s: float, columns: Sequence[str] | None, form: str, **options: bool) -> Any:
        """Poll, and make a table of it by a function of `frames`, in a thread."""
        reading, frames = load("reading"), load("frames")
        with self._serving() as engine:
            await asyncio.sleep(0)
            fetched = await engine.poll_batches(milliseconds(timeout_s))

            def make() -> Any:
                return getattr(frames, form)(reading.to_table(fetched, columns), **options)

            try:
                return await asyncio.to_thread(make)
            except BaseException:
                reading.put_back(engine, fetched)
                raise

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Records one by one, for ever. Records not taken when the loop ends are read again."""
        engine = self._engine
        try:
            while True:
                with self._serving():
                    await asyncio.sleep(0)
                    cursor = Cursor(await engine.poll(_ITERATION_POLL_MS))
                engine.cursor = cursor
                for record in cursor:
                    yield record
        finally:
            if engine.cursor is not None:
                engine.rewind(engine.cursor)

    # Where to read.

    async def position(self, partition: TopicPartition, timeout_s: float | None = None) -> int:
        """The offset of the next record to be returned."""
        with self._serving() as engine:
            return await engine.position(partition, self._within(timeout_s))

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read from `offset` with the next poll."""
        with self._serving() as engine:
            engine.seek(partition, as_place(offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read from the first record there is; all assigned partitions if none is named."""
        with self._serving() as engine:
            engine.seek_by(as_partitions(partitions), EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read from the end; all assigned partitions if none is named."""
        with self._serving() as engine:
            engine.seek_by(as_partitions(partitions), LATEST)

    async def seek_to_committed(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Read again from what the group has committed; all assigned partitions if none is named.

        Where nothing is committed, auto.offset.reset decides. Returns what was committed.
        """
        with self._serving() as engine:
            return await engine.seek_to_committed(as_partitions(partitions), self._within(timeout_s))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        with self._serving() as engine:
            engine.pause(as_partitions(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        with self._serving() as engine:
            engine.resume(as_partitions(partitions))

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        states = () if self._running is None else self._running.subscription
        return frozenset(state.topic_partition for state in states if state.is_paused)

    # Committing.

    async def commit(self, offsets: Places | None = None, timeout_s: float | None = None) -> None:
        """Commit and wait: `offsets`, or all that polls have returned."""
        with self._serving() as engine:
            await engine.commit(None if offsets is None else as_places(offsets), self._within(timeout_s))

    def commit_async(self, offsets: Places | None = None, callback: CommitCallback | None = None) -> None:
        """Commit and go on. `callback(offsets, error)` is called inside a later call of this consumer."""
        with self._serving() as engine:
            engine.commit_async(None if offsets is None else as_places(offsets), callback)

    async def committed(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What the group has committed for these partitions; those without a commit are left out."""
        with self._serving() as engine:
            return await engine.committed(as_partitions(partitions), self._within(timeout_s))

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member in its group, for a transactional producer that commits its offsets."""
        return self._engine.demand_group().membership.metadata

    def enforce_rebalance(self, reason: str = "enforced by the application") -> None:
        """Have the group rebalance with the next poll."""
        with self._serving() as engine:
            engine.demand_group().request_rejoin(reason)

    # Asking.

    async def beginning_offsets(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        with self._serving() as engine:
            return await queries.beginning_offsets(engine, as_partitions(partitions), self._within(timeout_s))

    async def end_offsets(
        self, *partitions: TopicPartition, timeout_s: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that may be read."""
        with self._serving() as engine:
            return await queries.end_offsets(engine, as_partitions(partitions), self._within(timeout_s))

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int], timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time; None where there is none."""
        with self._serving() as engine:
            return await queries.offsets_for_times(engine, times_ms, self._within(timeout_s))

    async def partitions_for(self, topic: str, timeout_s: float | None = None) -> Sequence[PartitionMetadata]:
        """The partitions of a topic; empty if there is no such topic."""
        with self._serving() as engine:
            return await queries.partitions_for(engine, topic, self._within(timeout_s))

    async def list_topics(self, timeout_s: float | None = None) -> dict[str, Sequence[PartitionMetadata]]:
        """All topics that this consumer may read."""
        with self._serving() as engine:
            return await queries.list_topics(engine, self._within(timeout_s))

    def lag(self, partition: TopicPartition) -> int | None:
        """How far the position is behind the end; None while it is unknown. May be called at any time."""
        return queries.lag(self._engine, partition)

    def metrics(self) -> ConsumerMetrics:
        """Metrics of this consumer, its brokers and its partitions; `as_dict()` returns them as for JSON."""
        return queries.metrics(self._engine)

    # Ending.

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken. Any task of the loop may call it."""
        self._engine.wakeup()

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is automatic, leave the group and end; within `timeout_s`. A second call does nothing."""
        if self._is_closing:
            return
        if self._running is None:
            self._is_closing = self._is_closed = True
            return
        with self._serving() as engine:
            self._is_closing = True
            try:
                await engine.close(milliseconds(timeout_s))
            finally:
                self._is_closed = True

    async def stop(self) -> None:
        """The counterpart of `start`: the same as `close`."""
        await self.close()

    def _within(self, timeout_s: float | None) -> int:
        return self._settings.default_api_timeout_ms if timeout_s is None else milliseconds(timeout_s)


def _the_thread() -> object:
    """Who calls the twin of a `Consumer`, which has let one thread through."""
    return _the_thread
