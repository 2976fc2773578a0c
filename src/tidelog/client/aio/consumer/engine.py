"""The implementation of the consumer: `AsyncConsumer` and `Consumer` are thin wrappers around it.

The wrappers ensure that only one call runs at a time. Every call that waits does so on the one `Signal`: replies,
rebalances, `wakeup` and the end of every task of this consumer set it, and the call looks again at what it is waiting
for. `tidelog.client.aio.waits` lists all waits and what ends each.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.client.aio.consumer.async_commits import AsyncCommits, CommitCallback
from tidelog.client.aio.consumer.commits import Offsets
from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.consumer.coordinator import GroupCoordinator
from tidelog.client.aio.consumer.cursor import Cursor
from tidelog.client.aio.consumer.errors import NoOffset
from tidelog.client.aio.consumer.fetch_buffer import FetchBuffer
from tidelog.client.aio.consumer.fetcher import Fetcher
from tidelog.client.aio.consumer.heartbeat_coordinator import HeartbeatCoordinator
from tidelog.client.aio.consumer.interceptors import Interceptors
from tidelog.client.aio.consumer.listeners import Invoke, RebalanceListener, call_here
from tidelog.client.aio.consumer.offset_lookup import OffsetLookup
from tidelog.client.aio.consumer.offset_reset import OffsetReset, parse_offset_reset
from tidelog.client.aio.consumer.partition_state import Position
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.signal import Signal
from tidelog.client.aio.consumer.subscription import SubscriptionKind, SubscriptionState
from tidelog.client.aio.consumer.types import NO_RECORDS, ConsumerRecords, FetchedBatches
from tidelog.client.aio.metadata import FINAL_TOPIC_ERRORS
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError, ClientError, DeadlinePassed, IllegalState
from tidelog.client.serialization import deserializer_of
from tidelog.client.types import OffsetAndMetadata, TopicPartition

_LOG: Final = logging.getLogger("tidelog.client.consumer")

Coordinator = GroupCoordinator | HeartbeatCoordinator
_COORDINATORS: Final[Mapping[str, type[GroupCoordinator] | type[HeartbeatCoordinator]]] = {
    "classic": GroupCoordinator,
    "consumer": HeartbeatCoordinator,
}
"""By `group.protocol`."""

Result = TypeVar("Result")


class Hooks(NamedTuple):
    """The application's classes that settings name: created with the consumer, so that a mistake is raised there."""

    interceptors: Interceptors
    decoding: Decoding


def make_hooks(settings: ConsumerSettings) -> Hooks:
    """Interceptors and deserializers. Raises ClientConfigError for any other object."""
    decoding = Decoding(
        settings.check_crcs,
        deserializer_of(settings.key_deserializer, "key"),
        deserializer_of(settings.value_deserializer, "value"),
    )
    return Hooks(Interceptors(settings.interceptor_classes), decoding)


