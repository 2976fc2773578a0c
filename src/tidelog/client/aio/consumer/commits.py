"""Commits offsets with the group's coordinator, and reads back what was committed.

One attempt is one request; `commit` and `committed` repeat attempts until they succeed, fail for good or run out of
time. Errors that concern the membership are reported to it here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from tidelog.client.aio.consumer.errors import CommitFailed, RebalanceInProgress
from tidelog.client.aio.consumer.group_link import GroupLink
from tidelog.client.aio.consumer.heartbeat_member import HeartbeatMember
from tidelog.client.aio.consumer.membership import NO_GENERATION, Generation, Membership
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, BrokerUnavailable, DeadlinePassed, InvalidReply
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopics,
)
from tidelog.wire.primitives import NO_UUID, uuid_to_text

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
TopicIds = Mapping[str, bytes]
Result = TypeVar("Result")

_RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        # The member's epoch has moved on since the request was sent; the next attempt carries the new one.
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


_NAMES_UNTIL: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics."""


def _version_for(ids: TopicIds) -> int | None:
    """The newest version that can be sent: a topic whose id is not known has only a name."""
    return _NAMES_UNTIL if NO_UUID in ids.values() else None


def _name_of(topic_id: bytes, ids: TopicIds) -> str:
    """The topic that a request named by this id."""
    for name, known in ids.items():
        if known == topic_id:
            return name
    raise InvalidReply(f"the coordinator's response has the topic id {uuid_to_text(topic_id)}, which was not asked for")


def is_retriable(error: BaseException) -> bool:
    """Whether the same commit may succeed later."""
    if isinstance(error, ApiError):
        return error.code in _RETRIED
    return isinstance(error, BrokerUnavailable | DeadlinePassed)


