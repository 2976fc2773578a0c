"""ShareFetch and ShareAcknowledge: lock records of partitions for a share group, and acknowledge them (KIP-932).

ShareFetch: acknowledge what the request names, then lock records of the partitions of the member's session; wait for
some if there are none. Version 2 adds a strict limit of records (KIP-1206) and renewed locks (KIP-1222).
ShareAcknowledge: acknowledge without fetching more.

Acknowledgements are answered when they are stored. A partition is in the response if it has records, an error, or if
the request acknowledged some of its records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidelog.broker.coordinators.replies import Eventual, Reply
from tidelog.broker.coordinators.share_partitions import (
    DelayedShareFetch,
    Fetched,
    LedPartition,
    ShareGroupRules,
    SharePartitions,
)
from tidelog.records.errors import CorruptRecordError
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.sharing.partition import Ack, AckType, check_ack
from tidelog.sharing.schemas import ShareKey
from tidelog.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, TopicIdPartition
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import share_acknowledge as acknowledging
from tidelog.wire.messages import share_fetch as fetching

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

LeaderT = TypeVar("LeaderT")
_RENEW_FROM: Final = 2
_STRICT: Final = 1
_RECORDS_MAX_DEFAULT: Final = 500

Acks = Mapping[TopicIdPartition, Sequence[Ack]]


class _Outcome(NamedTuple):
    """An error, or none."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: ApiError) -> _Outcome:
        return cls(error.code, error.message)


_FINE: Final = _Outcome()


async def handle_fetch(request: fetching.ShareFetchRequest, context: Context) -> Eventual[fetching.ShareFetchResponse]:
    """Acknowledge, lock, and answer now or when there is something."""
    member = _member_of(request, context)
    acks = _acks_of(request.topics)
    shares = context.node.shares.partitions
    rules = shares.rules_of(member.group_id)
    if request.is_renew_ack and (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records) != (
        0,
        0,
        0,
        0,
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a request that renews locks must not fetch: its limits must be 0")
    session = _session_of(request, acks, member, rules, context)
    outcomes = await _acknowledge(acks, member, request.is_renew_ack, context)
    fetch = _ShareFetch(request, member, session, rules, outcomes, context)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.sessions.close(session)
        return fetch.respond({})
    if request.is_renew_ack or request.max_bytes <= 0:
        return fetch.respond({})
    return await fetch.run()


async def handle_acknowledge(
    request: acknowledging.ShareAcknowledgeRequest, context: Context
) -> acknowledging.ShareAcknowledgeResponse:
    """Acknowledge records of a session; -1 ends it."""
    member = _member_of(request, context)
    acks = _acks_of(request.topics)
    shares = context.node.shares.partitions
    if request.share_session_epoch == INITIAL_EPOCH:
        raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "a session begins with a ShareFetch")
    now_ms = context.node.clock.monotonic_ms()
    session = shares.sessions.advance(member, request.share_session_epoch, now_ms)
    outcomes = await _acknowledge(acks, member, request.is_renew_ack, context)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.sessions.close(session)
    response = acknowledging.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=shares.rules_of(member.group_id).limits.lock_ms
    )
    leaders = _Leaders(context)
    for topic_id, indexes in _by_topic(outcomes).items():
        response.responses.append(
            acknowledging.ShareAcknowledgeTopicResponse(
                topic_id=topic_id,
                partitions=[
                    acknowledging.PartitionData(
                        partition_index=index,
                        error_code=outcomes[topic_id, index].code,
                        error_message=outcomes[topic_id, index].message,
                        current_leader=leaders.of(
                            (topic_id, index), outcomes[topic_id, index].code, acknowledging.LeaderIdAndEpoch
                        ),
                    )
                    for index in indexes
                ],
            )
        )
    response.node_endpoints = [acknowledging.NodeEndpoint(**endpoint) for endpoint in leaders.endpoints()]
    return response


# --- what both have in common ---


class _Member(NamedTuple):
    group_id: str
    member_id: str


def _member_of(request: Any, context: Context) -> _Member:
    context.node.shares.check_served()
    if not request.group_id or not request.member_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a group id and a member id are needed")
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    return _Member(request.group_id, request.member_id)


def _acks_of(topics: Iterable[Any]) -> dict[TopicIdPartition, list[Ack]]:
    """The acknowledgements of a request, by partition."""
    found: dict[TopicIdPartition, list[Ack]] = {}
    for topic in topics:
        for entry in topic.partitions:
            if entry.acknowledgement_batches:
                found.setdefault((topic.topic_id, entry.partition_index), []).extend(
                    Ack(batch.first_offset, batch.last_offset, batch.acknowledge_types, batch.delay_ms)
                    for batch in entry.acknowledgement_batches
                )
    return found