class ConsumerEngine:
    """Everything a consumer does, in the loop it was made in."""

    def __init__(
        self,
        settings: ConsumerSettings,
        hooks: Hooks,
        invoke: Invoke = call_here,
        make_client: Callable[..., NetworkClient] = NetworkClient,
    ) -> None:
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self.signal = Signal()
        self.subscription = SubscriptionState(parse_offset_reset(settings.auto_offset_reset))
        self.client = make_client(
            settings,
            topics_wanted=lambda: self.subscription.metadata_topics,
            may_create_topics=settings.allow_auto_create_topics,
        )
        self.buffer = FetchBuffer(self.subscription)
        self.coordinator: Coordinator | None = None
        self.cursor: Cursor[Any, Any] | None = None
        """Set while the application iterates: records not handed out yet must not be committed."""
        self._polling: asyncio.Task[Any] | None = None
        self.unclaimed: ConsumerRecords[Any, Any] | Sequence[FetchedBatches] | None = None
        """What the last poll returned, until its caller has it: one in another thread may be interrupted before."""
        self._interceptors = hooks.interceptors
        self._invoke = invoke
        self._fetcher = Fetcher(
            self.client, settings, self.subscription, self.buffer, hooks.decoding, self.signal.notify
        )
        self._async_commits: AsyncCommits | None = None
        if settings.group_id is not None:
            self.coordinator = _COORDINATORS[settings.group_protocol](
                self.client,
                settings,
                self.subscription,
                self.consumed,
                self._interceptors.on_commit,
                invoke,
                self.signal.notify,
            )
            self._async_commits = AsyncCommits(self.client, self.coordinator.commits)
        committed = None if self.coordinator is None else self.coordinator.commits.committed
        self.lookup = OffsetLookup(self.client, settings, self.subscription, _wall_ms, committed)
        self._checked_metadata = 0
        self.client.on_task_end(self.signal.notify)
        self.client.on_metadata(self._on_metadata)
        self.client.on_unreachable(self.signal.fail)
        self.client.spawn(self._reach_cluster())

    async def _reach_cluster(self) -> None:
        with suppress(ClientError):  # the client keeps trying; the signal wakes the waiting call
            await self.client.start()

    async def start(self) -> None:
        """Return when the cluster was reached. Raises BootstrapFailed."""
        until_ms = self.client.now_ms() + self.settings.default_api_timeout_ms
        while not self.client.metadata.version:
            if self.client.now_ms() >= until_ms:
                raise DeadlinePassed(
                    f"no metadata received within default.api.timeout.ms={self.settings.default_api_timeout_ms}"
                )
            await self.signal.wait(until_ms)

    # What is read.

    async def subscribe(self, topics: Collection[str], listener: RebalanceListener | None) -> None:
        """Read `topics` as a member of the group; none of them is the same as `unsubscribe`."""
        self.demand_group()
        if isinstance(topics, str):
            raise IllegalState(f"subscribe() takes a list of topics, not the text {topics!r}")
        for topic in topics:
            if not isinstance(topic, str) or not topic.strip():
                raise IllegalState(f"{topic!r} is not a topic name")
        if not topics:
            await self.unsubscribe()
            return
        self.subscription.subscribe(topics, listener)
        self._changed()

    async def subscribe_pattern(self, pattern: str | re.Pattern[str], listener: RebalanceListener | None) -> None:
        """Read all topics whose whole name matches, now and later."""
        self.demand_group()
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise IllegalState(f"{pattern!r} is not a valid pattern: {error}") from error
        self.subscription.subscribe_pattern(compiled, listener)
        self._changed()

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read just these partitions; none of them is the same as `unsubscribe`."""
        if not partitions:
            await self.unsubscribe()
            return
        if self.coordinator is not None and self.subscription.kind is SubscriptionKind.ASSIGNED:
            # What was read so far is committed before the positions are gone.
            self.coordinator.auto_commit.run_if_due(self.client.now_ms())
        self.subscription.assign(partitions)
        self.subscription.follow_leaders(self.client.metadata)
        self._changed()

    async def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        if self.coordinator is not None and self.subscription.is_automatic:
            until_ms = self.client.now_ms() + self.settings.request_timeout_ms
            await self.coordinator.leave("the consumer unsubscribed from all topics", until_ms)
        self.subscription.unsubscribe()
        self.buffer.drop_unassigned()

    def _changed(self) -> None:
        self.buffer.drop_unassigned()
        self.client.request_refresh()
        self.signal.notify()

    def demand_group(self) -> Coordinator:
        """The group, or IllegalState if there is none."""
        if self.coordinator is None:
            raise IllegalState("this call needs a group.id; without one, use assign() and store offsets yourself")
        return self.coordinator

    # Polling.

    async def poll(self, timeout_ms: int) -> ConsumerRecords[Any, Any]:
        """Records as soon as there are some, none after `timeout_ms`."""
        limit = self.settings.max_poll_records
        self.unclaimed = None
        records = await self._poll(lambda: self.buffer.take(limit), timeout_ms)
        self.unclaimed = records
        return NO_RECORDS if records is None else self._interceptors.on_consume(records)

    async def poll_batches(self, timeout_ms: int) -> Sequence[FetchedBatches]:
        """The same, as whole batches that were not decoded."""
        self.unclaimed = None
        fetched = await self._poll(self._take_batches, timeout_ms) or ()
        self.unclaimed = fetched
        return fetched

    async def reclaim(self, before: object) -> None:
        """The thread that polled was interrupted: read again what the poll brought since `unclaimed` was `before`."""
        if self._polling is not None and not self._polling.done():
            self._polling.cancel()
            await asyncio.wait([self._polling])
        unclaimed = self.unclaimed
        if unclaimed is before:
            return
        self.unclaimed = None
        if isinstance(unclaimed, ConsumerRecords):
            self._go_back(Cursor(unclaimed).held_back())
        elif unclaimed:
            # What was fetched first of a partition is where to go back to.
            self._go_back(
                {
                    TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.first_offset)
                    for each in reversed(unclaimed)
                }
            )

    def _take_batches(self) -> list[FetchedBatches] | None:
        return self.buffer.take_batches() or None

    async def _poll(self, take: Callable[[], Result | None], timeout_ms: int) -> Result | None:
        if self.subscription.kind is SubscriptionKind.NONE:
            raise IllegalState("this consumer has no subscription: call subscribe() or assign() first")
        self._polling = asyncio.current_task()
        if self.cursor is not None:
            self.rewind(self.cursor)
        until_ms = self.client.now_ms() + timeout_ms
        while True:
            self.signal.raise_if_ended()
            await self._update()
            taken = take()
            self._fetcher.send()
            if taken is not None:
                return taken
            if self.client.now_ms() >= until_ms:
                return None
            await self.signal.wait(self._next_look_ms(until_ms))

    async def _update(self) -> None:
        """Let the group and the positions make progress. The commit in here comes before any position moves."""
        if self.coordinator is not None:
            if self._async_commits is not None:
                await self._async_commits.run_callbacks(self._invoke)
            await self.coordinator.step()
            self.buffer.drop_unassigned()
        self._check_topics()
        self._update_positions()

    def _next_look_ms(self, until_ms: int) -> int:
        """When to look again even if nothing happens."""
        times = [until_ms]
        if self.coordinator is not None and self.coordinator.auto_commit.next_ms is not None:
            times.append(self.coordinator.auto_commit.next_ms)
        retry_ms = self.subscription.next_retry_ms()
        if retry_ms is not None:
            times.append(max(retry_ms, self.client.now_ms() + 1))
        return min(times)

    def _check_topics(self) -> None:
        """Raise permanent errors that metadata has for subscribed topics."""
        metadata = self.client.metadata
        if metadata.version == self._checked_metadata:
            return
        self._checked_metadata = metadata.version
        if self.subscription.kind is SubscriptionKind.PATTERN:
            return
        for topic in metadata.topics.values():
            if topic.error_code in FINAL_TOPIC_ERRORS:
                code = error_code_of(topic.error_code)
                raise ApiError(code, f"topic {topic.name!r}: {code.text}")

    def _on_metadata(self) -> None:
        self.signal.recover()
        self.subscription.follow_leaders(self.client.metadata)
        self._fetcher.send()
        self.signal.notify()

    # Positions.

    def _update_positions(self) -> None:
        """Start what is needed so that every partition gets a position."""
        if not self.subscription.has_all_positions:
            self.lookup.ask_due()

    async def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        """The next offset to be read; finds one if there is none."""
        state = self.subscription.state_of(partition)
        until_ms = self.client.now_ms() + timeout_ms
        while state.position is None:
            self._update_positions()
            if state.position is not None:
                break
            if self.client.now_ms() >= until_ms:
                raise DeadlinePassed(f"{partition}: no position within {timeout_ms} ms")
            await self.signal.wait(self._next_look_ms(until_ms))
        held_back = None if self.cursor is None else self.cursor.held_back().get(partition)
        return state.position.offset if held_back is None else held_back.offset

    def seek(self, partition: TopicPartition, place: OffsetAndMetadata) -> None:
        """Read from `place` with the next poll."""
        self.subscription.state_of(partition).seek_unvalidated(Position(place.offset, place.leader_epoch))
        self.buffer.drop(partition)
        self.signal.notify()

    def seek_by(self, partitions: Collection[TopicPartition], policy: OffsetReset) -> None:
        """Read from the beginning or the end, found with the next poll; of all partitions if none is named."""
        for partition in partitions or tuple(self.subscription.partitions):
            self.subscription.state_of(partition).request_reset(policy)
            self.buffer.drop(partition)
        self.signal.notify()

    async def seek_to_committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Read again from what the group has committed; auto.offset.reset decides where nothing is committed."""
        chosen = tuple(partitions) or tuple(self.subscription.partitions)
        for partition in chosen:
            self.subscription.state_of(partition)
        found = await self.committed(chosen, timeout_ms)
        missing = [partition for partition in chosen if partition not in found]
        if missing and self.subscription.default_reset.is_none:
            raise NoOffset(missing)
        for partition, place in found.items():
            self.seek(partition, place)
        if missing:
            self.seek_by(missing, self.subscription.default_reset)
        return found

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of these until `resume`; nothing moves to another consumer."""
        for partition in partitions:
            self.subscription.state_of(partition).is_paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Return records of these again."""
        for partition in partitions:
            self.subscription.state_of(partition).resume()
        self._fetcher.send()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that may be committed: positions, except for records that an iteration holds back."""
        consumed = self.subscription.consumed()
        if self.cursor is not None:
            consumed.update((each, at) for each, at in self.cursor.held_back().items() if each in consumed)
        return consumed

    def rewind(self, cursor: Cursor[Any, Any]) -> None:
        """An iteration ended early: read the records again that it did not get."""
        self.cursor = None
        self._go_back(cursor.held_back())

    def _go_back(self, places: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for partition, place in places.items():
            state = self.subscription.partitions.get(partition)
            if state is not None and state.has_position:
                state.seek(Position(place.offset, place.leader_epoch))
                self.buffer.drop(partition)

    # Commits.

    async def commit(self, offsets: Offsets | None, timeout_ms: int) -> None:
        """Commit and wait; by default all that polls have returned."""
        coordinator = self.demand_group()
        until_ms = self.client.now_ms() + timeout_ms
        chosen = dict(self.consumed() if offsets is None else offsets)
        await self._finish_async_commits(until_ms)
        await self.wait_for(coordinator.commits.commit(chosen, until_ms), until_ms, "the commit")

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        """Commit and go on; `callback` is called inside a later call."""
        self.demand_group()
        assert self._async_commits is not None, "a group has commits"
        self._async_commits.send(dict(self.consumed() if offsets is None else offsets), callback)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: int
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """What the group has committed."""
        coordinator = self.demand_group()
        until_ms = self.client.now_ms() + timeout_ms
        return await self.wait_for(
            coordinator.commits.committed(partitions, until_ms), until_ms, "reading committed offsets"
        )

    async def _finish_async_commits(self, until_ms: int) -> None:
        if self._async_commits is None:
            return
        pending = self._async_commits.pending()
        if pending is not None:
            await self.signal.settle(pending, until_ms)
        await self._async_commits.run_callbacks(self._invoke)

    # Waiting and ending.

    async def wait_for(self, work: Coroutine[Any, Any, Result], until_ms: int, what: str) -> Result:
        """The outcome of `work`, unless `wakeup` or the time ends the wait: then the work ends, too."""
        task = self.client.spawn(work)
        try:
            if await self.signal.settle(task, until_ms):
                result: Result = task.result()
                return result
        finally:
            task.cancel()
        raise DeadlinePassed(f"{what} timed out")

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call `function` in the loop; may itself be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken."""
        self.signal.wake()

    async def close(self, timeout_ms: int) -> None:
        """Commit if that is automatic, leave the group, end everything; at most `timeout_ms` for all of it."""
        until_ms = self.client.now_ms() + timeout_ms
        error: Exception | None = None
        try:
            if self.coordinator is not None:
                await self._leave(self.coordinator, until_ms)
        except Exception as failure:  # noqa: BLE001 - raised again once everything is closed
            error = failure
        self._fetcher.close()
        self._interceptors.close()
        await self.client.close(max(1, min(5000, until_ms - self.client.now_ms())))
        if error is not None:
            raise error

    async def drop(self) -> None:
        """Close at once, without leaving the group: for a consumer that was garbage collected."""
        self._fetcher.close()
        await self.client.close()

    async def _leave(self, coordinator: Coordinator, until_ms: int) -> None:
        with_time = asyncio.timeout(max(0, until_ms - self.client.now_ms()) / 1000)
        try:
            async with with_time:
                await coordinator.auto_commit.commit_now(until_ms)
                await self._finish_async_commits(until_ms)
        except TimeoutError:
            _LOG.warning("group %r: commits did not finish before the consumer was closed", coordinator.link.group_id)
        coordinator.stop_heartbeats()
        if self.subscription.is_automatic:
            await coordinator.leave("the consumer is being closed", until_ms)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