class OffsetCommits:
    """Offsets of one group. Lives in the loop of its client."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        membership: Membership | HeartbeatMember,
        link: GroupLink,
        on_committed: Callable[[Offsets], None],
    ) -> None:
        self._client = client
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._settings = settings
        self._subscription = subscription
        self._membership = membership
        self._link = link
        self._on_committed = on_committed

    async def commit(self, offsets: Offsets, until_ms: int, *, awaits_topics: bool = True) -> None:
        """Commit, with retries until it succeeds, fails for good, or `until_ms` has passed.

        A topic that is not known may be on its way, or be gone: without `awaits_topics` it is not waited for.
        """
        final = () if awaits_topics else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
        # In every attempt the topics that there are now: never those that have their names later.
        ids = self._ids(offsets)
        await self._repeat(lambda: self.commit_once(offsets, ids), until_ms, "the commit", final)

    async def commit_once(self, offsets: Offsets, ids: TopicIds | None = None) -> None:
        """One attempt. Raises CommitFailed, RebalanceInProgress, ApiError or the connection's error."""
        if not offsets:
            return
        generation = self._generation_to_commit()
        ids = self._ids(offsets) if ids is None else ids
        request = self._commit_request(offsets, generation, ids)
        reply = await self._link.ask(request, OffsetCommitResponse, at_most=_version_for(ids))
        for topic in reply.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    where = f"{topic.name or _name_of(topic.topic_id, ids)}-{each.partition_index}"
                    self._refused(where, each.error_code, generation)
        self._on_committed(offsets)

    def _ids(self, partitions: Iterable[TopicPartition]) -> TopicIds:
        """The ids that the topics have now; zeroes for one whose id is not known."""
        metadata = self._client.metadata
        return {name: metadata.topic_id(name) for name in {partition.topic for partition in partitions}}

    async def committed(
        self, partitions: Collection[TopicPartition], until_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        if not partitions:
            return {}
        return await self._repeat(lambda: self._fetch_once(partitions), until_ms, "reading committed offsets")

    async def _repeat(
        self, attempt: Callable[[], Awaitable[Result]], until_ms: int, what: str, final: Collection[ErrorCode] = ()
    ) -> Result:
        failures = 0
        while True:
            try:
                return await attempt()
            except (ApiError, BrokerUnavailable, DeadlinePassed) as error:
                failures += 1
                backoff_ms = self._backoff.after(failures)
                if not is_retriable(error) or (isinstance(error, ApiError) and error.code in final):
                    raise
                if self._client.now_ms() + backoff_ms > until_ms:
                    raise DeadlinePassed(f"{what} timed out: {error}") from error
            await asyncio.sleep(backoff_ms / 1000)

    def _generation_to_commit(self) -> Generation:
        """The member that commits, if the group assigns partitions; else none."""
        if not self._subscription.is_automatic:
            return NO_GENERATION
        generation = self._membership.stable_generation
        if generation is not None:
            return generation
        if self._membership.is_rebalancing:
            raise RebalanceInProgress(
                "offsets cannot be committed while the group rebalances; poll() first, then commit what is still owned"
            )
        raise CommitFailed("offsets cannot be committed since this consumer is not part of an active group")

    def _commit_request(self, offsets: Offsets, generation: Generation, ids: TopicIds) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), place in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, topic_id=ids[name], partitions=[]))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=place.offset,
                    committed_leader_epoch=place.leader_epoch,
                    committed_metadata=place.metadata,
                )
            )
        is_member = generation is not NO_GENERATION
        return OffsetCommitRequest(
            group_id=self._link.group_id,
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._membership.group_instance_id if is_member else None,
            topics=list(topics.values()),
        )

    def _refused(self, where: str, error_code: int, sent_in: Generation) -> None:
        """Raise the error for a rejected commit."""
        code = error_code_of(error_code)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if self._membership.lose(code, sent_in):
                raise CommitFailed
            raise RebalanceInProgress("the group has rebalanced since the commit was sent; poll(), then commit again")
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._membership.request_rejoin("offset commit failed since group is already rebalancing")
            raise RebalanceInProgress("offsets cannot be committed while the group rebalances; poll(), then try again")
        self._learn(code)
        raise ApiError(code, f"commit of {where}: {code.text}")

    def _learn(self, code: ErrorCode) -> None:
        if reaction_to(code) is Reaction.FIND_COORDINATOR or code is ErrorCode.REQUEST_TIMED_OUT:
            self._link.forget()

    async def _fetch_once(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        ids = self._ids(partitions)
        request = self._fetch_request(partitions, ids)
        reply = await self._link.ask(request, OffsetFetchResponse, at_most=_version_for(ids))
        # Up to version 7 the reply is about the one group; from 8 on it has a list.
        group = reply.groups[0] if reply.groups else reply
        self._check(group.error_code, "committed offsets")
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        unanswered = set(partitions)
        for topic in group.topics:
            name = topic.name
            if not name and isinstance(topic, OffsetFetchResponseTopics):
                name = _name_of(topic.topic_id, ids)
            for each in topic.partitions:
                self._check(each.error_code, f"{name}-{each.partition_index}")
                partition = TopicPartition(name, each.partition_index)
                unanswered.discard(partition)
                if each.committed_offset >= 0:
                    found[partition] = OffsetAndMetadata(
                        each.committed_offset, each.metadata or "", each.committed_leader_epoch
                    )
        if unanswered:
            # Taken for "nothing committed", this would send the group back to where its reset policy says.
            raise InvalidReply(f"the coordinator's response lacks {', '.join(map(str, sorted(unanswered)))}")
        return found

    def _fetch_request(self, partitions: Iterable[TopicPartition], ids: TopicIds) -> OffsetFetchRequest:
        topics: dict[str, list[int]] = {}
        for name, partition in partitions:
            topics.setdefault(name, []).append(partition)
        group_id = self._link.group_id
        return OffsetFetchRequest(
            group_id=group_id,
            topics=[OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in topics.items()],
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group_id,
                    topics=[
                        OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=each)
                        for name, each in topics.items()
                    ],
                )
            ],
            # Offsets of a transaction that is still open are waited for, whatever the isolation level (KIP-447).
            require_stable=True,
        )

    def _check(self, error_code: int, what: str) -> None:
        if error_code == ErrorCode.NONE:
            return
        code = error_code_of(error_code)
        self._learn(code)
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._client.metadata.request_update()
        raise ApiError(code, f"group {self._link.group_id!r}, {what}: {code.text}")
