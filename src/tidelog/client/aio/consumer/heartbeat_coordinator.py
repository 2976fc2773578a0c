"""Takes a consumer through a group that the broker assigns (KIP-848): `group.protocol=consumer`.

Heartbeats run as a task beside the application and carry the protocol. `step`, called by every `poll`, moves partitions
towards the assignment that they brought: commit and revoke partitions, call the listener, take new partitions. So
listeners are only ever called inside `poll`, and the members of a group never wait for each other.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from tidelog.client.aio.consumer.auto_commit import AutoCommit
from tidelog.client.aio.consumer.commits import OffsetCommits, Offsets
from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.heartbeat_loop import HeartbeatLoop
from tidelog.client.aio.consumer.heartbeat_member import HeartbeatMember, Wishes
from tidelog.client.aio.consumer.listeners import Invoke, call_listener
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionKind, SubscriptionState
from tidelog.client.aio.network import NetworkClient
from tidelog.client.types import TopicPartition
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

_LOG: Final = logging.getLogger("tidelog.client.consumer")


class HeartbeatCoordinator:
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
        self.membership = HeartbeatMember(
            settings.group_id,
            settings.group_instance_id,
            settings.client_rack or None,
            settings.max_poll_interval_ms,
            settings.group_remote_assignor,
        )
        self.link = GroupLink(client, settings.group_id)
        self.commits = OffsetCommits(client, settings, subscription, self.membership, self.link, on_committed)
        self.auto_commit = AutoCommit(client, settings, self.commits, consumed)
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._invoke = invoke
        self._heartbeats = HeartbeatLoop(
            client,
            settings,
            self.link,
            self.membership,
            ConsumerGroupHeartbeatResponse,
            self._wishes,
            self._until_given_up,
            notify,
        )
        self._committing: tuple[asyncio.Task[None], frozenset[TopicPartition]] | None = None
        """The commit before a revocation, and the partitions that it is for."""
        self._seen_metadata = -1
        self._refreshed_for: object = None

    # What `poll` calls.

    async def step(self) -> None:
        """Do the next steps. Raises the error that ended the membership, or that a listener raised."""
        self._heartbeats.polled()
        if self._subscription.is_automatic:
            self._match_pattern()
            if self.membership.stable_generation is None:
                await self._give_up_lost()
            self._keep_beating()
            await self._reconcile()
        self.auto_commit.run_if_due(self._client.now_ms())

    @property
    def is_rebalancing(self) -> bool:
        """Whether an assignment is being waited for."""
        return self._subscription.is_automatic and (self.membership.target is None or bool(self._unsettled()))

    def request_rejoin(self, reason: str) -> None:
        """Report what this member owns; the coordinator assigns whenever that is due, and needs no request."""
        _LOG.info("group %r: sending a heartbeat early: %s", self.link.group_id, reason)
        self.membership.unanswered()
        self._heartbeats.report()

    def stop_heartbeats(self) -> None:
        """Send no more."""
        self._heartbeats.stop()

    async def leave(self, reason: str, until_ms: int) -> None:
        """Give up all partitions and leave the group."""
        self.stop_heartbeats()
        error = await self._give_up(self._subscription.partitions, is_lost=self.membership.stable_generation is None)
        await self._heartbeats.leave(reason, until_ms)
        if error is not None:
            raise error

    def _match_pattern(self) -> None:
        metadata = self._client.metadata
        if metadata.version == self._seen_metadata or self._subscription.kind is not SubscriptionKind.PATTERN:
            return
        self._seen_metadata = metadata.version
        with_internal = not self._settings.exclude_internal_topics
        self._subscription.match_topics(metadata.topic_names(with_internal=with_internal))

    # Towards the assignment.

    def _unsettled(self) -> set[TopicPartition]:
        """The partitions in which the assignment and what is owned differ."""
        target = self._resolved()
        return set() if target is None else target ^ self._subscription.partitions.keys()

    def _resolved(self) -> set[TopicPartition] | None:
        """The assignment by topic names. Ids that metadata does not know are looked up, and count once they are."""
        target = self.membership.target
        if target is None:
            return None
        found: set[TopicPartition] = set()
        for topic_id, partitions in target.items():
            name = self._client.metadata.topic_name(topic_id)
            if name is not None:
                found.update(TopicPartition(name, each) for each in partitions)
            elif self._refreshed_for is not target:
                self._refreshed_for = target
                self._client.request_refresh()
        return found

    async def _reconcile(self) -> None:
        """Give up and take partitions until what is owned is what is assigned; wait for the commit before that."""
        target = self._resolved()
        if target is None:
            return
        owned = self._subscription.partitions
        gone = [each for each in owned if each not in target]
        added = [each for each in target if each not in owned]
        self._hold_back(gone)
        if not gone and not added:
            return
        if gone and not self._is_committed(frozenset(gone)):
            return
        error = await self._give_up(gone, is_lost=False) if gone else None
        self.auto_commit.restart()
        self._subscription.assign_from_group([*self._subscription.partitions, *sorted(added)])
        self._subscription.follow_leaders(self._client.metadata)
        _LOG.info("group %r: epoch %d assigns %s", self.link.group_id, self.membership.member_epoch, _names(added))
        self._client.request_refresh()
        self._heartbeats.report()
        listener = self._subscription.listener
        if listener is not None and added:
            error = await call_listener(self._invoke, listener.on_assigned, tuple(sorted(added))) or error
        if error is not None:
            raise error

    def _hold_back(self, gone: Collection[TopicPartition]) -> None:
        """Return no records of `gone`: after the commit they would be read twice. The assignment may restore others."""
        for state in self._subscription:
            if state.is_revocation_pending and state.topic_partition not in gone:
                state.is_revocation_pending = False
                state.tracker.restarts += 1
        if self.auto_commit.is_enabled:
            for partition in gone:
                self._subscription.partitions[partition].is_revocation_pending = True

    def _is_committed(self, gone: frozenset[TopicPartition]) -> bool:
        """Whether the commit before giving up `gone` is over; begins it."""
        if not self.auto_commit.is_enabled:
            return True
        task, held_back = self._committing or (None, gone)
        if task is None or (task.done() and not gone <= held_back):
            until_ms = self._client.now_ms() + self._settings.max_poll_interval_ms
            task = self._client.spawn(self.auto_commit.commit_now(until_ms))
            self._committing = task, gone
        if not task.done():
            return False
        self._committing = None
        return True

    async def _give_up_lost(self) -> None:
        error = await self._give_up(self._subscription.partitions, is_lost=True)
        if error is not None:
            raise error

    async def _give_up(self, partitions: Collection[TopicPartition], *, is_lost: bool) -> Exception | None:
        gone = tuple(partitions)
        if not gone:
            return None
        listener, error = self._subscription.listener, None
        if listener is not None:
            error = await call_listener(self._invoke, listener.on_lost if is_lost else listener.on_revoked, gone)
        if self._subscription.is_automatic:
            kept = [each for each in self._subscription.partitions if each not in set(gone)]
            self._subscription.assign_from_group(kept)
        return error

    # Heartbeats, beside whatever the application does.

    def _wishes(self) -> Wishes:
        metadata = self._client.metadata
        owned = frozenset((metadata.topic_id(topic), partition) for topic, partition in self._subscription.partitions)
        return Wishes(self._subscription.topics, owned)

    def _keep_beating(self) -> None:
        if self._subscription.topics or self.membership.is_in:
            # A pattern that matches no topic yet has nothing to join for; Kafka refuses such a member.
            self._heartbeats.keep_beating()

    async def _until_given_up(self) -> None:
        """After being fenced: the next poll gives up what is lost, and only then may the member join again."""
        while self._subscription.partitions and not self._heartbeats.is_poll_overdue:
            await self._heartbeats.sleep(self._settings.retry_backoff_ms)


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "nothing new"
