"""One run of a retrying consumer: polls, handlers and commits under asyncio. The pure modules beside it decide.

One task polls and starts handlers, another commits. Both use the state below only between two awaits, or under the lock
that a commit holds: partitions are not given up while a commit is under way.
"""

import asyncio
import contextvars
import inspect
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from tidelog.client.aio.consumer.consumer import AsyncConsumer
from tidelog.client.aio.consumer.errors import CommitFailed, Woken
from tidelog.client.aio.consumer.listeners import RebalanceListener
from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords
from tidelog.client.errors import ClientError
from tidelog.client.retry.headers import Origin
from tidelog.client.retry.lanes import Lanes
from tidelog.client.retry.ledger import Entry, Ledger
from tidelog.client.retry.order import KeyAddress, KeyOrder, key_name, key_prefix
from tidelog.client.retry.policy import TOPICS, Forward, Ladder, Received, receive
from tidelog.client.retry.waiting_numbers import latest_values
from tidelog.client.retry.writer import Writer
from tidelog.client.serialization import Deserialize
from tidelog.client.types import TopicPartition

LOG: Final = logging.getLogger("tidelog.client.retry")

_POLL_S: Final = 0.5
_COMMIT_PAUSE_S: Final = 0.02
_FAILED_COMMIT_PAUSE_S: Final = 0.2
_COMMITS_FAIL_S_MAX: Final = 120.0

Handler = Callable[[ConsumerRecord[Any, Any]], Any]

attempt_now: Final[contextvars.ContextVar[int]] = contextvars.ContextVar("tidelog-retry-attempt", default=1)


class Store(Protocol):
    """Where records wait outside of the cluster."""

    async def put(self, forwards: Sequence[Forward]) -> None:
        """Keep records until their time; they are safe when this returns. Again the same ones: nothing changes."""
        ...


@dataclass(slots=True)
class RetryCounts:
    """What a run has done."""

    handled: int = 0
    failed: int = 0
    retried: int = 0
    dead_letters: int = 0
    waited_for_key: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """What a run does: the ladder of each topic, and how records are handled."""

    group: str
    ladders: Mapping[str, Ladder]
    handler: Handler
    key_deserializer: Deserialize | None
    value_deserializer: Deserialize | None
    concurrency: int
    records_max: int
    stop_timeout_s: float
    is_reset_earliest: bool

    @property
    def retry_topics(self) -> frozenset[str]:
        """The topics that are read besides those of the application, which have no records but retries."""
        return frozenset(name for ladder in self.ladders.values() for name in ladder.retry_topics) - self.ladders.keys()

    @property
    def keeps_order(self) -> bool:
        """Whether records wait behind others of their key."""
        return any(ladder.policy.keep_order_by_key for ladder in self.ladders.values())

    @property
    def waits_here(self) -> bool:
        """Whether retry topics have records that are not due."""
        return any(ladder.policy.store == TOPICS for ladder in self.ladders.values())


class _Work(NamedTuple):
    entry: Entry
    received: Received
    record: ConsumerRecord[bytes, bytes]

    @property
    def address(self) -> KeyAddress | None:
        key = self.received.key
        return None if key is None else KeyAddress(self.received.origin.topic, self.received.origin.partition, key)

    @property
    def sequence(self) -> int | None:
        return None if self.received.trail is None else self.received.trail.sequence


