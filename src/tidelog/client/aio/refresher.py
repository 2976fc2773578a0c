"""Refreshes the metadata: one request at a time, on request or by age, with back-off after failures.

`NetworkClient` owns the one instance and runs its loop as a task.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from tidelog.client.aio.cluster_calls import ClusterCalls
from tidelog.client.backoff import Backoff
from tidelog.client.errors import BrokerUnavailable, ClientClosed, ClientError, DeadlinePassed
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


class MetadataRefresher:
    """Sends metadata requests and updates the cache."""

    def __init__(
        self, client: ClusterCalls, topics_wanted: Callable[[], Iterable[str] | None], may_create_topics: bool
    ) -> None:
        self.listeners: list[Callable[[], None]] = []
        self.on_unreachable: list[Callable[[ClientError], None]] = []
        self._client = client
        self._topics_wanted = topics_wanted
        self._may_create_topics = may_create_topics
        self._backoff = Backoff(client.settings.retry_backoff_ms, client.settings.retry_backoff_max_ms)
        self._failures = 0
        self._next_ms = 0
        self._wake = asyncio.Event()
        self._is_requested = False
        """Whether a refresh was requested since the last request was sent."""
        self._waiters: list[asyncio.Future[None]] = []
        self._last_error: ClientError | None = None

    def start(self) -> None:
        """Begin to keep the metadata fresh."""
        self._client.spawn(self._run())

    def close(self, reason: ClientError) -> None:
        """Stop refreshing; waiting calls are not completed."""
        self._settle(self._waiters, reason)

    def request(self) -> None:
        """Mark the metadata as stale; it is asked for soon."""
        self._client.metadata.request_update()
        self._is_requested = True
        self._wake.set()

    async def refresh(self, timeout_ms: int | None) -> None:
        """Ask, and wait for the answer to a question that was put after this call."""
        if self._client.is_closed:
            raise ClientClosed("the client is closed")
        limit_ms = self._client.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if not self._failures:
            self._next_ms = 0  # a call waits, and no failure requires a back-off
        self.request()
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await waiter
        except TimeoutError:
            asked = ", ".join(node.address for node in self._client.by_load())
            raise self._last_error or DeadlinePassed(f"no metadata from {asked} within {limit_ms} ms") from None
        finally:
            with suppress(ValueError):
                self._waiters.remove(waiter)

    async def _run(self) -> None:
        client = self._client
        while True:
            now_ms = client.now_ms()
            # A topic without a leader is asked for again and again, but never more often than the back-off says.
            wait_ms = max(client.metadata.refresh_in_ms(now_ms), self._next_ms - now_ms)
            if wait_ms <= 0:
                await self._ask()
                continue
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()

    async def _ask(self) -> None:
        client = self._client
        waiters, self._waiters = self._waiters, []
        self._is_requested = False
        wanted = self._topics_wanted()
        names = None if wanted is None else list(wanted)
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._may_create_topics)
        try:
            reply = await client.send_to_any(request, MetadataResponse)
        except asyncio.CancelledError:
            self._waiters = waiters + self._waiters  # the closing client fails them
            raise
        except BrokerUnavailable as error:
            self._last_error = error
            self._failures += 1
            self._waiters = waiters + self._waiters
            hopeless = client.reachability.give_up(client.now_ms())
            if hopeless is not None:
                self._give_up(hopeless)
        except ClientError as error:
            self._last_error = error
            self._failures += 1
            self._settle(waiters, error)
            if not client.metadata.version:
                self._give_up(error)
        else:
            self._failures = 0
            self._last_error = None
            client.metadata.update(reply, client.now_ms(), wanted=names)
            if self._is_requested:
                client.metadata.request_update()  # for a call that needs a newer response
            self._settle(waiters, None)
            for listener in self.listeners:
                listener()
        self._next_ms = client.now_ms() + self._backoff.after(max(self._failures, 1))

    def _give_up(self, error: ClientError) -> None:
        """Fail everything that waits for a first answer. The next question goes out all the same."""
        self._last_error = error
        waiters, self._waiters = self._waiters, []
        self._settle(waiters, error)
        for listener in self.on_unreachable:
            listener(error)

    def _settle(self, waiters: list["asyncio.Future[None]"], error: ClientError | None) -> None:
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