def _session_of(
    request: fetching.ShareFetchRequest, acks: Acks, member: _Member, rules: ShareGroupRules, context: Context
) -> ShareSession:
    """The session of a fetch, begun or gone on with; raises ApiError."""
    sessions = context.node.shares.partitions.sessions
    now_ms = context.node.clock.monotonic_ms()
    if request.share_session_epoch == INITIAL_EPOCH:
        if acks:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the request that begins a session acknowledges records")
        session = sessions.open(member, context.slot.connection, rules.sessions_max, now_ms)
    else:
        session = sessions.advance(member, request.share_session_epoch, now_ms)
    if request.share_session_epoch != FINAL_EPOCH:
        for topic in request.topics:
            for entry in topic.partitions:
                session.partitions.setdefault((topic.topic_id, entry.partition_index))
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.partitions.pop((forgotten.topic_id, index), None)
    return session


async def _acknowledge(
    acks: Acks, member: _Member, is_renewal: bool, context: Context
) -> dict[TopicIdPartition, _Outcome]:
    """Acknowledge records of several partitions; what became of each, once everything is stored."""
    shares = context.node.shares.partitions
    rules = shares.rules_of(member.group_id)
    outcomes: dict[TopicIdPartition, _Outcome] = {}
    waiting: dict[TopicIdPartition, asyncio.Future[ErrorCode]] = {}
    for key, entries in acks.items():
        try:
            _check_types(entries, is_renewal=is_renewal and context.api_version >= _RENEW_FROM)
            if is_renewal and not rules.can_renew:
                text = f"share.renew.acknowledge.enable is false for {member.group_id}"
                raise ApiError(ErrorCode.INVALID_REQUEST, text)
            _check_topic(key[0], context)
            led = await shares.get(ShareKey(member.group_id, *key))
            future = shares.acknowledge(led, member.member_id, entries, rules)
        except ApiError as error:
            outcomes[key] = _Outcome.of(error)
            continue
        outcomes[key] = _FINE
        if future is not None:
            waiting[key] = future
    for key, future in waiting.items():
        outcomes[key] = _Outcome(await future)
    return outcomes


def _check_types(entries: Sequence[Ack], *, is_renewal: bool) -> None:
    for ack in entries:
        check_ack(ack)
        if AckType.RENEW in ack.types and not is_renewal:
            raise ApiError(ErrorCode.INVALID_REQUEST, "locks are renewed, but the request does not say so")


def _check_topic(topic_id: bytes, context: Context) -> str:
    """The name of a topic that the client may read; raises ApiError."""
    name = context.node.image.topic_name(topic_id)
    if name is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    context.check_allowed(AclOperation.READ, AclResourceType.TOPIC, name)
    return name