class Run(RebalanceListener):
    """Serves until `stop`. Made for one use."""

    def __init__(
        self,
        job: Job,
        consumer: AsyncConsumer[bytes, bytes],
        writer: Writer,
        open_reader: Callable[[str], AsyncConsumer[bytes, bytes]],
        store: Store | None = None,
    ) -> None:
        self._job = job
        self._consumer = consumer
        self._writer = writer
        self._open_reader = open_reader
        self._store = store
        self.counts = RetryCounts()
        self._ledger = Ledger()
        self._lanes: Lanes[_Work] = Lanes(job.concurrency)
        self._order = KeyOrder() if job.keeps_order else None
        self._ordered: set[tuple[str, int]] = set()
        self._tasks: dict[asyncio.Task[None], TopicPartition] = {}
        self._held_until_ms: dict[TopicPartition, int] = {}
        self._lock = asyncio.Lock()
        self._has_finished = asyncio.Event()
        self._is_stopping = False
        self._is_polling = False
        self._is_full = False
        self._is_async = is_async(job.handler)
        self._threads = None if self._is_async else ThreadPoolExecutor(job.concurrency, "tidelog-retry")

    def stop(self) -> None:
        """Begin no other record; `serve` returns when those that run are finished and committed."""
        self._is_stopping = True
        if self._is_polling:
            self._consumer.wakeup()

    async def serve(self) -> None:
        """Read and handle records until `stop`, or until an error that no retry can mend."""
        topics = [*self._job.ladders, *sorted(self._job.retry_topics)]
        await self._consumer.subscribe(topics, listener=self)
        commits = asyncio.create_task(self._commit_always(), name="tidelog-retry-commits")
        try:
            while not self._is_stopping:
                if commits.done():
                    commits.result()
                await self._poll_once()
            await self._finish_running(list(self._tasks))
        finally:
            self._lanes.drop(lambda _: True)
            for task in self._tasks:
                task.cancel()
            async with self._lock:  # not in the middle of a transaction, whose outcome would not be known
                commits.cancel()
            with suppress(asyncio.CancelledError, ClientError):
                await commits
            await self._flush_or_warn()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    # Reading.

    async def _poll_once(self) -> None:
        self._set_pauses()
        wait_s = _POLL_S
        if self._held_until_ms:
            wait_s = min(wait_s, max(0.001, (min(self._held_until_ms.values()) - _now_ms()) / 1000))
        self._is_polling = True
        try:
            records = await self._consumer.poll(wait_s)
        except Woken:
            return
        finally:
            self._is_polling = False
        await self._take(records)
        self._begin()

    def _set_pauses(self) -> None:
        """Read nothing while too much is in memory, and no partition whose next record is not due."""
        now_ms = _now_ms()
        for each in [each for each, due_ms in self._held_until_ms.items() if due_ms <= now_ms]:
            del self._held_until_ms[each]
        assigned, paused = self._consumer.assignment, self._consumer.paused
        self._is_full = len(self._ledger) >= self._job.records_max or (self._is_full and not self._has_room)
        wanted = assigned if self._is_full else assigned & self._held_until_ms.keys()
        if wanted - paused:
            self._consumer.pause(*(wanted - paused))
        if paused - wanted:
            self._consumer.resume(*(paused - wanted))

    @property
    def _has_room(self) -> bool:
        return len(self._ledger) <= self._job.records_max // 2

    async def _take(self, records: ConsumerRecords[bytes, bytes]) -> None:
        now_ms = _now_ms()
        for partition, rows in records.items():
            is_retry = partition.topic in self._job.retry_topics
            next_offset = records.next_offsets[partition].offset
            taken: list[tuple[Received, ConsumerRecord[bytes, bytes]]] = []
            for row in rows:
                found = _received(row, self._job.group, is_retry=is_retry)
                if found is None or found.origin.topic not in self._job.ladders:
                    continue
                if self._job.waits_here and found.trail is not None and (found.trail.due_ms or 0) > now_ms:
                    next_offset = row.offset
                    self._held_until_ms[partition] = found.trail.due_ms or 0
                    self._consumer.seek(partition, row.offset)
                    break
                taken.append((found, row))
            entries = self._ledger.take(partition, [row.offset for _, row in taken], next_offset)
            for entry, (found, row) in zip(entries, taken, strict=True):
                await self._load_order(found.origin)
                self._lanes.add(
                    None if found.key is None else (found.origin.topic, found.key), _Work(entry, found, row)
                )
            if not entries:
                self._has_finished.set()

    # Handling.

    def _begin(self) -> None:
        while (found := self._lanes.begin()) is not None:
            lane, work = found
            if self._must_wait(work):
                self._park(work)
                self._lanes.finish(lane)
                continue
            task = asyncio.create_task(self._handle(work))
            self._tasks[task] = work.entry.partition
            task.add_done_callback(lambda task, lane=lane: self._ended(task, lane))  # type: ignore[misc]

    def _ended(self, task: "asyncio.Task[None]", lane: object) -> None:
        del self._tasks[task]
        self._lanes.finish(lane)
        if not self._is_stopping:
            self._begin()
        if not task.cancelled() and task.exception() is not None:
            LOG.error("a record could not be accounted for", exc_info=task.exception())
            self.stop()

    async def _handle(self, work: _Work) -> None:
        attempt_now.set(work.received.attempt)
        try:
            await self._call(work)
        except Exception as error:  # noqa: BLE001 - code of the application; the record is tried again
            self._failed(work, error)
        else:
            self.counts.handled += 1
            self._settle(work, ())
        self._has_finished.set()

    async def _call(self, work: _Work) -> None:
        record = _as_first_read(work, self._job)
        if self._is_async:
            await self._job.handler(record)
        else:
            context = contextvars.copy_context()
            await asyncio.get_running_loop().run_in_executor(self._threads, context.run, self._job.handler, record)

    def _failed(self, work: _Work, error: Exception) -> None:
        ladder = self._job.ladders[work.received.origin.topic]
        forward = ladder.after_failure(work.received, error, _now_ms())
        self.counts.failed += 1
        if forward.delay_ms is None:
            self.counts.dead_letters += 1
            self._settle(work, (forward,))
            return
        self.counts.retried += 1
        if self._order is not None and work.address is not None:
            change = self._order.wait(work.address, work.sequence, work.received.attempt)
            forward = ladder.numbered(work.received, forward, change.sequence)
            work.entry.changes = (change,)
        work.entry.forwards = (forward,)

    def _settle(self, work: _Work, forwards: tuple[Forward, ...]) -> None:
        """The record waits no longer."""
        if self._order is not None and work.address is not None:
            change = self._order.release(work.address, work.sequence)
            work.entry.changes = () if change is None else (change,)
        work.entry.forwards = forwards

    # Order by key.

    def _must_wait(self, work: _Work) -> bool:
        return (
            self._order is not None
            and work.address is not None
            and not self._order.is_turn(work.address, work.sequence)
        )

    def _park(self, work: _Work) -> None:
        assert self._order is not None, "only where order is kept"
        assert work.address is not None, "records without a key wait for none"
        ladder = self._job.ladders[work.received.origin.topic]
        head_attempts = self._order.head_attempts(work.address)
        change = self._order.wait(work.address, work.sequence)
        work.entry.changes = (change,)
        work.entry.forwards = (ladder.behind(work.received, head_attempts, change.sequence, _now_ms()),)
        self.counts.waited_for_key += 1
        self._has_finished.set()

    async def _load_order(self, origin: Origin) -> None:
        """Read which keys of a partition have waiting records, when its first record arrives.

        Its position is known by then, so that all transactions which the member before has begun are ended.
        """
        where = (origin.topic, origin.partition)
        if self._order is None or where in self._ordered:
            return
        topic = self._job.ladders[origin.topic].keys_topic
        prefix = key_prefix(self._job.group, origin.topic)
        found = await _read_to_end(self._open_reader, TopicPartition(topic, origin.partition))
        self._order.load(*where, latest_values(found, prefix))
        self._ordered.add(where)

    # Committing.

    async def _commit_always(self) -> None:
        failing_since: float | None = None
        while True:
            await self._has_finished.wait()
            self._has_finished.clear()
            try:
                await self._flush()
            except ClientError as error:
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > _COMMITS_FAIL_S_MAX:
                    raise
                LOG.warning("a commit of group %s failed and is repeated: %s", self._job.group, error)
                self._has_finished.set()
                await asyncio.sleep(_FAILED_COMMIT_PAUSE_S)
            else:
                failing_since = None
                await asyncio.sleep(_COMMIT_PAUSE_S)

    async def _flush(self) -> None:
        """Commit all that is finished, with what it leads to."""
        async with self._lock:
            commit = self._ledger.committable()
            if commit is None:
                return
            member = self._consumer.group_metadata
            if member.generation_id < 0:
                raise CommitFailed("the group is rebalancing")
            forwards = list(commit.forwards)
            if self._store is not None:
                await self._store.put([each for each in forwards if each.delay_ms is not None])
                forwards = [each for each in forwards if each.delay_ms is None]
            if self._order is not None:
                forwards += [self._key_record(*each) for each in self._order.states(commit.changes).items()]
            await self._writer.write(forwards, commit.places, member)
            self._ledger.committed(commit)
            if self._is_full and self._has_room and self._is_polling:
                self._consumer.wakeup()
            if self._order is not None:
                self._order.committed(commit.changes)

    def _key_record(self, address: KeyAddress, state: bytes | None) -> Forward:
        topic = self._job.ladders[address.topic].keys_topic
        return Forward(topic, address.partition, key_name(self._job.group, address.topic, address.key), state, ())

    async def _flush_or_warn(self) -> None:
        try:
            await self._flush()
        except ClientError as error:
            LOG.warning("the last records of group %s are handled again: %s", self._job.group, error)

    # Rebalances.

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """A record that waits is never skipped, whatever auto.offset.reset is for the application's topics."""
        retries = [each for each in partitions if each.topic in self._job.retry_topics]
        if self._job.is_reset_earliest or not retries:
            return
        committed = await self._consumer.committed(*retries)
        new = [each for each in retries if each not in committed]
        if new:
            self._consumer.seek_to_beginning(*new)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Finish what runs and commit it, so that the next owner begins after it."""
        gone = set(partitions)
        self._lanes.drop(lambda work: work.entry.partition in gone)
        await self._finish_running([task for task, where in self._tasks.items() if where in gone])
        await self._flush_or_warn()
        await self._forget(gone)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Others handle these records already."""
        gone = set(partitions)
        self._lanes.drop(lambda work: work.entry.partition in gone)
        await self._forget(gone)

    async def _forget(self, partitions: Collection[TopicPartition]) -> None:
        async with self._lock:
            self._ledger.drop(partitions)
            for each in partitions:
                self._held_until_ms.pop(each, None)
                for source in self._job.ladders:
                    if self._order is not None and (source, each.partition) in self._ordered:
                        self._ordered.discard((source, each.partition))
                        self._order.drop(source, each.partition)

    async def _finish_running(self, tasks: Collection["asyncio.Task[None]"]) -> None:
        if tasks:
            await asyncio.wait(tasks, timeout=self._job.stop_timeout_s)


