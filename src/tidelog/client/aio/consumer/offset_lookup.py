"""Requests offsets: committed ones, from leaders by time for resets, and to validate positions (KIP-320).

`ask_due` is called from `poll` and asks about every position that is due, until none is; the questions run beside it.
The end of a question lets its partitions be looked at again, also those that the reply lacked. Lookups for the
application (`beginning_offsets`, `offsets_for_times`, …) are waited for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.errors import LogTruncated, NoOffset
from tidelog.client.aio.consumer.offset_reset import LATEST_TIMESTAMP, ResetKind
from tidelog.client.aio.consumer.partition_state import FetchState, PartitionState, Position
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import error_code_of, reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, BrokerUnavailable, ClientError, DeadlinePassed, UnsupportedByBroker
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_LOG: Final = logging.getLogger("tidelog.client.consumer")
_CONSUMER: Final = -1
_UNKNOWN: Final = -1
_METADATA_WAIT_MS: Final = 300


class FoundOffset(NamedTuple):
    """What a leader answered; offset -1 if nothing is there."""

    offset: int
    timestamp: int
    leader_epoch: int


Committed = Callable[[Collection[TopicPartition], int], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]]
"""Reads committed offsets until a time; leaves out partitions without any."""


class OffsetLookup:
    """Positions from the group and from leaders. Lives in the loop of its client."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        wall_ms: Callable[[], int],
        committed: Committed | None,
    ) -> None:
        """`committed` is the group's, if there is one."""
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._wall_ms = wall_ms
        self._committed = committed
        self._failure: Exception | None = None
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)

    # For the application.

    async def find(self, times: Mapping[TopicPartition, int], until_ms: int) -> dict[TopicPartition, FoundOffset]:
        """The offset of each partition at its time; asks again while leaders move, until `until_ms`."""
        found: dict[TopicPartition, FoundOffset] = {}
        left = dict(times)
        topics = {partition.topic for partition in times}
        reason: Exception = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        failures = 0
        while left:
            try:
                await self._know(topics, until_ms)
                found.update(await self._ask_leaders(left))
            except (ApiError, BrokerUnavailable) as error:
                if not reaction_to(error).is_retriable:
                    raise
                reason = error
            left = {partition: time for partition, time in times.items() if partition not in found}
            if left:
                failures += 1
                await self._pause(failures, until_ms, f"offsets of {', '.join(map(str, left))}", reason)
                self._client.request_refresh()
        return found

    async def _know(self, topics: Collection[str], until_ms: int) -> None:
        """Have metadata of `topics`, which need not be subscribed to."""
        if any(self._client.metadata.topic(topic) is None for topic in topics):
            with self._subscription.also_knowing(topics), suppress(DeadlinePassed):
                # A short wait, because the caller retries: the response to an earlier request may lack these topics.
                await self._client.refresh(min(_METADATA_WAIT_MS, max(0, until_ms - self._client.now_ms())))

    async def _ask_leaders(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """One round of requests. Raises a leader's error once all have answered."""
        by_node = self._by_leader(times)
        if sum(map(len, by_node.values())) < len(times):
            self._client.request_refresh()
        answers = await asyncio.gather(
            *(self._list_offsets(node_id, each) for node_id, each in by_node.items()), return_exceptions=True
        )
        found: dict[TopicPartition, FoundOffset] = {}
        refusal: BaseException | None = None
        for answer in answers:
            if isinstance(answer, BaseException):
                refusal = answer
            else:
                found.update(answer)
        if refusal is not None and not found:
            raise refusal
        return found

    def _by_leader(self, times: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for partition, time in times.items():
            leader = self._client.metadata.leader(*partition)
            if leader is not None:
                by_node.setdefault(leader.node_id, {})[partition] = time
        return by_node

    async def _list_offsets(
        self, node_id: int, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        """Ask one leader. Partitions it refused for now are left out; other refusals are raised."""
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, partition), time in times.items():
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            epoch = self._client.metadata.leader_epoch(name, partition)
            topic.partitions.append(
                ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=time)
            )
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=1 if self._settings.reads_committed else 0,
            topics=list(topics.values()),
        )
        reply = await self._client.send(node_id, request, ListOffsetsResponse)
        found: dict[TopicPartition, FoundOffset] = {}
        for topic_response in reply.topics:
            for each in topic_response.partitions:
                partition_found = TopicPartition(topic_response.name, each.partition_index)
                if each.error_code == ErrorCode.NONE:
                    offset = each.old_style_offsets[0] if each.old_style_offsets else each.offset
                    found[partition_found] = FoundOffset(offset, each.timestamp, each.leader_epoch)
                elif not reaction_to(each.error_code).is_retriable:
                    code = error_code_of(each.error_code)
                    raise ApiError(code, f"{partition_found}: {code.text}")
        return found

    # For positions.

    def ask_due(self) -> None:
        """Ask about every position that is due. Raises what made an earlier question fail for good."""
        while due := self._subscription.due(self._client.now_ms()):
            for need, states in due.items():
                _QUESTIONS[need](self, states)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _ask(
        self, states: Sequence[PartitionState], question: Callable[[Sequence[PartitionState]], Awaitable[None]]
    ) -> None:
        """Run `question` about `states` beside the caller."""
        mark = object()
        for state in states:
            state.asked = mark
        self._client.spawn(self._answer(states, question, mark))

    async def _answer(
        self,
        states: Sequence[PartitionState],
        question: Callable[[Sequence[PartitionState]], Awaitable[None]],
        mark: object,
    ) -> None:
        try:
            await question(states)
        except ClientError as error:
            if not reaction_to(error).is_retriable:
                self._failure = error
        finally:
            left = [state for state in states if state.asked is mark]
            for state in left:
                state.asked = None
            if any(state.state is not FetchState.FETCHING for state in left):
                self._try_later(left)

    def _try_later(self, states: Iterable[PartitionState]) -> None:
        """Have the positions that are still missing asked for again after a pause, and of the leaders of that time."""
        until_ms = self._client.now_ms() + self._settings.retry_backoff_ms
        for state in states:
            if state.state is not FetchState.FETCHING:
                state.retry_at_ms = until_ms
        self._client.request_refresh()

    def _ask_group(self, states: Sequence[PartitionState]) -> None:
        """Begin where the group left off; without a group, or an offset of it, where auto.offset.reset says."""
        if self._committed is None:
            self._begin_without_offset(states)
        else:
            self._ask(states, self._load_committed)

    async def _load_committed(self, states: Sequence[PartitionState]) -> None:
        assert self._committed is not None, "only a group has committed offsets"
        until_ms = self._client.now_ms() + self._settings.default_api_timeout_ms
        found = await self._committed([state.topic_partition for state in states], until_ms)
        # Where another state is, a seek came first.
        waiting = [state for state in states if state.state is FetchState.INITIALIZING]
        for state in waiting:
            place = found.get(state.topic_partition)
            if place is not None:
                state.seek_unvalidated(Position(place.offset, place.leader_epoch))
        self._begin_without_offset([state for state in waiting if state.topic_partition not in found])

    def _begin_without_offset(self, states: Sequence[PartitionState]) -> None:
        policy = self._subscription.default_reset
        if not policy.is_none:
            for state in states:
                state.request_reset(policy)
        elif states:
            self._failure = NoOffset([state.topic_partition for state in states])
            self._try_later(states)

    def _ask_for_resets(self, states: Sequence[PartitionState]) -> None:
        """Send ListOffsets for partitions that await a reset."""
        self._ask(states, self._reset)

    async def _reset(self, states: Sequence[PartitionState]) -> None:
        policies = {state.topic_partition: state.reset for state in states}
        times = {each: policy.timestamp(self._wall_ms()) for each, policy in policies.items() if policy is not None}
        found = await self._ask_leaders(times)
        past_the_end = [each for each, place in found.items() if place.offset == _UNKNOWN]
        if past_the_end:
            # Nothing as young as the duration asked for: that is the end.
            found.update(await self._ask_leaders(dict.fromkeys(past_the_end, LATEST_TIMESTAMP)))
        for state in states:
            place = found.get(state.topic_partition)
            if state.state is not FetchState.AWAIT_RESET or state.reset != policies[state.topic_partition]:
                continue  # a seek came first
            if place is not None and place.offset != _UNKNOWN:
                _LOG.info("%s: position reset to offset %d", state.topic_partition, place.offset)
                # Without an epoch there is nothing to validate: the leader itself has just named this offset.
                state.seek(Position(place.offset))

    def start_finding_end(self, state: PartitionState) -> None:
        """Find the end of a partition. A fetch response has it too, but a session does not repeat it."""
        if not state.is_end_asked:
            state.is_end_asked = True
            self._client.spawn(self._find_end(state))

    async def _find_end(self, state: PartitionState) -> None:
        try:
            found = await self._ask_leaders({state.topic_partition: LATEST_TIMESTAMP})
        except ClientError:
            found = {}
        state.is_end_asked = False
        place = found.get(state.topic_partition)
        if place is not None:
            if self._settings.reads_committed:
                state.last_stable_offset = max(state.last_stable_offset, place.offset)
            else:
                state.high_watermark = max(state.high_watermark, place.offset)

    def _ask_for_validations(self, states: Sequence[PartitionState]) -> None:
        """Validate positions with the new leaders."""
        by_node: dict[int, list[PartitionState]] = {}
        for state in states:
            by_node.setdefault(state.leader.node_id, []).append(state)
        for those in by_node.values():
            self._ask(those, self._validate)

    async def _validate(self, states: Sequence[PartitionState]) -> None:
        asked = {state.topic_partition: (state, state.position) for state in states}
        try:
            reply = await self._client.send(
                states[0].leader.node_id, _epoch_request(states), OffsetForLeaderEpochResponse
            )
        except UnsupportedByBroker:
            for state in states:
                state.complete_validation()
            return
        for topic in reply.topics:
            for end in topic.partitions:
                state_asked, position = asked.get(TopicPartition(topic.topic, end.partition), (None, None))
                # A seek may have come first; the result is then obsolete.
                if state_asked is not None and state_asked.position == position:
                    self._take_end(state_asked, end)

    def _take_end(self, state: PartitionState, end: EpochEndOffset) -> None:
        position = state.position
        if state.state is not FetchState.AWAIT_VALIDATION or position is None:
            return
        if end.error_code != ErrorCode.NONE:
            if not reaction_to(end.error_code).is_retriable:
                code = error_code_of(end.error_code)
                self._failure = ApiError(code, f"{state.topic_partition}: {code.text}")
        elif end.end_offset == _UNKNOWN or end.leader_epoch == _UNKNOWN:
            self._truncated(state, None)
        elif end.end_offset < position.offset:
            self._truncated(state, Position(end.end_offset, end.leader_epoch))
        else:
            state.complete_validation()

    def _truncated(self, state: PartitionState, agreed: Position | None) -> None:
        """The log was truncated to `agreed`, if that is known."""
        partition, position = state.topic_partition, state.position
        assert position is not None, f"{partition} was validated without a position"
        policy = self._subscription.default_reset
        _LOG.warning("%s: the log was truncated below offset %d, to %s", partition, position.offset, agreed)
        if policy.kind is ResetKind.NONE:
            place = {} if agreed is None else {partition: OffsetAndMetadata(agreed.offset, "", agreed.epoch)}
            self._failure = LogTruncated({partition: position.offset}, place)
        elif agreed is None:
            state.request_reset(policy)
        else:
            state.complete_validation(agreed)

    async def _pause(self, failures: int, until_ms: int, what: str, reason: Exception) -> None:
        backoff_ms = self._backoff.after(failures)
        if self._client.now_ms() + backoff_ms > until_ms:
            raise DeadlinePassed(f"timed out looking up {what}: {reason}") from reason
        await asyncio.sleep(backoff_ms / 1000)


_QUESTIONS: Final[Mapping[FetchState, Callable[[OffsetLookup, Sequence[PartitionState]], None]]] = {
    FetchState.INITIALIZING: OffsetLookup._ask_group,
    FetchState.AWAIT_RESET: OffsetLookup._ask_for_resets,
    FetchState.AWAIT_VALIDATION: OffsetLookup._ask_for_validations,
}
"""What is asked of whom in each state. After each of these, the partitions given wait, or are in another state."""


def _epoch_request(states: Iterable[PartitionState]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for state in states:
        name, partition = state.topic_partition
        position = state.position
        assert position is not None, f"{state.topic_partition} awaits validation without a position"
        topic = topics.setdefault(name, OffsetForLeaderTopic(topic=name, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=state.leader.epoch, leader_epoch=position.epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
