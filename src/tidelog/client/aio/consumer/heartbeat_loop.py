"""Heartbeats of a member of a group that the broker assigns, sent by a task beside the application.

They carry the protocol: what the member reports goes out with them, and its assignment comes back. A change is reported
at once, else a heartbeat is sent at the interval that the coordinator has set. The loop leaves the group when the
application does not poll, and ends with an error that no repetition helps; the next `step` raises that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Protocol

from tidelog.client.aio.connection import Response
from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.heartbeat_member import GroupMember, Outcome, Reports
from tidelog.client.aio.consumer.heartbeats import HeartbeatClocks
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import BrokerUnavailable, ClientError, DeadlinePassed

_LOG: Final = logging.getLogger("tidelog.client.consumer")
_FIRST_INTERVAL_MS: Final = 5000
"""Used until the coordinator has sent its heartbeat interval."""


class HeartbeatSettings(Protocol):
    """What of a client's settings the loop uses."""

    @property
    def max_poll_interval_ms(self) -> int: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


class HeartbeatLoop(Generic[Reports, Response]):
    """Sends the heartbeats of one member."""

    def __init__(
        self,
        client: NetworkClient,
        settings: HeartbeatSettings,
        link: GroupLink,
        member: GroupMember[Reports],
        response: type[Response],
        wishes: Callable[[], Reports],
        on_fenced: Callable[[], Awaitable[None]],
        notify: Callable[[], None],
    ) -> None:
        """`wishes` is what the member reports now; it may join again when `on_fenced` has returned."""
        self._client = client
        self._settings = settings
        self._link = link
        self._member = member
        self._response = response
        self._wishes = wishes
        self._on_fenced = on_fenced
        self._notify = notify
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._clocks = HeartbeatClocks(settings.max_poll_interval_ms, _FIRST_INTERVAL_MS, settings.max_poll_interval_ms)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._failure: Exception | None = None

    def polled(self) -> None:
        """The application called poll. Raises the error that ended the membership, once."""
        self._clocks.polled(self._client.now_ms())
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @property
    def is_poll_overdue(self) -> bool:
        """Whether the application has not polled for max.poll.interval.ms."""
        return self._clocks.is_poll_overdue(self._client.now_ms())

    def keep_beating(self) -> None:
        """Report what has changed, and begin if no heartbeats are sent."""
        self._news.set()
        if self._task is None or self._task.done():
            self._clocks.restart(self._client.now_ms())
            self._task = self._client.spawn(self._run())

    def report(self) -> None:
        """Something may have changed: have it reported at once."""
        self._news.set()

    def stop(self) -> None:
        """Send no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def leave(self, reason: str, until_ms: int) -> None:
        """Leave the group, if this is a member."""
        request = self._member.leave_request()
        if request is None:
            return
        _LOG.info("group %r: leaving: %s", self._link.group_id, reason)
        try:
            async with asyncio.timeout(max(1, until_ms - self._client.now_ms()) / 1000):
                await self._link.ask(request, self._response)
        except (ClientError, TimeoutError) as failure:
            _LOG.info("group %r: LeaveGroup failed: %s", self._link.group_id, failure)

    async def sleep(self, wait_ms: int) -> None:
        """Wait, unless a change must be reported to the coordinator."""
        self._news.clear()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return

    async def _run(self) -> None:
        failures = 0
        while self._failure is None:
            now_ms = self._client.now_ms()
            if self._clocks.is_poll_overdue(now_ms):
                await self._leave_stuck()
                return
            if not self._member.has_news(self._wishes()) and self._clocks.due_in_ms(now_ms):
                await self.sleep(self._clocks.next_event_in_ms(now_ms))
                continue
            if await self._beat():
                failures = 0
            else:
                failures += 1
                await asyncio.sleep(self._backoff.after(failures) / 1000)

    async def _beat(self) -> bool:
        """One heartbeat; False if it has to be repeated."""
        self._clocks.sent(self._client.now_ms())
        try:
            reply: Any = await self._link.ask(self._member.heartbeat_request(self._wishes()), self._response)
            before = self._member.target
            outcome = self._member.on_heartbeat(reply)
        except ClientError as error:
            return self._failed(error)
        if outcome is Outcome.PROCEED:
            self._clocks.set_interval(self._client.now_ms(), reply.heartbeat_interval_ms)
            if self._member.target is not before:
                self._notify()
            return True
        if outcome is Outcome.COORDINATOR_LOST:
            self._link.forget()
        self._notify()
        if outcome is Outcome.FENCED:
            await self._on_fenced()
        return False

    def _failed(self, error: Exception) -> bool:
        self._member.unanswered()
        passes = isinstance(error, BrokerUnavailable | DeadlinePassed)
        if not passes and not reaction_to(error).is_retriable:
            self._failure = error
            self._notify()
        return False

    async def _leave_stuck(self) -> None:
        """The application does not poll: leave the group. The next poll reports the partitions as lost."""
        _LOG.warning(
            "group %r: poll() was not called for max.poll.interval.ms=%d, leaving the group; raise it, or "
            "lower max.poll.records",
            self._link.group_id,
            self._settings.max_poll_interval_ms,
        )
        request = self._member.leave_request()
        self._notify()
        if request is not None:
            try:
                await self._link.ask(request, self._response)
            except ClientError as error:
                _LOG.info("group %r: LeaveGroup failed: %s", self._link.group_id, error)