class _Leaders:
    """The leaders that a client is sent to, as the response names them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._named: dict[int, dict[str, Any]] = {}

    def of(self, key: TopicIdPartition, code: ErrorCode, make: Callable[..., LeaderT]) -> LeaderT:
        """Leader and epoch of a partition that is led elsewhere; of others, what Kafka says."""
        image = self._context.node.image
        topic = image.topic_by_id(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or partition is None:
            unknown = 0 if code is ErrorCode.NONE else -1
            return make(leader_id=unknown, leader_epoch=unknown)
        broker = image.broker(partition.leader_id)
        endpoint = None if broker is None else broker.endpoint(self._context.session.listener)
        if broker is not None and endpoint is not None:
            self._named[broker.broker_id] = {
                "node_id": broker.broker_id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": broker.rack,
            }
        return make(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)

    def endpoints(self) -> Iterable[dict[str, Any]]:
        return self._named.values()


def _by_topic(keys: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        found.setdefault(topic_id, []).append(index)
    return found


# --- fetching ---


class _ShareFetch:
    """One ShareFetch whose acknowledgements are done."""

    def __init__(
        self,
        request: fetching.ShareFetchRequest,
        member: _Member,
        session: ShareSession,
        rules: ShareGroupRules,
        outcomes: Mapping[TopicIdPartition, _Outcome],
        context: Context,
    ) -> None:
        self._request = request
        self._member = member
        self._session = session
        self._rules = rules
        self._outcomes = outcomes
        self._context = context
        self._shares: SharePartitions = context.node.shares.partitions
        self._errors: dict[TopicIdPartition, _Outcome] = {}

    async def run(self) -> Eventual[fetching.ShareFetchResponse]:
        """Lock what is there; wait for something if there is nothing, unless there is an error to tell of."""
        led = await self._load()
        fetched = self._acquire(led)
        has_news = fetched or self._errors or any(outcome.code for outcome in self._outcomes.values())
        if has_news or self._request.max_wait_ms <= 0 or not led:
            return self.respond(fetched)
        node, slot = self._context.node, self._context.slot
        # Nothing is locked for a client that has left meanwhile.
        reply: Reply[fetching.ShareFetchResponse] = Reply(
            lambda _: self.respond({} if slot.connection.is_closed else self._acquire(led))
        )
        waiting = DelayedShareFetch(
            list(led.values()),
            lambda each: self._shares.may_acquire(each, self._rules),
            lambda: reply(None),
            partial(slot.fail, "ShareFetch"),
            node.clock.monotonic_ms() + self._request.max_wait_ms,
        )
        self._shares.wait(waiting)
        return reply

    async def _load(self) -> dict[TopicIdPartition, LedPartition]:
        """The partitions of the session that can be read; notes the errors of the others."""
        found = {}
        for key in list(self._session.partitions):
            try:
                _check_topic(key[0], self._context)
                found[key] = await self._shares.get(ShareKey(self._member.group_id, *key))
            except ApiError as error:
                self._errors[key] = _Outcome.of(error)
        return found

    def _acquire(self, led: Mapping[TopicIdPartition, LedPartition]) -> dict[TopicIdPartition, Fetched]:
        """Lock records, partition by partition, within the limits of the request."""
        request, node = self._request, self._context.node
        fetched: dict[TopicIdPartition, Fetched] = {}
        bytes_left = min(request.max_bytes, node.config.fetch_max_bytes)
        if node.client_quotas.limits_fetch:
            bytes_left = node.client_quotas.fetch_bytes_max(self._context.slot.connection, bytes_left)
        records_left = request.max_records or _RECORDS_MAX_DEFAULT
        for key, each in led.items():
            if bytes_left <= 0 or records_left <= 0:
                break
            try:
                found = self._shares.acquire(
                    each,
                    self._member.member_id,
                    self._rules,
                    max_bytes=bytes_left,
                    records_max=records_left,
                    batch_records=max(request.batch_size, 1),
                    is_strict=request.share_acquire_mode == _STRICT,
                )
            except ApiError as error:
                self._errors[key] = _Outcome.of(error)
                continue
            except LogDirFailure as failure:
                node.replica_manager.fail_log_dir(failure)
                self._errors[key] = _Outcome(failure.code)
                continue
            except CorruptRecordError as error:
                self._errors[key] = _Outcome(ErrorCode.CORRUPT_MESSAGE, str(error))
                continue
            if found is not None:
                fetched[key] = found
                bytes_left -= len(found.records)
                records_left -= sum(last - first + 1 for first, last, _ in found.acquired)
                self._session.move_to_end(key)
        return fetched

    def respond(self, fetched: Mapping[TopicIdPartition, Fetched]) -> fetching.ShareFetchResponse:
        """The partitions that there is something to say about."""
        leaders = _Leaders(self._context)
        keys = dict.fromkeys((*self._outcomes, *fetched, *self._errors))
        response = fetching.ShareFetchResponse(
            acquisition_lock_timeout_ms=self._rules.limits.lock_ms,
            responses=[
                fetching.ShareFetchableTopicResponse(
                    topic_id=topic_id,
                    partitions=[self._partition_data((topic_id, index), fetched, leaders) for index in indexes],
                )
                for topic_id, indexes in _by_topic(keys).items()
            ],
        )
        response.node_endpoints = [fetching.NodeEndpoint(**endpoint) for endpoint in leaders.endpoints()]
        client_quotas = self._context.node.client_quotas
        if client_quotas.limits_fetch:
            size = sum(len(found.records) for found in fetched.values())
            response.throttle_time_ms = client_quotas.count_sent(self._context.slot.connection, size)
        return response

    def _partition_data(
        self, key: TopicIdPartition, fetched: Mapping[TopicIdPartition, Fetched], leaders: _Leaders
    ) -> fetching.PartitionData:
        error, outcome, found = self._errors.get(key, _FINE), self._outcomes.get(key, _FINE), fetched.get(key)
        moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = moved if moved in (error.code, outcome.code) else error.code
        return fetching.PartitionData(
            partition_index=key[1],
            error_code=error.code,
            error_message=error.message,
            acknowledge_error_code=outcome.code,
            acknowledge_error_message=outcome.message,
            current_leader=leaders.of(key, code, fetching.LeaderIdAndEpoch),
            records=b"" if found is None else found.records,
            acquired_records=[]
            if found is None
            else [
                fetching.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                for first, last, count in found.acquired
            ],
        )
