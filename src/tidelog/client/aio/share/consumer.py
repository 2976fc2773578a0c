"""The asyncio share consumer.

    async with AsyncShareConsumer({"bootstrap.servers": "localhost:9092", "group.id": "invoices"}) as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer:
            ...

Only one task may use it at a time; a second one gets ConcurrentAccess. Times are in seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from tidelog.client.aio.consumer.errors import ConcurrentAccess
from tidelog.client.aio.consumer.listeners import Invoke, call_here
from tidelog.client.aio.share.engine import ShareEngine, make_decoding
from tidelog.client.aio.share.held import HeldRecords
from tidelog.client.aio.share.settings import load_share_settings
from tidelog.client.aio.share.types import (
    ACCEPTED,
    RELEASED,
    Ack,
    Acknowledged,
    AcknowledgementCallback,
    AcknowledgeType,
    ShareRecord,
)
from tidelog.client.errors import ClientClosed, IllegalState
from tidelog.client.metrics import ClientMetrics
from tidelog.client.serialization import K, V
from tidelog.client.types import milliseconds

if TYPE_CHECKING:
    from tidelog.client.aio.share.options import ShareConsumerOptions

CLOSE_TIMEOUT_S = 30.0
_ITERATION_POLL_S = 60.0


class AsyncShareConsumer(Generic[K, V]):
    """Reads records of topics as a member of a share group, whose members share partitions record by record.

    Keys are of type `K` and values of type `V`: bytes, or what deserializers make of them. It can be made anywhere, and
    belongs to the loop in which it is called first.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, **settings: "Unpack[ShareConsumerOptions[K, V]]"
    ) -> None:
        """Settings under Kafka's names: dotted in `config`, with underscores as keywords."""
        self._settings = load_share_settings(config, settings)
        self._decoding = make_decoding(self._settings)
        self._held = HeldRecords()
        self._running: ShareEngine | None = None
        self._owner: object = None
        self._current_user: Callable[[], object] = asyncio.current_task
        self._invoke: Invoke = call_here
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
    def _engine(self) -> ShareEngine:
        if self._running is None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                raise IllegalState("this consumer was not started, and no event loop is running to start it") from None
            self._running = ShareEngine(self._settings, self._decoding, self._held, self._invoke)
            self._running.client.report(self.metrics)
        return self._running

    async def _start_for_thread(self, invoke: Invoke) -> ShareEngine:
        """Start for `ShareConsumer`: it has one thread call at a time, and `invoke` runs callbacks in that thread."""
        self._current_user, self._invoke = _the_thread, invoke
        return self._engine

    @contextmanager
    def _serving(self) -> Iterator[ShareEngine]:
        """One task at a time."""
        if self._is_closed:
            raise ClientClosed("this consumer is closed")
        engine, user = self._engine, self._current_user()
        before = self._owner
        if before is not None and before is not user:
            raise ConcurrentAccess("a share consumer can be used by one task at a time; another one is using it")
        self._owner = user
        try:
            yield engine
        finally:
            self._owner = before

    # What to read.

    async def subscribe(self, topics: Collection[str]) -> None:
        """Read these topics, instead of those before; none of them is the same as `unsubscribe`."""
        with self._serving() as engine:
            await engine.subscribe(topics)

    async def unsubscribe(self) -> None:
        """Read nothing, release what is not acknowledged, and leave the group."""
        with self._serving() as engine:
            await engine.unsubscribe()

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        return frozenset() if self._running is None else self._running.membership.topics

    # Reading.

    async def poll(self, timeout_s: float = 1.0) -> list[ShareRecord[K, V]]:
        """Records as soon as there are some, about max.poll.records at most; none when `timeout_s` has passed.

        Sends the acknowledgements. With share.acknowledgement.mode=implicit, records that the last poll returned are
        accepted; with explicit, IllegalState is raised if one of them was not acknowledged.
        """
        with self._serving() as engine:
            self._settle_last()
            # Other tasks get a turn even if there is always something to return.
            await asyncio.sleep(0)
            return await engine.poll(milliseconds(timeout_s), self._settings.max_poll_records)

    def _settle_last(self) -> None:
        if not self._settings.is_explicit:
            self._held.accept_others()
        elif count := self._held.unacknowledged():
            raise IllegalState(
                f"{count} records of the last poll were not acknowledged; share.acknowledgement.mode=explicit needs "
                "acknowledge() for each of them"
            )

    async def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Records one by one, for ever.

        With share.acknowledgement.mode=implicit, a record is accepted when the loop goes on to the next one: the one
        at which it is left is released, for it may not have been processed.
        """
        record: ShareRecord[K, V] | None = None
        try:
            while True:
                record = self._next_held(record)
                if record is None:
                    self._held.put_back(await self.poll(_ITERATION_POLL_S))
                else:
                    yield record
        finally:
            self._pass(record, RELEASED)

    def _next_held(self, before: ShareRecord[K, V] | None) -> ShareRecord[K, V] | None:
        """The next record of an iteration, which is done with the one `before`."""
        self._pass(before, ACCEPTED)
        found = self._held.deliver(self._engine.client.now_ms(), 1)
        return found[0] if found else None

    def _pass(self, record: ShareRecord[K, V] | None, ack: Ack) -> None:
        if record is not None and not self._settings.is_explicit and self._held.is_delivered(record):
            self._held.acknowledge(*record[:3], ack)

    # Acknowledging.

    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # noqa: A002 - Kafka's own name
        *,
        delay_s: float | None = None,
    ) -> None:
        """Note how a record of the last poll is acknowledged; the next poll or commit sends it.

        `delay_s` lets a released record wait before it is delivered again; brokers other than Tidelog ignore it.
        """
        self.acknowledge_offset(record.topic, record.partition, record.offset, type, delay_s=delay_s)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # noqa: A002 - Kafka's own name
        *,
        delay_s: float | None = None,
    ) -> None:
        """The same by offset, for a record that a poll could not return: one that cannot be deserialized."""
        if self._is_closed:
            raise ClientClosed("this consumer is closed")
        if not self._settings.is_explicit:
            raise IllegalState("acknowledge() needs share.acknowledgement.mode=explicit")
        kind = AcknowledgeType(type)
        if delay_s is not None and kind is not AcknowledgeType.RELEASE:
            raise ValueError(f"delay_s={delay_s!r} is for AcknowledgeType.RELEASE only, not for {kind.name}")
        delay_ms = -1 if delay_s is None else milliseconds(delay_s)
        self._held.acknowledge(topic, partition, offset, Ack(kind, delay_ms))

    async def commit(self, timeout_s: float | None = None) -> Acknowledged:
        """Send the acknowledgements and wait: for each partition an error, or None where they are confirmed.

        With share.acknowledgement.mode=implicit, records that the last poll returned are accepted.
        """
        with self._serving() as engine:
            self._accept_last()
            limit_ms = self._settings.default_api_timeout_ms if timeout_s is None else milliseconds(timeout_s)
            return await engine.commit(limit_ms)

    def commit_async(self) -> None:
        """Send the acknowledgements and go on; the callback has the outcome."""
        with self._serving() as engine:
            self._accept_last()
            engine.begin_commit()

    def _accept_last(self) -> None:
        if not self._settings.is_explicit:
            self._held.accept_others()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Call `callback(offsets, error)`, inside later calls of this consumer, when acknowledgements were answered."""
        with self._serving() as engine:
            engine.callback = callback

    @property
    def acquisition_lock_timeout_s(self) -> float | None:
        """How long a lock lasts, as the group's settings say; None until a broker has answered a fetch."""
        lock_ms = None if self._running is None else self._running.fetcher.lock_ms
        return None if lock_ms is None else lock_ms / 1000

    def metrics(self) -> ClientMetrics:
        """Metrics of the connections of this consumer."""
        client = self._engine.client
        return ClientMetrics(self._settings.client_id, client.age_s(), client.broker_metrics())

    # Ending.

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken. Any task of the loop may call it."""
        self._engine.wakeup()

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send acknowledgements, release what has none, leave the group and end; within `timeout_s`.

        A second call does nothing.
        """
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


def _the_thread() -> object:
    """Who calls the twin of a `ShareConsumer`, which has let one thread through."""
    return _the_thread
