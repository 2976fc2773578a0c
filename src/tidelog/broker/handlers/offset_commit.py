"""OffsetCommit: store how far a group has read; answered when it is committed to the log.

Version 0, which wrote to ZooKeeper, is kept here like the others: as a commit from outside the group.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.handlers._groups import committed_in_parts
from tidelog.broker.handlers._parts import are_few
from tidelog.groups import CommitCodes, Committer
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.offset_commit import CommittedTopic, decode_request, encode_response

if TYPE_CHECKING:
    from tidelog.broker.coordinators.replies import Eventual
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node
    from tidelog.coordination import Decision
    from tidelog.groups import GroupShard
    from tidelog.network.connection import Slot

CHECKS_ACCESS_IN_BYTES: Final = True
_EPOCHS_FROM: Final = 9
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_new = tuple.__new__


def handle(
    request: OffsetCommitRequest, context: Context
) -> Eventual[OffsetCommitResponse] | Coroutine[Any, Any, Eventual[OffsetCommitResponse]]:
    """Ask the group's coordinator; partitions that do not exist are refused one by one, whatever it says."""
    if not context.is_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id):
        return OffsetCommitResponse(topics=[_denied(each, _GROUP_DENIED) for each in request.topics])
    if are_few([topic.partitions for topic in request.topics]):
        return _commit(request, context)
    return committed_in_parts(request, OffsetCommitResponse(), _commit, context)


def _commit(request: OffsetCommitRequest, context: Context) -> Eventual[OffsetCommitResponse]:
    partition_count = context.node.image.partition_count
    committer = Committer(
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_epochs=context.api_version >= _EPOCHS_FROM,
    )
    allowed, denied = context.divide_topics(AclOperation.READ, request.topics)
    topics: list[CommittedTopic] = [
        (
            topic.name,
            [
                (
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    each.commit_timestamp,
                )
                for each in topic.partitions
            ],
        )
        for topic in allowed
    ]

    def shape(outcome: CommitCodes | ApiError) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                *(_denied(each, _TOPIC_DENIED) for each in denied),
                *(
                    OffsetCommitResponseTopic(
                        name=name,
                        partitions=[
                            OffsetCommitResponsePartition(partition_index=index, error_code=code)
                            for index, code in codes
                        ],
                    )
                    for name, codes in _codes(topics, outcome, partition_count)
                ),
            ]
        )

    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, now_ms: shard.commit_offsets(
            request.group_id, committer, topics, partition_count, now_ms, request.retention_time_ms
        ),
        shape,
    )


def _denied(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def handle_bytes(
    node: Node, slot: Slot, data: bytearray | memoryview, position: int, stop: int, version: int, correlation_id: int
) -> None:
    """The same for a small request, from its bytes to those of its reply."""
    group_id, generation, member_id, instance_id, retention_ms, topics = decode_request(data, position, stop, version)
    committer: Committer = _new(Committer, (generation, member_id, instance_id, version >= _EPOCHS_FROM))
    partition_count = node.image.partition_count
    denied: CommitCodes = []
    if node.access is not None:
        session, allows = slot.connection.session, node.access.allows
        if not allows(session, AclOperation.READ, AclResourceType.GROUP, group_id):
            slot.fill(encode_response(correlation_id, version, _denied_codes(topics, _GROUP_DENIED)))
            return
        refused = [each for each in topics if not allows(session, AclOperation.READ, AclResourceType.TOPIC, each[0])]
        if refused:
            denied = _denied_codes(refused, _TOPIC_DENIED)
            topics = [each for each in topics if each not in refused]

    def commit(shard: GroupShard, now_ms: int) -> Decision[CommitCodes]:
        return shard.commit_offsets(group_id, committer, topics, partition_count, now_ms, retention_ms)

    def respond(outcome: CommitCodes | ApiError) -> None:
        try:
            codes = _codes(topics, outcome, partition_count)
            slot.fill(encode_response(correlation_id, version, [*denied, *codes] if denied else codes))
        except Exception as cause:  # noqa: BLE001 - it belongs to the request, and no caller knows that
            slot.fail("OffsetCommit", cause)

    groups = node.groups
    groups.execute(group_id, commit, respond)
    if groups.waits_for_followers and slot.reply is None:
        slot.park()


def _denied_codes(topics: Sequence[CommittedTopic], code: ErrorCode) -> CommitCodes:
    return [(name, [(each[0], code) for each in partitions]) for name, partitions in topics]


def _codes(
    topics: Sequence[CommittedTopic], outcome: CommitCodes | ApiError, partition_count: Callable[[str], int]
) -> CommitCodes:
    """The error code of each partition; topics without any are left out."""
    if type(outcome) is list:
        if len(outcome) == 1 and outcome[0][1]:
            return outcome
        return [each for each in outcome if each[1]]
    assert isinstance(outcome, ApiError), "a commit succeeds or fails"
    code = outcome.code
    counted = [(name, partition_count(name), partitions) for name, partitions in topics if partitions]
    return [
        (name, [(each[0], code if 0 <= each[0] < count else _UNKNOWN_PARTITION) for each in partitions])
        for name, count, partitions in counted
    ]
