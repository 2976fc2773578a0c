"""Heartbeats, sent by a task beside the application while the coordinator expects them.

It also detects that the application has stopped polling, and that the coordinator has stopped responding.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.heartbeats import HeartbeatClocks
from tidelog.client.aio.consumer.membership import Membership, Outcome
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import reaction_to
from tidelog.client.errors import ApiError, BrokerUnavailable, ClientError, DeadlinePassed
from tidelog.wire.messages.heartbeat import HeartbeatResponse
from tidelog.wire.messages.leave_group import LeaveGroupResponse

_LOG: Final = logging.getLogger("tidelog.client.consumer")


class HeartbeatSender:
    """Sends heartbeats from `begin` until the membership ends."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        membership: Membership,
        link: GroupLink,
        notify: Callable[[], None],
    ) -> None:
        self.clocks = HeartbeatClocks(
            settings.session_timeout_ms, settings.heartbeat_interval_ms, settings.max_poll_interval_ms
        )
        self._client = client
        self._settings = settings
        self._membership = membership
        self._link = link
        self._notify = notify
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    def begin(self) -> None:
        """A generation was joined: set the clocks and go on, or start."""
        self.clocks.restart(self._client.now_ms())
        self._failure = None
        if self._task is None or self._task.done():
            self._task = self._client.spawn(self._run())

    def stop(self) -> None:
        """Send no more."""
        if self._task is not None:
            self._task.cancel()

    def raise_failure(self) -> None:
        """Raise, once, the error of a heartbeat that ended the membership."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _run(self) -> None:
        while self._membership.must_heartbeat and self._failure is None:
            now_ms = self._client.now_ms()
            if self.clocks.is_poll_overdue(now_ms):
                await self._leave()
                return
            if self.clocks.is_session_over(now_ms):
                _LOG.warning("group %r: no heartbeat response within session.timeout.ms", self._link.group_id)
                self._link.forget()
                self.clocks.answered(now_ms)
            if self.clocks.due_in_ms(now_ms):
                await asyncio.sleep(self.clocks.next_event_in_ms(now_ms) / 1000)
            else:
                await self._beat(now_ms)

    async def _beat(self, now_ms: int) -> None:
        generation = self._membership.generation
        self.clocks.sent(now_ms)
        timeout_ms = min(self._settings.request_timeout_ms, self._settings.session_timeout_ms)
        try:
            reply = await self._link.ask(self._membership.heartbeat_request(), HeartbeatResponse, timeout_ms=timeout_ms)
            outcome = self._membership.on_heartbeat(reply.error_code, generation)
        except (ApiError, BrokerUnavailable, DeadlinePassed) as error:
            self._failed(error)
            return
        now_ms = self._client.now_ms()
        if outcome in (Outcome.RETRY, Outcome.COORDINATOR_LOST):
            self.clocks.failed(now_ms, self._settings.retry_backoff_ms)
            if outcome is Outcome.COORDINATOR_LOST:
                self._link.forget()
            return
        self.clocks.answered(now_ms)
        if outcome is Outcome.REJOIN:
            self._notify()

    def _failed(self, error: Exception) -> None:
        if isinstance(error, ApiError) and not reaction_to(error).is_retriable:
            self._failure = error
            self._notify()
            return
        self.clocks.failed(self._client.now_ms(), self._settings.retry_backoff_ms)

    async def _leave(self) -> None:
        """The application does not poll: leave the group. The next poll reports the partitions as lost."""
        _LOG.warning(
            "group %r: poll() was not called for max.poll.interval.ms=%d, leaving the group; raise it, or "
            "lower max.poll.records",
            self._link.group_id,
            self._settings.max_poll_interval_ms,
        )
        request = self._membership.leave_request("consumer poll timeout has expired.")
        self._notify()
        if request is not None:
            try:
                await self._link.ask(request, LeaveGroupResponse)
            except ClientError as error:
                _LOG.info("group %r: LeaveGroup failed: %s", self._link.group_id, error)
