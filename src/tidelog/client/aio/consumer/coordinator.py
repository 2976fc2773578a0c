"""Takes a consumer through the rebalances of its group.

`step` is called by every `poll` and does what can be done now without waiting for the network: give up partitions
before joining, take over new ones after, call the rebalance listener for both. JoinGroup and SyncGroup run in a task in
the background; its end wakes the call that waits, as the end of every task of a consumer does. So listeners are only
ever called inside `poll`, and the position of no partition moves while it changes hands.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tidelog.client.aio.consumer.assignors import RebalanceProtocol, choose_protocol, make_assignors
from tidelog.client.aio.consumer.auto_commit import AutoCommit
from tidelog.client.aio.consumer.commits import OffsetCommits, Offsets
from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.heartbeat_sender import HeartbeatSender
from tidelog.client.aio.consumer.leader import Snapshot, assign, read_subscriptions, snapshot_of
from tidelog.client.aio.consumer.listeners import Invoke, call_listener
from tidelog.client.aio.consumer.membership import NO_GENERATION_ID, Membership, MemberState, Outcome
from tidelog.client.aio.consumer.protocol import Subscription, decode_assignment, encode_subscription
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionKind, SubscriptionState
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, BrokerUnavailable, ClientError, DeadlinePassed
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

_LOG: Final = logging.getLogger("tidelog.client.consumer")
# A coordinator that holds JoinGroup back answers at the rebalance timeout at the latest; the rest is for the way.
_JOIN_GRACE_MS: Final = 5000
_METADATA_WAIT_MS: Final = 300


class GroupCoordinator:
    """One consumer in its group. Lives in the loop of its client."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        consumed: Callable[[], Offsets],
        on_committed: Callable[[Offsets], None],
        invoke: Invoke,
        notify: Callable[[], None],
    ) -> None:
        assert settings.group_id is not None, "a coordinator needs a group"
        self.membership = Membership(
            settings.group_id, settings.group_instance_id, settings.session_timeout_ms, settings.max_poll_interval_ms
        )
        self.link = GroupLink(client, settings.group_id)
        self.commits = OffsetCommits(client, settings, subscription, self.membership, self.link, on_committed)
        self.auto_commit = AutoCommit(client, settings, self.commits, consumed)
        self.heartbeats = HeartbeatSender(client, settings, self.membership, self.link, notify)
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._invoke = invoke
        self._notify = notify
        self._assignors = {each.name: each for each in make_assignors(settings.partition_assignment_strategy)}
        self._protocol = choose_protocol(self._assignors.values())
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._joining: asyncio.Task[bytes | None] | None = None
        self._committing: asyncio.Task[None] | None = None
        self._joined_topics: frozenset[str] | None = None
        self._snapshot: Snapshot | None = None
        """As the leader: what the present assignment was made from."""
        self._seen_metadata = -1

    # What `poll` calls.

    async def step(self) -> None:
        """Do the next steps. Raises the error that ended the membership, or that a listener raised."""
        self.heartbeats.clocks.polled(self._client.now_ms())
        self.heartbeats.raise_failure()
        if self._subscription.is_automatic:
            self._look_at_metadata()
            if self._joined_topics is not None and self._joined_topics != self._subscription.topics:
                self.membership.request_rejoin("the subscription has changed")
            while self._has_to_join and await self._advance():
                pass
        self.auto_commit.run_if_due(self._client.now_ms())

    @property
    def _has_to_join(self) -> bool:
        if self._subscription.kind is SubscriptionKind.PATTERN and not self._client.metadata.version:
            return False  # the topics that match the pattern are not known yet
        return self.membership.is_rejoin_needed or self._joining is not None

    @property
    def is_rebalancing(self) -> bool:
        """Whether an assignment is being waited for."""
        return self._subscription.is_automatic and self._has_to_join

    def request_rejoin(self, reason: str) -> None:
        """Have the group rebalance."""
        self.membership.request_rejoin(reason)
        self._notify()

    def stop_heartbeats(self) -> None:
        """Send no more."""
        self.heartbeats.stop()

    async def leave(self, reason: str, until_ms: int) -> None:
        """Give up all partitions and leave the group."""
        if self._joining is not None:
            self._joining.cancel()
            self._joining = None
        error = await self._give_up_all()
        request = self.membership.leave_request(reason)
        self._joined_topics = None
        self._snapshot = None
        if request is not None:
            timeout_ms = max(1, until_ms - self._client.now_ms())
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self.link.ask(request, LeaveGroupResponse)
            except (ClientError, TimeoutError) as failure:
                _LOG.info("group %r: LeaveGroup failed: %s", self.link.group_id, failure)
        if error is not None:
            raise error

    def _look_at_metadata(self) -> None:
        """Notice, once per update, topics that a pattern matches now, and partitions that an assignment lacks."""
        metadata = self._client.metadata
        if metadata.version == self._seen_metadata:
            return
        self._seen_metadata = metadata.version
        if self._subscription.kind is SubscriptionKind.PATTERN:
            with_internal = not self._settings.exclude_internal_topics
            self._subscription.match_topics(metadata.topic_names(with_internal=with_internal))
        if self._snapshot is not None and self._snapshot != snapshot_of(metadata, self._subscription.group_topics):
            self.membership.request_rejoin("the partitions of subscribed topics have changed")

    # Before and after joining: the application's side.

    async def _advance(self) -> bool:
        """The next step of a rebalance; False if it has to wait for something."""
        if self._joining is None:
            if not self.membership.is_prepared and not await self._prepare():
                return False
            self._joining = self._client.spawn(self._join())
        if not self._joining.done():
            return False
        task, self._joining = self._joining, None
        assignment = task.result()
        if assignment is not None and self.membership.state is MemberState.STABLE:
            await self._complete(assignment)
        return True

    async def _prepare(self) -> bool:
        """Give up what has to be given up before joining; False while the commit before that is under way."""
        if self.auto_commit.is_enabled and self.membership.stable_generation is not None:
            if self._committing is None:
                self._hold_back_revoked()
                until_ms = self._client.now_ms() + self.membership.rebalance_timeout_ms
                self._committing = self._client.spawn(self.auto_commit.commit_now(until_ms))
            if not self._committing.done():
                return False
        self._committing = None
        if self._protocol is RebalanceProtocol.EAGER or self._is_lost:
            error = await self._give_up_all()
        else:
            error = await self._give_up_unsubscribed()
        self._snapshot = None
        self._subscription.forget_group_topics()
        self.membership.is_prepared = True
        if error is not None:
            raise error
        return True

    @property
    def _is_lost(self) -> bool:
        generation = self.membership.generation
        return generation.generation_id == NO_GENERATION_ID or not generation.member_id

    def _hold_back_revoked(self) -> None:
        """Return no more records of partitions about to go: they would come after the commit, and be read twice."""
        if self._protocol is RebalanceProtocol.EAGER:
            for state in self._subscription:
                state.is_revocation_pending = True

    async def _give_up_all(self) -> Exception | None:
        partitions = tuple(self._subscription.partitions)
        listener = self._subscription.listener
        error = None
        if listener is not None and partitions:
            error = await call_listener(
                self._invoke, listener.on_lost if self._is_lost else listener.on_revoked, partitions
            )
        if self._subscription.is_automatic:
            self._subscription.assign_from_group(())
        return error

    async def _give_up_unsubscribed(self) -> Exception | None:
        topics = self._subscription.topics
        kept = [each for each in self._subscription.partitions if each.topic in topics]
        gone = tuple(each for each in self._subscription.partitions if each.topic not in topics)
        if not gone:
            return None
        listener = self._subscription.listener
        error = await call_listener(self._invoke, listener.on_revoked, gone) if listener is not None else None
        self._subscription.assign_from_group(kept)
        return error

    async def _complete(self, data: bytes) -> None:
        """Take over the assignment of a generation."""
        self.membership.is_prepared = False
        assignment = decode_assignment(data)
        generation = self.membership.generation
        if not self._subscription.fits(assignment.partitions):
            self.membership.request_rejoin("the subscription has changed since joining")
            return
        owned = self._subscription.partitions
        added = tuple(each for each in assignment.partitions if each not in owned)
        gone = tuple(each for each in owned if each not in set(assignment.partitions))
        listener = self._subscription.listener
        errors: list[Exception | None] = []
        if gone:
            if listener is not None:
                errors.append(await call_listener(self._invoke, listener.on_revoked, gone))
            self.membership.request_rejoin("need to revoke partitions and re-join")
        assignor = self._assignors[generation.protocol_name or ""]
        assignor.on_assignment(assignment, generation.generation_id)
        self.auto_commit.restart()
        self._subscription.assign_from_group(assignment.partitions)
        self._subscription.follow_leaders(self._client.metadata)
        _LOG.info("group %r: generation %d assigns %s", self.link.group_id, generation.generation_id, _names(added))
        self._client.request_refresh()
        if listener is not None:
            errors.append(await call_listener(self._invoke, listener.on_assigned, added))
        for error in errors:
            if error is not None:
                raise error

    # Joining: the network's side.

    async def _join(self) -> bytes | None:
        """Join and synchronize, through all errors that pass. None if partitions must be given up again first."""
        failures = 0
        while self.membership.is_prepared:
            outcome: Outcome | bytes
            try:
                outcome = await self._join_once()
            except (ApiError, BrokerUnavailable, DeadlinePassed) as error:
                if isinstance(error, ApiError) and not reaction_to(error).is_retriable:
                    raise
                _LOG.info("group %r: joining failed, retrying: %s", self.link.group_id, error)
                outcome = Outcome.RETRY
            if isinstance(outcome, bytes):
                return outcome
            if outcome is Outcome.REJOIN:
                continue
            if outcome is Outcome.COORDINATOR_LOST:
                self.link.forget()
            failures += 1
            await asyncio.sleep(self._backoff.after(failures) / 1000)
        return None

    async def _join_once(self) -> Outcome | bytes:
        """One JoinGroup and, if it was accepted, one SyncGroup: the assignment, or what to do instead."""
        membership = self.membership
        self._joined_topics = self._subscription.topics
        request = membership.join_request([(name, self._tell_leader(name)) for name in self._assignors])
        timeout_ms = max(self._settings.request_timeout_ms, membership.rebalance_timeout_ms + _JOIN_GRACE_MS)
        joined = await self.link.ask(request, JoinGroupResponse, timeout_ms=timeout_ms)
        outcome = membership.on_joined(joined)
        if outcome is not Outcome.PROCEED:
            return outcome
        self.heartbeats.begin()
        assignments = await self._lead(joined) if joined.leader == joined.member_id else {}
        synced = await self.link.ask(membership.sync_request(assignments), SyncGroupResponse, timeout_ms=timeout_ms)
        outcome = membership.on_synced(synced)
        return bytes(synced.assignment) if outcome is Outcome.PROCEED else outcome

    def _tell_leader(self, name: str) -> bytes:
        return encode_subscription(
            Subscription(
                topics=tuple(self._joined_topics or ()),
                user_data=self._assignors[name].user_data(),
                owned=tuple(self._subscription.partitions),
                generation_id=self.membership.generation.generation_id,
                rack_id=self._settings.client_rack or None,
            )
        )

    async def _lead(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """Decide for the group."""
        assignor = self._assignors.get(joined.protocol_name or "")
        if assignor is None:
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the coordinator chose assignor {joined.protocol_name!r}, which this member does not have",
            )
        subscriptions = read_subscriptions(joined.members)
        self._subscription.add_group_topics(topic for each in subscriptions.values() for topic in each.topics)
        metadata = self._client.metadata
        while any(metadata.topic(topic) is None for topic in self._subscription.group_topics):
            with suppress(DeadlinePassed):
                await self._client.refresh(_METADATA_WAIT_MS)
        self._snapshot = snapshot_of(metadata, self._subscription.group_topics)
        if joined.skip_assignment:
            return {}
        return assign(assignor, self._protocol, self._snapshot, subscriptions)


def _names(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing new"
