"""TxnOffsetCommit: store offsets of a group that take effect when a transaction is committed.

From version 3 on the member names itself, so that one that has left its group cannot commit for it (KIP-447). From
version 5 on the partition of the group is added to the transaction (KIP-890), from version 6 on topics are named by
their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.coordinators.replies import Eventual, Reply
from tidelog.broker.handlers._groups import committed_in_parts
from tidelog.broker.handlers._parts import are_few
from tidelog.broker.handlers._verification import NOT_VERIFIED, ClientSupport, Verification, verify
from tidelog.coordination import ProducerEpoch
from tidelog.groups import CommitCodes, Committer
from tidelog.metadata.image import OFFSETS_TOPIC
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.wire.offset_commit import NO_TIMESTAMP, CommittedTopic

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node
    from tidelog.storage.producers.verification import VerificationGuard

_ABORTABLE_FROM: Final = 4
_ADDING_FROM: Final = 5
_TOPIC_IDS_FROM: Final = 6
_LOADING_SINCE: Final = 2
_NO_SEQUENCE: Final = -1


def handle(
    request: TxnOffsetCommitRequest, context: Context
) -> Eventual[TxnOffsetCommitResponse] | Coroutine[Any, Any, Eventual[TxnOffsetCommitResponse]]:
    """Verify the transaction, then call the group's coordinator."""
    try:
        context.check_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    except ApiError as error:
        return _shaper(request.topics, [], [], context)(error)
    if are_few([topic.partitions for topic in request.topics]):
        return _verify_and_commit(request, context)
    return committed_in_parts(request, TxnOffsetCommitResponse(), _verify_and_commit, context)


def _verify_and_commit(request: TxnOffsetCommitRequest, context: Context) -> Eventual[TxnOffsetCommitResponse]:
    node = context.node
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    partition = (OFFSETS_TOPIC, node.groups.partition_of(request.group_id))
    named, unknown = _named(request.topics, context)
    allowed, denied = context.divide_topics(AclOperation.READ, named)
    reply = Reply(_shaper(allowed, denied, unknown, context))

    def commit(verification: Verification) -> None:
        refusal, guard = verification.get(partition, NOT_VERIFIED)
        if guard is not None and not _is_still_verified(node, partition, producer, guard):
            refusal = ApiError(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")
        if refusal is not None:
            reply(refusal)
        else:
            _commit(request, allowed, producer, context, reply)

    support = ClientSupport.of(context.api_version, _ABORTABLE_FROM, _ADDING_FROM)
    verify(node, request.transactional_id, producer, {partition: _NO_SEQUENCE}, support, commit)
    if not reply.is_there:
        node.transactions.reach("offsets-staged")
    return reply.result()


def _named(
    topics: list[TxnOffsetCommitRequestTopic], context: Context
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitRequestTopic]]:
    """Topics with their names, and those whose id no topic has."""
    if context.api_version < _TOPIC_IDS_FROM:
        return topics, []
    for topic in topics:
        topic.name = context.node.image.topic_name(topic.topic_id) or ""
    return [topic for topic in topics if topic.name], [topic for topic in topics if not topic.name]


def _is_still_verified(
    node: Node, partition: tuple[str, int], producer: ProducerEpoch, guard: VerificationGuard
) -> bool:
    hosted = node.replica_manager.find(*partition)
    return hosted is not None and hosted.log.producer_state.is_verified(*producer, guard)


def _commit(
    request: TxnOffsetCommitRequest,
    allowed: Sequence[TxnOffsetCommitRequestTopic],
    producer: ProducerEpoch,
    context: Context,
    reply: Reply[TxnOffsetCommitResponse],
) -> None:
    node = context.node
    committer = Committer(
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_missing_groups=context.api_version >= _TOPIC_IDS_FROM,
    )
    topics: list[CommittedTopic] = [
        (
            topic.name,
            [
                (
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    NO_TIMESTAMP,
                )
                for each in topic.partitions
            ],
        )
        for topic in allowed
    ]

    def respond(outcome: CommitCodes | ApiError) -> None:
        node.transactions.reach("offsets-committed")
        reply(outcome)

    node.groups.execute(
        request.group_id,
        lambda shard, now_ms: shard.commit_offsets(
            request.group_id,
            committer,
            topics,
            node.image.partition_count,
            now_ms,
            producer=producer,
            topic_id_of=node.image.topic_id if node.features.are_topic_ids_kept else None,
        ),
        respond,
    )


def _shaper(
    allowed: Sequence[TxnOffsetCommitRequestTopic],
    denied: Sequence[TxnOffsetCommitRequestTopic],
    unknown: Sequence[TxnOffsetCommitRequestTopic],
    context: Context,
) -> Callable[[CommitCodes | ApiError], TxnOffsetCommitResponse]:
    ids = {topic.name: topic.topic_id for topic in (*allowed, *denied)}

    def code_all(topics: Sequence[TxnOffsetCommitRequestTopic], code: ErrorCode) -> CommitCodes:
        return [(topic.name, [(each.partition_index, code) for each in topic.partitions]) for topic in topics]

    def shape_topic(name: str, topic_id: bytes, codes: Iterable[tuple[int, ErrorCode]]) -> TxnOffsetCommitResponseTopic:
        partitions = [TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in codes]
        return TxnOffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)

    def shape(outcome: CommitCodes | ApiError) -> TxnOffsetCommitResponse:
        if isinstance(outcome, ApiError):
            code = _error_for_version(outcome.code, context.api_version)
            outcome = code_all(allowed, code)
        refused = code_all(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return TxnOffsetCommitResponse(
            topics=[
                *(
                    shape_topic("", topic.topic_id, codes)
                    for topic, (_, codes) in zip(unknown, code_all(unknown, ErrorCode.UNKNOWN_TOPIC_ID), strict=True)
                ),
                *(shape_topic(name, ids[name], codes) for name, codes in [*refused, *outcome]),
            ]
        )

    return shape


def _error_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """The code in a response of `version`. Old clients fail on COORDINATOR_LOAD_IN_PROGRESS: they get NOT_AVAILABLE."""
    if code is ErrorCode.NOT_ENOUGH_REPLICAS or (
        code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE
    ):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
