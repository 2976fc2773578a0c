"""A producer that keeps on disk what it could not deliver, and sends it later, also after a restart.

    async with AsyncProducerSpool("/var/lib/app/spool", bootstrap_servers="localhost:9092") as spool:
        metadata = await spool.send("topic", b"value", key=b"key")     # None: it is in the spool

`send` returns once a broker has acknowledged the record, or once it is in the spool: from then on neither an outage nor
the end of the process (kill -9) loses it. Before that it is in memory only. A record goes to the spool after the
producer's own retries have failed (`delivery.timeout.ms`), or at once while an earlier record of its key or partition
is there. Spooled records of one key, or of one partition that was named, are sent one at a time, in order, each until
its acknowledgement. Sends of one key that are under way at the same time have no order when the first of them fails; a
caller that awaits each keeps it. A record whose acknowledgement was lost is sent again, so it may be there twice.

Errors that a later attempt cannot cure are raised and not spooled. If a broker refuses a spooled record for good, it
stays, holds back what is behind it under its key, and is tried again and logged.
"""

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tidelog.client.aio.producer.batch import RecordMetadata
from tidelog.client.aio.producer.producer import AsyncProducer
from tidelog.client.aio.producer.sink import GivenHeaders, read_only_headers
from tidelog.client.aio.reactions import reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import (
    BrokerUnavailable,
    BufferExhausted,
    ClientClosed,
    ClientConfigError,
    ClientError,
    DeadlinePassed,
)
from tidelog.client.faces import Face, blocking
from tidelog.client.spool.file import Spooled, SpoolFile

if TYPE_CHECKING:
    from tidelog.client.aio.producer.options import ProducerOptions

_LOG: Final = logging.getLogger("tidelog.client.spool")
BYTES_MAX: Final = 1 << 30
CLOSE_TIMEOUT_S: Final = 5.0
_WINDOW: Final = 500
_FIRST_PAUSE_MS: Final = 100
_PAUSE_MS_MAX: Final = 5000


