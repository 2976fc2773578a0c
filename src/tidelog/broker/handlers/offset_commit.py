"""OffsetCommit: store how far a group has read; answered when it is committed to the log.

Version 0, which wrote to ZooKeeper, is kept here like the others: as a commit from outside the group. From version 10
on topics are named by their ids; a commit for a topic that is gone is refused, even if another has its name by now.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from tidelog.wire.offset_commit import (
    TOPIC_IDS_FROM,
    CommittedPartition,
    CommittedTopic,
    TopicKey,
    decode_request,
    encode_response,
)

if TYPE_CHECKING:
    from tidelog.broker.coordinators.replies import Eventual
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node
    from tidelog.coordination import Decision
    from tidelog.groups import GroupShard
    from tidelog.metadata.image import ClusterImage
    from tidelog.network.connection import Slot

CHECKS_ACCESS_IN_BYTES: Final = True
_EPOCHS_FROM: Final = 9
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
_new = tuple.__new__
T = TypeVar("T")


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
    image = context.node.image
    partition_count = image.partition_count
    committer = Committer(
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        knows_epochs=context.api_version >= _EPOCHS_FROM,
        knows_missing_groups=context.api_version >= TOPIC_IDS_FROM,
    )
    named, unknown = request.topics, []
    if context.api_version >= TOPIC_IDS_FROM:
        for topic in named:
            topic.name = image.topic_name(topic.topic_id) or ""
        unknown = [topic for topic in named if not topic.name]
        named = [topic for topic in named if topic.name]
    ids = {topic.name: topic.topic_id for topic in named}
    allowed, denied = context.divide_topics(AclOperation.READ, named)
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
                *(_denied(each, _UNKNOWN_ID) for each in unknown),
                *(_denied(each, _TOPIC_DENIED) for each in denied),
                *(
                    OffsetCommitResponseTopic(
                        name=name,
                        topic_id=ids[name],
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
            request.group_id,
            committer,
            topics,
            partition_count,
            now_ms,
            request.retention_time_ms,
            topic_id_of=image.topic_id if context.node.features.are_topic_ids_kept else None,
        ),
        shape,
    )


def _denied(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )


def handle_bytes(
    node: Node, slot: Slot, data: bytearray | memoryview, position: int, stop: int, version: int, correlation_id: int
) -> None:
    """The same for a small request, from its bytes to those of its reply."""
    group_id, generation, member_id, instance_id, retention_ms, named = decode_request(data, position, stop, version)
    has_ids = version >= TOPIC_IDS_FROM
    committer: Committer = _new(Committer, (generation, member_id, instance_id, version >= _EPOCHS_FROM, has_ids))
    image = node.image
    partition_count = image.partition_count
    denied: list[tuple[TopicKey, list[tuple[int, ErrorCode]]]] = []
    ids: dict[str, bytes] | None = None
    if node.access is not None and not node.access.allows(
        slot.connection.session, AclOperation.READ, AclResourceType.GROUP, group_id
    ):
        slot.fill(encode_response(correlation_id, version, _denied_codes(named, _GROUP_DENIED)))
        return
    if has_ids:
        topics, ids, unknown = _known(named, image)
        denied += _denied_codes(unknown, _UNKNOWN_ID)
    else:
        topics = named  # type: ignore[assignment]
    if node.access is not None:
        session, allows = slot.connection.session, node.access.allows
        refused = [each for each in topics if not allows(session, AclOperation.READ, AclResourceType.TOPIC, each[0])]
        if refused:
            denied += _denied_codes(_keyed(refused, ids), _TOPIC_DENIED)
            topics = [each for each in topics if each not in refused]

    def commit(shard: GroupShard, now_ms: int) -> Decision[CommitCodes]:
        topic_id_of = image.topic_id if node.features.are_topic_ids_kept else None
        return shard.commit_offsets(
            group_id, committer, topics, partition_count, now_ms, retention_ms, None, topic_id_of
        )

    def respond(outcome: CommitCodes | ApiError) -> None:
        try:
            codes = _keyed(_codes(topics, outcome, partition_count), ids)
            slot.fill(encode_response(correlation_id, version, [*denied, *codes] if denied else codes))
        except Exception as cause:  # noqa: BLE001 - it belongs to the request, and no caller knows that
            slot.fail("OffsetCommit", cause)

    groups = node.groups
    groups.execute(group_id, commit, respond)
    if groups.waits_for_followers and slot.reply is None:
        slot.park()


def _known(
    named: Sequence[tuple[TopicKey, Sequence[CommittedPartition]]], image: ClusterImage
) -> tuple[list[CommittedTopic], dict[str, bytes], list[tuple[TopicKey, Sequence[CommittedPartition]]]]:
    """Topics by name, their ids by name, and those whose id no topic has."""
    topics: list[CommittedTopic] = []
    ids: dict[str, bytes] = {}
    unknown = []
    for topic_id, partitions in named:
        assert isinstance(topic_id, bytes), "this version has topic ids"
        name = image.topic_name(topic_id)
        if name is None:
            unknown.append((topic_id, partitions))
        else:
            topics.append((name, partitions))
            ids[name] = topic_id
    return topics, ids, unknown  # type: ignore[return-value]


def _keyed(topics: Sequence[tuple[str, T]], ids: Mapping[str, bytes] | None) -> Sequence[tuple[TopicKey, T]]:
    """Topics under the keys that the response has for them."""
    return topics if ids is None else [(ids[name], each) for name, each in topics]


def _denied_codes(
    topics: Sequence[tuple[TopicKey, Sequence[CommittedPartition]]], code: ErrorCode
) -> list[tuple[TopicKey, list[tuple[int, ErrorCode]]]]:
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
