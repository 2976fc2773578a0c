"""One run of a worker under asyncio: it polls, starts handlers and acknowledges what they have done.

One task uses the engine; handlers run beside it and wake it when they end. Only as many records are locked as may run,
and a few ahead if asked for. A stop begins nothing more, waits for the handlers that run, and leaves the group: what
was locked and not begun is available to others at once.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import ConfigChange, ConfigResource, ResourceType
from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.consumer.errors import CorruptRecords, DeserializationFailed, Woken
from tidelog.client.aio.share.engine import ShareEngine
from tidelog.client.aio.share.held import HeldRecords
from tidelog.client.aio.share.settings import ShareConsumerSettings
from tidelog.client.aio.share.types import ACCEPTED, RELEASED, Ack, AcknowledgeType
from tidelog.client.errors import ApiError, ClientError
from tidelog.client.retry.policy import RetryPolicy, rung_of
from tidelog.client.retry.run import is_async
from tidelog.client.types import TopicPartition
from tidelog.client.work.jobs import Job, Jobs, Record
from tidelog.wire.errors import ErrorCode

LOG: Final = logging.getLogger("tidelog.client.work")

_POLL_MS: Final = 1_000
_ALL: Final = 1 << 30
REJECTED: Final = Ack(AcknowledgeType.REJECT)


class Retry(Exception):  # noqa: N818 - raised to ask for something
    """Raised by a handler: try the record again, after `delay_s` if that is given, else after the policy's delay."""

    def __init__(self, delay_s: float | None = None) -> None:
        super().__init__("asked to be tried again")
        self.delay_s = delay_s


class Reject(Exception):  # noqa: N818 - raised to ask for something
    """Raised by a handler: the record cannot be processed, and no other attempt shall be made."""


@dataclass(slots=True)
class WorkCounts:
    """What a run has done."""

    handled: int = 0
    failed: int = 0
    retried: int = 0
    rejected: int = 0
    lost: int = 0
    """Records whose lock ended while they were handled: they are delivered again."""
    abandoned: int = 0
    """Records that were handled when the time to stop was over: they are delivered again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does."""

    topics: tuple[str, ...]
    settings: ShareConsumerSettings
    common: Mapping[str, Any]
    """Those of the settings that every client has."""
    decoding: Decoding
    handler: Callable[[Any], Any]
    policy: RetryPolicy
    concurrency: int
    prefetch: int
    timeout_s: float | None
    stop_timeout_s: float
    begins_at: str


