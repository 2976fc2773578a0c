"""Consumers that call a handler for each record and try failed ones again: under asyncio, and without a loop.

    @retrying("orders", group="billing", bootstrap_servers="localhost:9092")
    async def bill(record):
        ...

    asyncio.run(bill.run())

The function is called again after the delays of the policy when it raises. Retries and dead letters are written in the
transaction that commits the offsets of the records that failed: after a crash a record is handled again, and is in a
retry topic once. See docs/retries.md.
"""

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.consumer.consumer import AsyncConsumer
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.aio.settings import CommonSettings, read_values
from tidelog.client.errors import ClientConfigError, IllegalState
from tidelog.client.retry.policy import RetryPolicy, as_policy, ladders
from tidelog.client.retry.run import Handler, Job, RetryCounts, Run, attempt_now
from tidelog.client.retry.topics import make_topics
from tidelog.client.retry.writer import Writer
from tidelog.client.serialization import deserializer_of
from tidelog.client.types import as_names

if TYPE_CHECKING:
    from tidelog.client.aio.consumer.options import ConsumerOptions
    from tidelog.client.retry.redis_queue import RedisStore

RECORDS_MAX: Final = 1000
STOP_TIMEOUT_S: Final = 30.0
_POLL_RECORDS_MAX: Final = 500
_BATCH_BYTES: Final = 1 << 16
_OWN: Final = {"enable.auto.commit": False, "isolation.level": "read_committed"}


def current_attempt() -> int:
    """Inside a handler: the number of this attempt, from 1."""
    return attempt_now.get()


class _Retrying:
    """What both consumers have in common: the handler, the settings, and the run."""

    def __init__(
        self,
        topics: str | Iterable[str],
        handler: Callable[[Any], Any],
        policy: RetryPolicy | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        concurrency: int = 1,
        records_max: int = RECORDS_MAX,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        **settings: "Unpack[ConsumerOptions[Any, Any]]",
    ) -> None:
        """Settings of the consumer under Kafka's names, `group.id` among them.

        At most `records_max` records and those of one poll are in memory. `stop_timeout_s` limits how long a stop, or a
        rebalance, waits for handlers that run.
        """
        given = read_values(ConsumerSettings, config, settings)
        self.handler = handler
        declared = ConsumerSettings.settings.values()
        self._settings = {each.name: given[each.field] for each in declared if each.field in given}
        self._policy = as_policy(policy)
        self._job = _job(topics, handler, self._policy, self._settings, concurrency, records_max, stop_timeout_s)
        self._run: Run | None = None
        self._is_stopping = False

    def __call__(self, *arguments: Any) -> Any:
        """Call the handler itself, as a test does."""
        return self.handler(*arguments)

    @property
    def counts(self) -> RetryCounts:
        """What was done so far."""
        return RetryCounts() if self._run is None else replace(self._run.counts)

    def _stop(self) -> None:
        self._is_stopping = True
        if self._run is not None:
            self._run.stop()

    async def _serve(self, stop_on_signals: bool) -> None:
        """Handle records until `_stop`; creates missing topics first."""
        if self._run is not None:
            raise IllegalState("this consumer runs already, or has run; create another")
        common = {name: value for name, value in self._settings.items() if name in CommonSettings.settings}
        async with AsyncExitStack() as stack:
            async with AsyncAdmin(common) as admin:
                record_bytes = await make_topics(admin, self._job.ladders)
            writer = Writer(self._job.group, {**common, "max.request.size": record_bytes + _BATCH_BYTES})
            stack.push_async_callback(writer.close)
            await writer.start()
            consumer: AsyncConsumer[bytes, bytes] = AsyncConsumer(self._consumer_settings())
            await stack.enter_async_context(consumer)
            store = await self._open_store(stack, common) if self._policy.is_redis else None
            self._run = run = Run(
                self._job,
                consumer,
                writer,
                lambda isolation: AsyncConsumer({**common, "isolation.level": isolation}),
                store,
            )
            if self._is_stopping:
                return
            if stop_on_signals:
                call_on_signals(stack, self._stop)
            await run.serve()

    async def _open_store(self, stack: AsyncExitStack, common: Mapping[str, Any]) -> "RedisStore":
        """The records in Redis, and a worker that moves them while this consumer runs."""
        from tidelog.client.retry.redis_queue import RedisQueue, RedisStore
        from tidelog.client.retry.redis_worker import MAX_BLOCK_MS, end, work

        queue = RedisQueue(self._policy.store)
        stack.push_async_callback(queue.close)
        producer: AsyncProducer[bytes, bytes] = AsyncProducer({**common, "max.block.ms": MAX_BLOCK_MS})
        await stack.enter_async_context(producer)
        stopping = asyncio.Event()
        worker = asyncio.create_task(work(queue, producer, stopping), name="tidelog-retry-worker")
        stack.push_async_callback(end, [worker], stopping)
        worker.add_done_callback(lambda _: self._stop())
        return RedisStore(queue)

    def _consumer_settings(self) -> dict[str, Any]:
        given = {name: value for name, value in self._settings.items() if not name.endswith(".deserializer")}
        defaults: dict[str, Any] = {
            "auto.offset.reset": "earliest",
            "max.poll.records": min(_POLL_RECORDS_MAX, self._job.records_max),
        }
        if self._job.keeps_order:
            # Partition n of a topic and of its retry topics must be read by the same member.
            defaults["partition.assignment.strategy"] = ("range",)
        return {**defaults, **given, **_OWN}