class AsyncProducerSpool:
    """An `AsyncProducer` of its own, and the file of what it could not deliver."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        *,
        bytes_max: int = BYTES_MAX,
        fsync: bool = True,
        **settings: "Unpack[ProducerOptions[bytes, bytes]]",
    ) -> None:
        """`bytes_max` limits the file; `fsync=False` leaves it to the operating system when the disk is written."""
        self._directory = directory
        self._bytes_max = bytes_max
        self._fsync = fsync
        self._config = config
        self._settings = settings
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(config, **settings)
        if producer.settings.transactional_id is not None or producer.settings.acks == 0 or producer.hooks.is_active:
            raise ClientConfigError("a spool takes bytes, and needs acknowledgements outside of transactions")
        self._producer = producer
        self._is_started = False
        self._backoff = Backoff(_FIRST_PAUSE_MS, _PAUSE_MS_MAX)
        self._file: SpoolFile | None = None
        self._draining: asyncio.Task[None] | None = None
        self._sending = 0
        self._idle = asyncio.Event()
        self._has_records = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """How many records are in the spool."""
        return 0 if self._file is None else len(self._file)

    async def start(self) -> Self:
        """Open the spool and begin to send what is in it. The cluster need not be there."""
        if self._file is None:
            self._file = await asyncio.to_thread(
                SpoolFile, self._directory, bytes_max=self._bytes_max, fsync=self._fsync
            )
            if not len(self._file):
                self._is_empty.set()
            self._draining = asyncio.create_task(self._drain(self._file))
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: GivenHeaders = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata | None:
        """Where the record was stored; None if it is in the spool. Raises SpoolFull, and what no attempt can cure."""
        file = self._open_file()
        stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        record = Spooled(topic, partition, key, value, read_only_headers(headers), stamp)
        self._sending += 1
        try:
            if self._is_started and not (record.lane is not None and file.holds(record.lane)):
                try:
                    return await self._deliver(record)
                except ClientError as error:
                    if not _passes(error):
                        raise
                    _LOG.warning("a record for topic %r goes to the spool: %s", topic, error)
            file.append(record)
            self._is_empty.clear()
            self._has_records.set()
            return None
        finally:
            self._sending -= 1
            if not self._sending:
                self._idle.set()

    async def drained(self, timeout_s: float | None = None) -> None:
        """Return when the spool is empty. Raises DeadlinePassed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_empty.wait()
        except TimeoutError:
            raise DeadlinePassed(f"{self.waiting} records are still in the spool after {timeout_s} s") from None

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop sending. What is not acknowledged within `timeout_s` goes to the spool; what is there stays there."""
        if self._is_closed or self._file is None:
            self._is_closed = True
            return
        self._is_closed = True
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
        await self._producer.close(timeout_s)
        while self._sending:
            self._idle.clear()
            await self._idle.wait()
        self._file.close()

    def _open_file(self) -> SpoolFile:
        if self._is_closed or self._file is None:
            raise ClientClosed("the spool is closed, or was not started")
        return self._file

    async def _deliver(self, record: Spooled) -> RecordMetadata:
        topic, partition, key, value, headers, timestamp_ms = record
        return await self._producer.send_and_wait(
            topic, value, key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    async def _drain(self, file: SpoolFile) -> None:
        """Reach the cluster, then send what is in the spool whenever there is something."""
        failures = 0
        while True:
            try:
                if not self._is_started:
                    await self._producer.start()
                    self._is_started = True
                if not len(file):
                    self._has_records.clear()
                    await self._has_records.wait()
                is_done = await self._send_first(file)
            except (ClientError, OSError) as error:
                _LOG.warning("the spool %s waits: %s", self._directory, error)
                is_done = False
            failures = 0 if is_done else failures + 1
            await asyncio.sleep(self._backoff.after(failures) / 1000)

    async def _send_first(self, file: SpoolFile) -> bool:
        """Send the first record of each key; whether all of them were acknowledged."""
        chosen = file.first(_WINDOW)
        outcomes = await asyncio.gather(*(self._deliver(record) for _, record in chosen), return_exceptions=True)
        file.acknowledge(
            offset for (offset, _), outcome in zip(chosen, outcomes, strict=True) if isinstance(outcome, RecordMetadata)
        )
        if not len(file):
            self._is_empty.set()
        failures = [each for each in outcomes if isinstance(each, BaseException)]
        if failures:
            _LOG.warning("%d records stay in the spool %s: %s", len(failures), self._directory, failures[0])
        return not failures


class ProducerSpool(Face[AsyncProducerSpool]):
    """The same for programs without an event loop; safe to share between threads."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        *,
        bytes_max: int = BYTES_MAX,
        fsync: bool = True,
        **settings: "Unpack[ProducerOptions[bytes, bytes]]",
    ) -> None:
        """The arguments of `AsyncProducerSpool`. Opens the spool."""
        twin = AsyncProducerSpool(directory, config, bytes_max=bytes_max, fsync=fsync, **settings)
        super().__init__(twin, "tidelog-spool")
        self._background.run_first(self._async.start())

    @property
    def waiting(self) -> int:
        """How many records are in the spool."""
        return self._async.waiting

    send = blocking(AsyncProducerSpool.send)
    drained = blocking(AsyncProducerSpool.drained)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Stop sending. What is not acknowledged within `timeout_s` goes to the spool; what is there stays there."""
        if self._background.is_alive:
            try:
                self._background.run(self._async.close(timeout_s))
            finally:
                self._background.close()


def _passes(error: ClientError) -> bool:
    """Whether a later attempt may succeed. What was under way when the producer was closed is kept, too."""
    if isinstance(error, DeadlinePassed | BrokerUnavailable | BufferExhausted | ClientClosed):
        return True
    return reaction_to(error).is_retriable