class Run:
    """One run."""

    def __init__(self, plan: Plan) -> None:
        self.counts = WorkCounts()
        self._plan = plan
        self._held = HeldRecords()
        self._jobs = Jobs(self._held)
        self._running: dict[asyncio.Task[None], Job] = {}
        self._engine: ShareEngine | None = None
        self._stop_by_ms: int | None = None
        self._is_stopping = False
        self._threads: ThreadPoolExecutor | None = None

    def stop(self) -> None:
        """Begin no other record; `serve` returns when those that run have ended. To be called in the loop."""
        self._is_stopping = True
        if self._engine is not None:
            self._engine.wakeup()

    async def serve(self) -> None:
        """Handle records until `stop`. Raises what no repetition helps, such as missing rights."""
        plan = self._plan
        if not is_async(plan.handler):
            self._threads = ThreadPoolExecutor(plan.concurrency, thread_name_prefix="tidelog-work")
        self._engine = engine = ShareEngine(plan.settings, plan.decoding, self._held)
        engine.callback = self._answered
        try:
            await engine.start()
            await self._make_group()
            await engine.subscribe(plan.topics)
            await self._work(engine)
        finally:
            self.counts.abandoned = len(self._running)
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait(self._running)
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self._jobs.settle()
            await engine.close(int(plan.stop_timeout_s * 1000))
            self.counts.lost = self._jobs.lost

    async def _make_group(self) -> None:
        """Have a group that is new begin at the beginning: what was queued before its first worker is done, too."""
        plan = self._plan
        assert plan.settings.group_id is not None, "a worker has a group"
        async with AsyncAdmin(plan.common) as admin:
            try:
                await admin.describe_share_groups([plan.settings.group_id])
            except ApiError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
            else:
                return
            group = ConfigResource(ResourceType.GROUP, plan.settings.group_id)
            try:
                await admin.incremental_alter_configs(
                    {group: [ConfigChange("share.auto.offset.reset", plan.begins_at)]}
                )
            except ClientError as error:
                LOG.warning(
                    "share.auto.offset.reset=%s cannot be set for group %s, which begins where the brokers say: %s",
                    plan.begins_at,
                    plan.settings.group_id,
                    error,
                )

    async def _work(self, engine: ShareEngine) -> None:
        while True:
            now_ms = engine.client.now_ms()
            self._take(self._held.deliver(now_ms, _ALL), engine)
            if self._is_stopping and self._has_stopped(now_ms):
                return
            self._begin()
            self._jobs.settle()
            self._jobs.renew(now_ms)
            try:
                records = await engine.poll(self._patience_ms(now_ms), self._room())
            except Woken:
                continue
            except DeserializationFailed as error:
                LOG.error("rejected: %s", error)
                self._held.acknowledge(*error.partition, error.offset, REJECTED)
                self.counts.rejected += 1
                continue
            except CorruptRecords as error:
                LOG.error("%s", error)
                continue
            self._take(records, engine)

    def _take(self, records: list[Record], engine: ShareEngine) -> None:
        self._jobs.take(records, engine.client.now_ms(), engine.fetcher.lock_ms or 0)

    def _room(self) -> int:
        """How many records more to lock."""
        if self._is_stopping:
            return 0
        return max(0, self._plan.concurrency + self._plan.prefetch - len(self._jobs))

    def _patience_ms(self, now_ms: int) -> int:
        renewal_ms = self._jobs.next_renewal_ms()
        return _POLL_MS if renewal_ms is None else min(max(renewal_ms - now_ms, 1), _POLL_MS)

    def _has_stopped(self, now_ms: int) -> bool:
        if self._stop_by_ms is None:
            self._stop_by_ms = now_ms + int(self._plan.stop_timeout_s * 1000)
            LOG.info("stopping: %d records are handled", len(self._running))
        if not self._running:
            return True
        if now_ms < self._stop_by_ms:
            return False
        LOG.warning(
            "%d records were not done within %g s: they are released", len(self._running), self._plan.stop_timeout_s
        )
        return True

    def _begin(self) -> None:
        while not self._is_stopping and len(self._running) < self._plan.concurrency:
            job = self._jobs.begin()
            if job is None:
                return
            task = asyncio.create_task(self._handle(job))
            self._running[task] = job
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        if not task.cancelled():
            task.result()
        if self._engine is not None:
            self._engine.wakeup()

    async def _handle(self, job: Job) -> None:
        """Call the handler and decide what becomes of the record. A run that is cancelled decides nothing."""
        try:
            async with asyncio.timeout(self._plan.timeout_s):
                await self._call(job.record)
        except Exception as error:  # noqa: BLE001 - code of the application
            ack = self._after(job.record, error)
        else:
            self.counts.handled += 1
            ack = ACCEPTED
        self._jobs.done(job, ack)

    async def _call(self, record: Record) -> None:
        if self._threads is None:
            await self._plan.handler(record)
        else:
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, context.run, self._plan.handler, record)

    def _after(self, record: Record, error: Exception) -> Ack:
        """What becomes of a record whose handler has raised."""
        where = f"{record.topic_partition} at offset {record.offset}"
        self.counts.failed += 1
        if isinstance(error, Retry) and error.delay_s is not None:
            self.counts.retried += 1
            return RELEASED._replace(delay_ms=int(error.delay_s * 1000))
        policy = self._plan.policy
        rung = rung_of(record.delivery_count, policy.attempts_max, len(policy.delays_ms))
        if rung is None or isinstance(error, (Reject, *policy.dead_letter_on)):
            self.counts.rejected += 1
            LOG.error("%s is rejected after %d attempts: %r", where, record.delivery_count, error)
            return REJECTED
        self.counts.retried += 1
        delay_ms = policy.delays_ms[rung]
        LOG.warning("%s is tried again in %g s: %r", where, delay_ms / 1000, error)
        return RELEASED._replace(delay_ms=delay_ms)

    def _answered(self, offsets: Mapping[TopicPartition, frozenset[int]], error: ClientError | None) -> None:
        """The engine's callback: acknowledgements, renewals among them, were answered."""
        if self._jobs.waits_for_locks and self._engine is not None:
            self._engine.wakeup()
        if error is not None:
            LOG.warning("acknowledgements were refused, the records are delivered again: %s", error)
            for where, each in offsets.items():
                self._jobs.refused(where, each)
