"""Requests offsets from leaders: by time, for resets, and to validate positions (KIP-320).

Resets and validations are started from `poll` and run beside it; when they are done the partition can be fetched from.
Lookups for the application (`beginning_offsets`, `offsets_for_times`, …) are waited for.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from tidelog.client.aio.backoff import Backoff
from tidelog.client.aio.consumer.errors import LogTruncated
from tidelog.client.aio.consumer.offset_reset import LATEST_TIMESTAMP, ResetKind
from tidelog.client.aio.consumer.partition_state import FetchState, PartitionState, Position
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import error_code_of, reaction_to
from tidelog.client.errors import ApiError, BrokerUnavailable, ClientError, DeadlinePassed, UnsupportedByBroker
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
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


class OffsetLookup:
    """Offsets from leaders. Lives in the loop of its client."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        wall_ms: Callable[[], int],
        notify: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._wall_ms = wall_ms
        self._notify = notify
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

    def start_resets(self) -> None:
        """Send ListOffsets for partitions that await a reset, unless a request is under way."""
        self._raise_failure()
        waiting = self._subscription.in_state(FetchState.AWAIT_RESET, self._client.now_ms())
        if waiting:
            self._hold_back(waiting, self._settings.request_timeout_ms)
            self._client.spawn(self._reset(waiting))

    async def _reset(self, states: list[PartitionState]) -> None:
        policies = {state.topic_partition: state.reset for state in states}
        times = {each: policy.timestamp(self._wall_ms()) for each, policy in policies.items() if policy is not None}
        try:
            found = await self._ask_leaders(times)
            past_the_end = [each for each, place in found.items() if place.offset == _UNKNOWN]
            if past_the_end:
                # Nothing as young as the duration asked for: that is the end.
                found.update(await self._ask_leaders(dict.fromkeys(past_the_end, LATEST_TIMESTAMP)))
        except ClientError as error:
            self._give_up(states, error)
            return
        for state in states:
            place = found.get(state.topic_partition)
            if state.state is not FetchState.AWAIT_RESET or state.reset != policies[state.topic_partition]:
                continue  # a seek came first
            if place is None or place.offset == _UNKNOWN:
                self._hold_back([state], self._settings.retry_backoff_ms)
                self._client.request_refresh()
            else:
                _LOG.info("%s: position reset to offset %d", state.topic_partition, place.offset)
                # Without an epoch there is nothing to validate: the leader itself has just named this offset.
                state.seek(Position(place.offset))
        self._notify()

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

    def start_validations(self) -> None:
        """Validate positions with the new leaders, unless a request is under way."""
        self._raise_failure()
        waiting = self._subscription.in_state(FetchState.AWAIT_VALIDATION, self._client.now_ms())
        by_node: dict[int, list[PartitionState]] = {}
        for state in waiting:
            by_node.setdefault(state.leader.node_id, []).append(state)
        for node_id, states in by_node.items():
            self._hold_back(states, self._settings.request_timeout_ms)
            self._client.spawn(self._validate(node_id, states))

    async def _validate(self, node_id: int, states: list[PartitionState]) -> None:
        positions = {state.topic_partition: state.position for state in states}
        try:
            reply = await self._client.send(node_id, _epoch_request(states), OffsetForLeaderEpochResponse)
        except UnsupportedByBroker:
            for state in states:
                state.complete_validation()
        except ClientError as error:
            self._give_up(states, error)
            return
        else:
            for topic in reply.topics:
                for end in topic.partitions:
                    partition = TopicPartition(topic.topic, end.partition)
                    state_now = self._subscription.partitions.get(partition)
                    # A seek or a rebalance may have come first; the result is then obsolete.
                    if state_now is not None and state_now.position == positions.get(partition):
                        self._take_end(state_now, end)
        self._notify()

    def _take_end(self, state: PartitionState, end: EpochEndOffset) -> None:
        position = state.position
        if state.state is not FetchState.AWAIT_VALIDATION or position is None:
            return
        if end.error_code != ErrorCode.NONE:
            if reaction_to(end.error_code).is_retriable:
                self._hold_back([state], self._settings.retry_backoff_ms)
                self._client.request_refresh()
            else:
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
            self._hold_back([state], self._settings.request_timeout_ms)
        elif agreed is None:
            state.request_reset(policy)
        else:
            state.complete_validation(agreed)

    def _give_up(self, states: Iterable[PartitionState], error: Exception) -> None:
        """Retry later, or raise the error in `poll`, depending on the error."""
        if reaction_to(error).is_retriable:
            self._hold_back(states, self._settings.retry_backoff_ms)
            self._client.request_refresh()
        else:
            self._failure = error
            self._hold_back(states, self._settings.retry_backoff_ms)
        self._notify()

    def _hold_back(self, states: Iterable[PartitionState], for_ms: int) -> None:
        until_ms = self._client.now_ms() + for_ms
        for state in states:
            state.retry_at_ms = until_ms

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _pause(self, failures: int, until_ms: int, what: str, reason: Exception) -> None:
        backoff_ms = self._backoff.after(failures)
        if self._client.now_ms() + backoff_ms > until_ms:
            raise DeadlinePassed(f"timed out looking up {what}: {reason}") from reason
        await asyncio.sleep(backoff_ms / 1000)


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