def _received(row: ConsumerRecord[bytes, bytes], group: str, *, is_retry: bool) -> Received | None:
    place = Origin(row.topic, row.partition, row.offset, row.timestamp)
    return receive(place, row.key, row.value, row.headers, group, is_retry=is_retry)


def _as_first_read(work: _Work, job: Job) -> ConsumerRecord[Any, Any]:
    """The record as it was first read, deserialized."""
    received = work.received
    origin, headers = received.origin, received.headers
    key: Any = received.key
    value: Any = received.value
    if job.key_deserializer is not None and key is not None:
        key = job.key_deserializer(origin.topic, key, headers)
    if job.value_deserializer is not None and value is not None:
        value = job.value_deserializer(origin.topic, value, headers)
    return work.record._replace(
        topic=origin.topic,
        partition=origin.partition,
        offset=origin.offset,
        timestamp=origin.timestamp_ms,
        key=key,
        value=value,
        headers=headers,
    )


async def _read_to_end(
    open_reader: Callable[[str], AsyncConsumer[bytes, bytes]], where: TopicPartition
) -> list[tuple[bytes, bytes | None]]:
    """All committed records of a partition, to its end: open transactions are waited for."""
    async with open_reader("read_uncommitted") as asking:
        end = (await asking.end_offsets(where))[where]
    found: list[tuple[bytes, bytes | None]] = []
    async with open_reader("read_committed") as reading:
        await reading.assign([where])
        reading.seek_to_beginning(where)
        while await reading.position(where) < end:
            found += [(row.key, row.value) for row in await reading.poll(_POLL_S) if row.key is not None]
    return found


def is_async(handler: Handler) -> bool:
    """Whether a handler is a coroutine function, or an object that is called like one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
