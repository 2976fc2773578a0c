"""Keeps fetches under way: one request to each broker with partitions to read, and a second one where it is urgent.

A request without new records waits at the broker. If a partition is sought, resumed or assigned in the meantime, it is
fetched through a second channel, with its own connection and session.

Records go into the `FetchBuffer`; the other fields of a reply go into the partition's state. Errors that new
metadata or another offset can fix are handled here; others are put into the buffer for `poll` to raise.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tidelog.client.aio.consumer.completed_fetch import CompletedFetch, Decoding
from tidelog.client.aio.consumer.errors import OffsetOutOfRange
from tidelog.client.aio.consumer.fetch_buffer import FetchBuffer
from tidelog.client.aio.consumer.fetch_plan import plan_fetches
from tidelog.client.aio.consumer.partition_state import PartitionState
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to
from tidelog.client.errors import ApiError, ClientError, RecordTooLarge
from tidelog.client.fetch_session import FetchEntry, FetchSession
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

_LOG: Final = logging.getLogger("tidelog.client.consumer")
# Apart from the default channel, where metadata and offsets are asked for: those must not wait behind a fetch either.
_FIRST_CHANNEL: Final = 2
_SECOND_CHANNEL: Final = 3

FetchChannel = tuple[int, int]
"""A broker and a channel to it."""


class _UnderWay(NamedTuple):
    """A request that was sent: its partitions, and the count of seeks, resumes and new positions before it."""

    wanted: Mapping[TopicPartition, FetchEntry]
    restarts: int


class Fetcher:
    """Sends fetches and takes their replies. Lives in the loop of its client."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ConsumerSettings,
        subscription: SubscriptionState,
        buffer: FetchBuffer,
        decoding: Decoding,
        notify: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._buffer = buffer
        self._decoding = decoding
        self._notify = notify
        self._sessions: dict[FetchChannel, FetchSession] = {}
        self._under_way: dict[FetchChannel, _UnderWay] = {}
        self._is_closed = False

    def send(self) -> None:
        """Send the fetches that are due. Call it whenever positions or assignments may have changed."""
        restarts = self._subscription.tracker.restarts
        current = {node_id for (node_id, _), each in self._under_way.items() if each.restarts == restarts}
        if self._is_closed or len(current) >= len(self._client.metadata.nodes):
            return  # every broker has a request that knows where all its partitions are
        under_way = {
            (node_id, partition, target.fetch_offset)
            for (node_id, _), each in self._under_way.items()
            for partition, target in each.wanted.items()
        }
        plan = plan_fetches(
            self._subscription,
            self._buffer,
            self._client.metadata,
            under_way,
            self._client.now_ms(),
            self._settings.max_partition_fetch_bytes,
        )
        if plan.needs_metadata:
            self._client.request_refresh()
        for node_id, wanted in plan.by_node.items():
            self._send_to(node_id, _UnderWay(wanted, restarts))

    def close(self) -> None:
        """Send nothing more; replies that still come are dropped."""
        self._is_closed = True

    def _send_to(self, node_id: int, sent: _UnderWay) -> None:
        channel = (node_id, _FIRST_CHANNEL)
        if channel in self._under_way:
            channel = (node_id, _SECOND_CHANNEL)
            if channel in self._under_way:
                return
        connection = self._client.ready_connection(node_id, self.send, channel[1])
        if connection is None:
            return
        settings = self._settings
        session = self._sessions.setdefault(channel, FetchSession())
        session.want_only(sent.wanted)
        changes = session.build()
        request = FetchRequest(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=1 if settings.reads_committed else 0,
            rack_id=settings.client_rack,
            session_id=changes.session_id,
            session_epoch=changes.session_epoch,
            topics=changes.topics,
            forgotten_topics_data=changes.forgotten,
        )
        try:
            reply = connection.send(request, FetchResponse, at_most=session.version_max)
        except ClientError:
            session.fail()
            raise
        self._under_way[channel] = sent
        reply.add_done_callback(lambda done: self._answered(channel, session, sent.wanted, done))

    def _answered(
        self,
        channel: FetchChannel,
        session: FetchSession,
        wanted: Mapping[TopicPartition, FetchEntry],
        done: "asyncio.Future[FetchResponse]",
    ) -> None:
        del self._under_way[channel]
        error = None if done.cancelled() else done.exception()
        if self._is_closed:
            return
        if done.cancelled() or error is not None:
            _LOG.info("fetch from broker %d failed: %s", channel[0], error)
            session.fail()
            self._forget_preferred_replicas(wanted)
            self._client.request_refresh()
        else:
            self._accept(session, wanted, done.result())
        self.send()
        self._notify()

    def _accept(self, session: FetchSession, wanted: Mapping[TopicPartition, FetchEntry], reply: FetchResponse) -> None:
        answered = session.accept(reply)
        if answered is None:
            _LOG.info("fetch session is reset: %s", error_code_of(reply.error_code).name)
            if reaction_to(reply.error_code) is Reaction.REFRESH_METADATA:
                self._client.request_refresh()
            return
        for key, data in answered:
            partition = TopicPartition(*key)
            state = self._subscription.partitions.get(partition)
            if state is None or not state.is_fetchable:
                continue
            offset = wanted[partition].fetch_offset
            if data.error_code == ErrorCode.NONE:
                self._take_data(state, offset, data)
            elif state.position is not None and state.position.offset == offset:
                self._take_error(state, offset, data, reply)

    def _take_data(self, state: PartitionState, offset: int, data: PartitionData) -> None:
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            until_ms = self._client.now_ms() + self._settings.metadata_max_age_ms
            state.prefer_replica(data.preferred_read_replica, until_ms)
        if not data.records:
            return
        aborted = None
        if self._settings.reads_committed:
            aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        fetch = CompletedFetch(state.topic_partition, offset, data.records, self._decoding, aborted)
        if fetch.is_done:
            limit = self._settings.max_partition_fetch_bytes
            error = RecordTooLarge(
                f"{state.topic_partition}: the next batch is larger than max.partition.fetch.bytes={limit}"
            )
            fetch = CompletedFetch.failed(state.topic_partition, offset, error)
        self._buffer.add(fetch)

    def _take_error(self, state: PartitionState, offset: int, data: PartitionData, reply: FetchResponse) -> None:
        code = error_code_of(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(state, offset)
            return
        if code is ErrorCode.OFFSET_NOT_AVAILABLE or reaction_to(code).is_retriable:
            state.forget_preferred_replica()
            if not self._learn_leader(state, data, reply):
                self._client.request_refresh()
                self._try_later(state)
            return
        self._buffer.add(
            CompletedFetch.failed(
                state.topic_partition,
                offset,
                ApiError(code, f"{state.topic_partition} at offset {offset}: {code.text}"),
            )
        )

    def _try_later(self, state: PartitionState) -> None:
        """Leave the partition alone for a moment; a broker that refuses at once would be asked without pause."""
        backoff_ms = self._settings.retry_backoff_ms
        state.retry_at_ms = self._client.now_ms() + backoff_ms
        asyncio.get_running_loop().call_later(backoff_ms / 1000 + 0.001, self._send_again)

    def _send_again(self) -> None:
        self._subscription.tracker.restarts += 1  # the requests under way were sent without the partition
        self.send()

    def _out_of_range(self, state: PartitionState, offset: int) -> None:
        if state.forget_preferred_replica():
            return  # a follower may be behind; its leader decides
        policy = self._subscription.default_reset
        if policy.is_none:
            error = OffsetOutOfRange({state.topic_partition: offset})
            self._buffer.add(CompletedFetch.failed(state.topic_partition, offset, error))
        else:
            _LOG.info(
                "%s: offset %d is out of range, resetting to %s", state.topic_partition, offset, policy.kind.value
            )
            state.request_reset(policy)

    def _learn_leader(self, state: PartitionState, data: PartitionData, reply: FetchResponse) -> bool:
        """Follow the leader that the reply names, if it names one we did not know (KIP-951)."""
        leader = data.current_leader
        nodes = [BrokerNode(each.node_id, each.host, each.port, each.rack) for each in reply.node_endpoints]
        is_newer = self._client.metadata.update_leader(
            state.topic_partition, leader.leader_id, leader.leader_epoch, nodes
        )
        if is_newer:
            self._subscription.follow_leaders(self._client.metadata)
        return is_newer

    def _forget_preferred_replicas(self, wanted: Mapping[TopicPartition, FetchEntry]) -> None:
        for partition in wanted:
            state = self._subscription.partitions.get(partition)
            if state is not None:
                state.forget_preferred_replica()
