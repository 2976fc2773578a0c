"""Share sessions with the leaders of the assigned partitions: records come in, acknowledgements go out.

There is one request under way to each broker, because those of a session are numbered. A fetch carries the
acknowledgements that wait for its broker; they go alone when nothing is to be fetched, or when they renew locks.
Records are fetched only while a poll waits for some: locks begin when the broker answers.

Acknowledgements go to the broker that locked the records. If that session is gone, so are the locks, and they fail.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.client.aio.consumer.completed_fetch import Decoding
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to, refusal
from tidelog.client.aio.share.acknowledging import batches_of, has_renewal
from tidelog.client.aio.share.locked import LockedRange, LockedRecords
from tidelog.client.aio.share.session import FINAL_EPOCH, ShareSession
from tidelog.client.aio.share.settings import ShareConsumerSettings
from tidelog.client.aio.share.types import RELEASED, Ack, AcknowledgeType, Acks, Origin, TopicIdPartition
from tidelog.client.errors import BrokerUnavailable, ClientError
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import share_acknowledge as acknowledging
from tidelog.wire.messages import share_fetch as fetching

_LOG: Final = logging.getLogger("tidelog.client.consumer")
# Apart from the default channel and the coordinator's: a fetch may wait long.
_CHANNEL: Final = 2

Assigned = Mapping[TopicIdPartition, TopicPartition]
OnAcknowledged = Callable[[Origin, Mapping[int, Ack], ClientError | None, int], None]
"""Origin, acknowledgements, the error if they were refused, and until when renewed locks last."""


class Receipt:
    """Acknowledgements that are sent together, and what became of them."""

    __slots__ = ("acks", "outcome")

    def __init__(self) -> None:
        self.acks: Acks = {}
        self.outcome: asyncio.Future[dict[TopicPartition, ClientError | None]] = (
            asyncio.get_running_loop().create_future()
        )

    def add(self, origin: Origin, acks: Mapping[int, Ack]) -> None:
        """More of them. Renewals may be followed by another acknowledgement of the same record: that one counts."""
        self.acks.setdefault(origin, {}).update(acks)


class _Broker:
    """One broker that leads, or has led, partitions of ours."""

    __slots__ = ("idle", "node_id", "retry_at_ms", "sent", "session", "waiting")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.session = ShareSession()
        self.waiting = Receipt()
        self.sent: Receipt | None = None
        self.idle = asyncio.Event()
        """Cleared while a request is under way."""
        self.idle.set()
        self.retry_at_ms = 0

    def take_waiting(self) -> Receipt:
        receipt, self.waiting = self.waiting, Receipt()
        self.sent = receipt
        return receipt


class ShareFetcher:
    """Lives in the loop of its client."""

    def __init__(
        self,
        client: NetworkClient,
        settings: ShareConsumerSettings,
        group_id: str,
        member_id: Callable[[], str],
        assigned: Callable[[], Assigned],
        decoding: Decoding,
        on_acknowledged: OnAcknowledged,
        notify: Callable[[], None],
    ) -> None:
        self.buffer: deque[LockedRecords] = deque()
        """Locked and not taken by a poll."""
        self.errors: deque[Exception] = deque()
        """For the next poll to raise."""
        self.records_max = 0
        """How many records a fetch may lock: 0 while no poll waits for records."""
        self.lock_ms: int | None = None
        """The duration of locks, as the last answer had it."""
        self._client = client
        self._settings = settings
        self._group_id = group_id
        self._member_id = member_id
        self._assigned = assigned
        self._decoding = decoding
        self._on_acknowledged = on_acknowledged
        self._notify = notify
        self._brokers: dict[int, _Broker] = {}
        self._known_as = member_id()
        self._is_closed = False

    # What the engine calls.

    def acknowledge(self, acks: Acks) -> None:
        """Have these sent with the next request to their broker."""
        for origin, each in acks.items():
            self._broker(origin.node_id).waiting.add(origin, each)

    def receipts(self) -> list[Receipt]:
        """The acknowledgements that are not answered yet."""
        found: list[Receipt] = []
        for broker in self._brokers.values():
            found += [each for each in (broker.sent, broker.waiting) if each is not None and each.acks]
        return found

    def send(self) -> None:
        """Send what is due. Call it whenever something may have changed."""
        if self._is_closed:
            return
        self._follow_member()
        # What was fetched is taken first: more locks could only wait, and acknowledgements would wait behind the fetch.
        wanted = self._wanted() if self.records_max and not self.buffer and not self.errors else {}
        for node_id in {*wanted, *self._brokers}:
            broker = self._broker(node_id)
            if broker.idle.is_set():
                self._send_to(broker, wanted.get(node_id, []))

    async def end_sessions(self) -> None:
        """Send the acknowledgements that wait and end all sessions; what is still locked is available to others."""
        self.records_max = 0
        self._is_closed = True
        self.buffer.clear()
        async with asyncio.TaskGroup() as tasks:
            for broker in self._brokers.values():
                tasks.create_task(self._end_session(broker))
        self._brokers.clear()
        self._is_closed = False

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True

    # Requests.

    def _broker(self, node_id: int) -> _Broker:
        return self._brokers.setdefault(node_id, _Broker(node_id))

    def _follow_member(self) -> None:
        """Sessions belong to a member id: with a new one, all begin again."""
        if self._known_as != self._member_id():
            self._known_as = self._member_id()
            for broker in self._brokers.values():
                broker.session.reset()

    def _wanted(self) -> dict[int, list[TopicIdPartition]]:
        """The assigned partitions, by leader."""
        found: dict[int, list[TopicIdPartition]] = {}
        metadata = self._client.metadata
        for key, where in self._assigned().items():
            leader = metadata.leader(*where)
            if leader is None:
                self._client.request_refresh()
            else:
                found.setdefault(leader.node_id, []).append(key)
        return found

    def _send_to(self, broker: _Broker, wanted: list[TopicIdPartition]) -> None:
        acks = broker.waiting.acks
        if acks and not broker.session.is_open:
            self._fail(broker.take_waiting(), refusal(ErrorCode.SHARE_SESSION_NOT_FOUND, f"broker {broker.node_id}"))
            broker.sent = None
            acks = {}
        if wanted and (wait_ms := broker.retry_at_ms - self._client.now_ms()) > 0:
            asyncio.get_running_loop().call_later(wait_ms / 1000 + 0.001, self.send)
            wanted = []
        is_alone = bool(acks) and (has_renewal(acks.values()) or not {origin.key for origin in acks} <= set(wanted))
        if not acks and not wanted:
            return
        connection = self._client.ready_connection(broker.node_id, self.send, _CHANNEL)
        if connection is None:
            self._give_up_if_unreachable(broker)
            return
        request, response = self._acknowledgement(broker) if is_alone else self._fetch(broker, wanted)
        receipt = broker.take_waiting()
        try:
            reply: asyncio.Future[Any] = connection.send(request, response)
        except ClientError as error:
            broker.sent = None
            self._session_failed(broker, receipt, error)
            self.errors.append(error)
            self._notify()
            return
        broker.idle.clear()
        reply.add_done_callback(lambda done: self._answered(broker, receipt, done))

    def _give_up_if_unreachable(self, broker: _Broker) -> None:
        """The connection is gone, and with it the session: its locks cannot be acknowledged any more."""
        if not broker.waiting.acks:
            return
        try:
            is_failing = self._client.link(broker.node_id, _CHANNEL).is_failing
        except BrokerUnavailable:
            is_failing = True
        if is_failing:
            broker.session.reset()
            self._fail(broker.take_waiting(), BrokerUnavailable(f"id {broker.node_id}", "it cannot be reached"))
            broker.sent = None

    def _fetch(
        self, broker: _Broker, wanted: list[TopicIdPartition]
    ) -> tuple[fetching.ShareFetchRequest, type[fetching.ShareFetchResponse]]:
        settings = self._settings
        changes = broker.session.fetch(wanted)
        acks = {origin.key: each for origin, each in broker.waiting.acks.items()}
        topics: dict[bytes, fetching.FetchTopic] = {}
        for key in dict.fromkeys((*changes.added, *acks)):
            topic = topics.setdefault(key[0], fetching.FetchTopic(topic_id=key[0]))
            batches = batches_of(acks.get(key, {}), fetching.AcknowledgementBatch)
            topic.partitions.append(fetching.FetchPartition(partition_index=key[1], acknowledgement_batches=batches))
        forgotten: dict[bytes, fetching.ForgottenTopic] = {}
        for topic_id, partition in changes.forgotten:
            gone = forgotten.setdefault(topic_id, fetching.ForgottenTopic(topic_id=topic_id))
            gone.partitions.append(partition)
        request = fetching.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._known_as,
            share_session_epoch=changes.epoch,
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_records=self.records_max,
            batch_size=self.records_max,
            share_acquire_mode=int(settings.is_strict),
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )
        return request, fetching.ShareFetchResponse

    def _acknowledgement(
        self, broker: _Broker, *, is_last: bool = False
    ) -> tuple[acknowledging.ShareAcknowledgeRequest, type[acknowledging.ShareAcknowledgeResponse]]:
        acks = broker.waiting.acks
        topics: dict[bytes, acknowledging.AcknowledgeTopic] = {}
        for origin, each in acks.items():
            topic_id, partition = origin.key
            topic = topics.setdefault(topic_id, acknowledging.AcknowledgeTopic(topic_id=topic_id))
            batches = batches_of(each, acknowledging.AcknowledgementBatch)
            topic.partitions.append(
                acknowledging.AcknowledgePartition(partition_index=partition, acknowledgement_batches=batches)
            )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._known_as,
            share_session_epoch=FINAL_EPOCH if is_last else broker.session.acknowledge(),
            is_renew_ack=has_renewal(acks.values()),
            topics=list(topics.values()),
        )
        return request, acknowledging.ShareAcknowledgeResponse

    async def _end_session(self, broker: _Broker) -> None:
        await broker.idle.wait()
        if not broker.session.is_open:
            self._fail(broker.take_waiting(), refusal(ErrorCode.SHARE_SESSION_NOT_FOUND, f"broker {broker.node_id}"))
            return
        for each in broker.waiting.acks.values():
            for offset in [offset for offset, ack in each.items() if ack.kind == AcknowledgeType.RENEW]:
                del each[offset]  # it is released with the session
        request, response = self._acknowledgement(broker, is_last=True)
        receipt = broker.take_waiting()
        try:
            reply = await self._client.link(broker.node_id, _CHANNEL).send(request, response)
        except ClientError as error:
            self._fail(receipt, error)
            return
        self._settle_acknowledged(receipt, reply)

    # Replies.

    def _answered(self, broker: _Broker, receipt: Receipt, done: "asyncio.Future[Any]") -> None:
        broker.idle.set()
        broker.sent = None
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or error is not None:
            _LOG.info("group %r: request to broker %d failed: %s", self._group_id, broker.node_id, error)
            failure = error if isinstance(error, ClientError) else BrokerUnavailable(f"id {broker.node_id}", str(error))
            self._session_failed(broker, receipt, failure)
        else:
            self._accept(broker, receipt, done.result())
        self.send()
        self._notify()

    def _accept(self, broker: _Broker, receipt: Receipt, reply: Any) -> None:
        code = error_code_of(reply.error_code)
        if code is not ErrorCode.NONE:
            error = refusal(reply.error_code, f"share session of {self._group_id!r}", reply.error_message)
            self._session_failed(broker, receipt, error)
            if code not in _BEGIN_AGAIN and not reaction_to(code).is_retriable:
                self.errors.append(error)
            return
        broker.session.answered()
        if reply.acquisition_lock_timeout_ms > 0:
            self.lock_ms = reply.acquisition_lock_timeout_ms
        if isinstance(reply, fetching.ShareFetchResponse):
            codes = {
                (topic.topic_id, data.partition_index): (data.acknowledge_error_code, data.acknowledge_error_message)
                for topic in reply.responses
                for data in topic.partitions
            }
            self._settle(receipt, codes)
            self._take(broker, reply)
        else:
            self._settle_acknowledged(receipt, reply)

    def _session_failed(self, broker: _Broker, receipt: Receipt, error: ClientError) -> None:
        """The broker may have processed the request or not: the session begins again."""
        broker.session.reset()
        broker.retry_at_ms = self._client.now_ms() + self._settings.retry_backoff_ms
        self._fail(receipt, error)
        self._client.request_refresh()

    def _take(self, broker: _Broker, reply: fetching.ShareFetchResponse) -> None:
        assigned = self._assigned()
        for topic in reply.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                if data.error_code != ErrorCode.NONE:
                    self._refused(broker, assigned.get(key), data, reply)
                if data.acquired_records:
                    self._locked(broker, key, assigned.get(key), data)

    def _locked(
        self, broker: _Broker, key: TopicIdPartition, where: TopicPartition | None, data: fetching.PartitionData
    ) -> None:
        name = where or TopicPartition(self._client.metadata.topic_name(key[0]) or "", key[1])
        locked = LockedRecords(
            Origin(broker.node_id, key, name),
            data.records,
            [LockedRange(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records],
            self._client.now_ms() + (self.lock_ms or 0),
            self._decoding,
        )
        if where is None or self._is_closed:
            # Assigned no more: others shall have them at once.
            self.acknowledge({locked.origin: dict.fromkeys(locked.all_offsets(), RELEASED)})
        else:
            self.buffer.append(locked)

    def _refused(
        self,
        broker: _Broker,
        where: TopicPartition | None,
        data: fetching.PartitionData,
        reply: fetching.ShareFetchResponse,
    ) -> None:
        """A partition could not be fetched: look for its leader, try later, or have poll raise the error."""
        code = error_code_of(data.error_code)
        if where is None:
            return
        if not reaction_to(code).is_retriable:
            self.errors.append(refusal(data.error_code, where, data.error_message))
            return
        leader = data.current_leader
        nodes = [BrokerNode(each.node_id, each.host, each.port, each.rack) for each in reply.node_endpoints]
        if not self._client.metadata.update_leader(where, leader.leader_id, leader.leader_epoch, nodes):
            broker.retry_at_ms = self._client.now_ms() + self._settings.retry_backoff_ms
            if reaction_to(code) is Reaction.REFRESH_METADATA:
                self._client.request_refresh()

    # Acknowledgements that are over.

    def _settle_acknowledged(self, receipt: Receipt, reply: acknowledging.ShareAcknowledgeResponse) -> None:
        if reply.error_code != ErrorCode.NONE:
            what = f"share session of {self._group_id!r}"
            self._fail(receipt, refusal(reply.error_code, what, reply.error_message))
            return
        codes = {
            (topic.topic_id, data.partition_index): (data.error_code, data.error_message)
            for topic in reply.responses
            for data in topic.partitions
        }
        self._settle(receipt, codes)

    def _settle(self, receipt: Receipt, codes: Mapping[TopicIdPartition, tuple[int, str | None]]) -> None:
        outcome: dict[TopicPartition, ClientError | None] = {}
        for origin, acks in receipt.acks.items():
            code, message = codes.get(origin.key, (0, None))
            error = refusal(code, origin.where, message) if code else None
            self._ended(origin, acks, error)
            outcome[origin.where] = error
        self._finish(receipt, outcome)

    def _fail(self, receipt: Receipt, error: ClientError) -> None:
        for origin, acks in receipt.acks.items():
            self._ended(origin, acks, error)
        self._finish(receipt, {origin.where: error for origin in receipt.acks})

    def _ended(self, origin: Origin, acks: Mapping[int, Ack], error: ClientError | None) -> None:
        self._on_acknowledged(origin, acks, error, self._client.now_ms() + (self.lock_ms or 0))

    def _finish(self, receipt: Receipt, outcome: dict[TopicPartition, ClientError | None]) -> None:
        if not receipt.outcome.done():
            receipt.outcome.set_result(outcome)


_BEGIN_AGAIN: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Errors after which a session begins again."""
