"""The implementation of the share consumer: `AsyncShareConsumer`, `ShareConsumer` and workers are built on it.

One call at a time, as with `consumer.engine`; every call that waits does so on the one `Signal`, which replies,
heartbeats, `wakeup` and the end of every task set. What the application has is in `held`: acknowledging a record does
not need the loop. Acknowledgements leave with the next poll or commit.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.consumer.errors import DeserializationFailed
from tidelog.client.aio.consumer.listeners import Invoke, call_here
from tidelog.client.aio.consumer.signal import Signal
from tidelog.client.aio.metadata import FINAL_TOPIC_ERRORS
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import refusal
from tidelog.client.aio.share.fetcher import Receipt, ShareFetcher
from tidelog.client.aio.share.held import HeldRecords
from tidelog.client.aio.share.locked import LockedRecords
from tidelog.client.aio.share.membership import ShareMembership
from tidelog.client.aio.share.settings import ShareConsumerSettings
from tidelog.client.aio.share.types import Ack, AcknowledgementCallback, AcknowledgeType, Origin, ShareRecord
from tidelog.client.errors import ClientError, DeadlinePassed, IllegalState
from tidelog.client.serialization import deserializer_of
from tidelog.client.types import TopicPartition, as_names

_LOG: Final = logging.getLogger("tidelog.client.consumer")

Records = list[ShareRecord[Any, Any]]


def make_decoding(settings: ShareConsumerSettings) -> Decoding:
    """The deserializers. Raises ClientConfigError for any other object."""
    return Decoding(
        settings.check_crcs,
        deserializer_of(settings.key_deserializer, "key"),
        deserializer_of(settings.value_deserializer, "value"),
    )


class ShareEngine:
    """Everything a share consumer does, in the loop it was made in."""

    def __init__(
        self,
        settings: ShareConsumerSettings,
        decoding: Decoding,
        held: HeldRecords,
        invoke: Invoke = call_here,
        make_client: Callable[..., NetworkClient] = NetworkClient,
    ) -> None:
        self.settings = settings
        self.held = held
        self.callback: AcknowledgementCallback | None = None
        self.unclaimed: Records | None = None
        """What the last poll returned, until its caller has it: one in another thread may be interrupted before."""
        self.signal = Signal()
        self._invoke = invoke
        self._completed: deque[tuple[TopicPartition, frozenset[int], ClientError | None]] = deque()
        self._error: Exception | None = None
        """What ended the records that were taken last, to be raised when those before it are delivered."""
        self._failed_in: LockedRecords | None = None
        self._checked_metadata = 0
        self._polling: asyncio.Task[Any] | None = None
        self.client = make_client(
            settings,
            topics_wanted=self._topics_wanted,
            may_create_topics=settings.allow_auto_create_topics,
        )
        self.membership = ShareMembership(self.client, settings, self._on_change)
        self.fetcher = ShareFetcher(
            self.client,
            settings,
            self.membership.group_id,
            lambda: self.membership.member.member_id,
            self.membership.assigned,
            decoding,
            self._acknowledged,
            self.signal.notify,
        )
        self.client.on_task_end(self.signal.notify)
        self.client.on_metadata(self._on_metadata)
        self.client.on_unreachable(self.signal.fail)
        self.client.spawn(self._reach_cluster())

    def _topics_wanted(self) -> frozenset[str]:
        return self.membership.topics

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

    async def subscribe(self, topics: Collection[str]) -> None:
        """Read `topics` as a member of the group; none of them is the same as `unsubscribe`."""
        names = frozenset(as_names(topics))
        if not names:
            await self.unsubscribe()
            return
        self.membership.topics = names
        self.client.request_refresh()

    async def unsubscribe(self) -> None:
        """Send acknowledgements, release everything else and leave the group."""
        until_ms = self.client.now_ms() + self.settings.request_timeout_ms
        await self._end_sessions(until_ms)
        await self.membership.leave("the consumer unsubscribed from all topics", until_ms)
        self.membership.topics = frozenset()

    # Polling.

    async def poll(self, timeout_ms: int, limit: int) -> Records:
        """Records as soon as there are some, none after `timeout_ms`; acknowledgements leave at once."""
        if not self.membership.topics:
            raise IllegalState("this consumer has no subscription: call subscribe() first")
        self.unclaimed = None
        self._polling = asyncio.current_task()
        self.fetcher.acknowledge(self.held.take())
        until_ms = self.client.now_ms() + timeout_ms
        try:
            while True:
                await self._update()
                records = self._take(limit)
                self.fetcher.records_max = 0 if records else limit
                self.fetcher.send()
                if records or self.client.now_ms() >= until_ms:
                    self.unclaimed = records
                    return records
                await self.signal.wait(until_ms)
        finally:
            self.fetcher.records_max = 0

    async def reclaim(self, before: object) -> None:
        """The thread that polled was interrupted: deliver again what came since `unclaimed` was `before`."""
        if self._polling is not None and not self._polling.done():
            self._polling.cancel()
            await asyncio.wait([self._polling])
        unclaimed = self.unclaimed
        if unclaimed and unclaimed is not before:
            self.held.put_back(unclaimed)
        self.unclaimed = None

    async def _update(self) -> None:
        self.signal.raise_if_ended()
        await self.run_callbacks()
        self.membership.step()
        self._check_topics()
        if self.fetcher.errors:
            raise self.fetcher.errors.popleft()

    def _take(self, limit: int) -> Records:
        """What is there for the application. An error that ends the records is raised when none is before it."""
        if self._error is None:
            self._fill(limit)
        records = self.held.deliver(self.client.now_ms(), limit)
        if not records and self._error is not None:
            error, self._error = self._error, None
            if isinstance(error, DeserializationFailed) and self._failed_in is not None:
                self.held.fail(self._failed_in.origin, error.offset, self._failed_in.locked_until_ms)
            raise error
        return records

    def _fill(self, limit: int) -> None:
        """Take from the buffer what `limit` has room for."""
        buffer, room = self.fetcher.buffer, limit - self.held.arrived()
        while buffer and room > 0 and self._error is None:
            locked = buffer[0]
            taken = locked.take(room)
            if locked.is_done:
                buffer.popleft()
            self.held.arrive(locked.origin, taken.records, locked.locked_until_ms)
            if taken.acks:
                self.fetcher.acknowledge({locked.origin: taken.acks})
            self._failed_in, self._error = locked, taken.error
            room -= len(taken.records)

    def _check_topics(self) -> None:
        """Raise permanent errors that metadata has for subscribed topics."""
        metadata = self.client.metadata
        if metadata.version == self._checked_metadata:
            return
        self._checked_metadata = metadata.version
        for topic in metadata.topics.values():
            if topic.error_code in FINAL_TOPIC_ERRORS:
                raise refusal(topic.error_code, f"topic {topic.name!r}")

    def _on_metadata(self) -> None:
        self.signal.recover()
        self._on_change()

    def _on_change(self) -> None:
        self.fetcher.send()
        self.signal.notify()

    # Acknowledgements.

    async def commit(self, timeout_ms: int) -> dict[TopicPartition, ClientError | None]:
        """Send the acknowledgements and wait for the answers; an entry for each partition that had some."""
        until_ms = self.client.now_ms() + timeout_ms
        receipts = self.begin_commit()
        outcome: dict[TopicPartition, ClientError | None] = {}
        for receipt in receipts:
            if await self.signal.settle(receipt.outcome, until_ms):
                found = receipt.outcome.result()
            else:
                found = {each.where: DeadlinePassed("the commit timed out") for each in receipt.acks}
            outcome |= {where: outcome.get(where) or error for where, error in found.items()}
        await self.run_callbacks()
        return outcome

    def begin_commit(self) -> list[Receipt]:
        """Send the acknowledgements and go on."""
        self.fetcher.acknowledge(self.held.take())
        receipts = self.fetcher.receipts()
        self.fetcher.send()
        return receipts

    def _acknowledged(
        self, origin: Origin, acks: Mapping[int, Ack], error: ClientError | None, locked_until_ms: int
    ) -> None:
        """What the fetcher reports."""
        for offset, ack in acks.items():
            if ack.kind == AcknowledgeType.RENEW:
                self.held.renewed(origin, offset, None if error else locked_until_ms)
        if error is not None:
            _LOG.info("group %r: acknowledgements were refused: %s", self.membership.group_id, error)
        if self.callback is not None:
            self._completed.append((origin.where, frozenset(acks), error))

    async def run_callbacks(self) -> None:
        """Call the application back with the acknowledgements that were answered."""
        while self._completed:
            where, offsets, error = self._completed.popleft()
            if self.callback is not None:
                await self._invoke(self.callback, {where: offsets}, error)

    # Ending.

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken."""
        self.signal.wake()

    async def close(self, timeout_ms: int) -> None:
        """Send acknowledgements, release the rest, leave the group, end everything; at most `timeout_ms` for all."""
        until_ms = self.client.now_ms() + timeout_ms
        error: Exception | None = None
        try:
            await self._end_sessions(until_ms)
            await self.membership.leave("the consumer is being closed", until_ms)
            await self.run_callbacks()
        except Exception as failure:  # noqa: BLE001 - raised again once everything is closed
            error = failure
        self.fetcher.close()
        await self.client.close(max(1, min(5000, until_ms - self.client.now_ms())))
        if error is not None:
            raise error

    async def drop(self) -> None:
        """Close at once, without leaving the group: for a consumer that was garbage collected."""
        self.fetcher.close()
        await self.client.close()

    async def _end_sessions(self, until_ms: int) -> None:
        self.fetcher.acknowledge(self.held.take())
        try:
            async with asyncio.timeout(max(1, until_ms - self.client.now_ms()) / 1000):
                await self.fetcher.end_sessions()
        except TimeoutError:
            _LOG.warning("group %r: acknowledgements were not answered in time", self.membership.group_id)
        self.held.clear()
        self._error = None