class AsyncRetryingConsumer(_Retrying):
    """Calls `handler` for each record of `topics`, `concurrency` at once, those of one key one after another.

    The handler is a coroutine function, or a plain one, which is called in a thread. At every attempt it gets the
    record as it was first read.
    """

    async def run(self, *, stop_on_signals: bool = False) -> None:
        """Handle records until `stop`, or SIGTERM and SIGINT if asked; creates missing topics first."""
        await self._serve(stop_on_signals)

    def stop(self) -> None:
        """Begin no other record; `run` returns when those that run are finished and committed."""
        self._stop()


class RetryingConsumer(_Retrying):
    """The same for programs without an event loop: `run` blocks, and the handler is called in threads."""

    _loop: asyncio.AbstractEventLoop | None = None

    def run(self, *, stop_on_signals: bool = True) -> None:
        """Handle records until `stop`, SIGTERM or SIGINT. Signals are only seen in the main thread."""

        async def work() -> None:
            self._loop = asyncio.get_running_loop()
            is_main = threading.current_thread() is threading.main_thread()
            await self._serve(stop_on_signals and is_main)

        asyncio.run(work())

    def stop(self) -> None:
        """Begin no other record; `run` returns when those that run are finished. Any thread may call it."""
        if self._loop is None or self._loop.is_closed():
            self._stop()
        else:
            self._loop.call_soon_threadsafe(self._stop)


def retrying(
    topics: str | Iterable[str],
    *,
    group: str,
    policy: RetryPolicy | None = None,
    config: Mapping[str, Any] | None = None,
    concurrency: int = 1,
    records_max: int = RECORDS_MAX,
    stop_timeout_s: float = STOP_TIMEOUT_S,
    **settings: "Unpack[ConsumerOptions[Any, Any]]",
) -> Callable[[Callable[[Any], Any]], Any]:
    """Make a consumer of a handler: an `AsyncRetryingConsumer` of a coroutine function, else a `RetryingConsumer`."""

    def decorate(handler: Callable[[Any], Any]) -> AsyncRetryingConsumer | RetryingConsumer:
        kind = AsyncRetryingConsumer if inspect.iscoroutinefunction(handler) else RetryingConsumer
        return kind(
            topics,
            handler,
            policy,
            {**(config or {}), "group.id": group},
            concurrency=concurrency,
            records_max=records_max,
            stop_timeout_s=stop_timeout_s,
            **settings,
        )

    return decorate


def _job(
    topics: str | Iterable[str],
    handler: Handler,
    policy: RetryPolicy,
    settings: Mapping[str, Any],
    concurrency: int,
    records_max: int,
    stop_timeout_s: float,
) -> Job:
    group = settings.get("group.id")
    if not group:
        raise ClientConfigError("group.id is missing: give group_id='…'")
    if concurrency < 1 or records_max < 1:
        raise ClientConfigError(f"concurrency={concurrency} and records_max={records_max} must be 1 or higher")
    for name, value in _OWN.items():
        if settings.get(name, value) != value:
            raise ClientConfigError(f"{name} must be {value!r} for a retrying consumer")
    if policy.keep_order_by_key and settings.get("group.protocol", "classic") != "classic":
        raise ClientConfigError("keep_order_by_key=True needs group.protocol=classic")
    names = [topics] if isinstance(topics, str) else as_names(topics)
    return Job(
        group,
        ladders(policy, group, names),
        handler,
        deserializer_of(settings.get("key.deserializer"), "key"),
        deserializer_of(settings.get("value.deserializer"), "value"),
        concurrency,
        records_max,
        stop_timeout_s,
        settings.get("auto.offset.reset", "earliest") == "earliest",
    )


def call_on_signals(stack: AsyncExitStack, stop: Callable[[], None]) -> None:
    """Call `stop` on SIGTERM and SIGINT, until the stack is left."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
        stack.callback(loop.remove_signal_handler, number)
