"""OffsetFetch: how far groups have read; from version 8 on for several groups at once."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.broker.coordinators import Reply
from tidelog.coordination import Decision
from tidelog.groups import Committer, PartitionOffset
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_GROUP_ERROR_FROM: Final = 2
_SEVERAL_FROM: Final = 8

Offsets = Mapping[str, Sequence[PartitionOffset]]
Wanted = Sequence[tuple[str, Sequence[int]]] | None
Partition = TypeVar("Partition", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


class _Fetched(NamedTuple):
    """What became of one group: its offsets, or an error for all of them."""

    offsets: Offsets
    error: ErrorCode = ErrorCode.NONE


def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Ask the coordinator of each group."""
    if context.api_version >= _SEVERAL_FROM:
        return _handle_several(request, context)
    wanted = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]

    def shape(outcome: Offsets | ApiError) -> OffsetFetchResponse:
        fetched = _fetched(outcome)
        if not context.api_version:
            fetched = _Fetched(
                {name: [_as_version_0(entry) for entry in entries] for name, entries in fetched.offsets.items()},
                fetched.error,
            )
        if fetched.error and context.api_version < _GROUP_ERROR_FROM:
            fetched = _Fetched(_failed(wanted, fetched.error))
        return OffsetFetchResponse(
            error_code=fetched.error,
            topics=[
                OffsetFetchResponseTopic(
                    name=name, partitions=[_fill(OffsetFetchResponsePartition(), entry) for entry in entries]
                )
                for name, entries in fetched.offsets.items()
            ],
        )

    return context.node.groups.call(
        request.group_id,
        lambda shard, _respond, _now_ms: Decision(
            shard.fetch_offsets(request.group_id, wanted, request.require_stable)
        ),
        shape,
    )


async def _handle_several(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    groups = []
    for group in request.groups:
        found = _fetch_group(group, request.require_stable, context)
        groups.append(await found if isinstance(found, Reply) else found)
    return OffsetFetchResponse(groups=groups)


def _fetch_group(group: OffsetFetchRequestGroup, require_stable: bool, context: Context) -> OffsetFetchResponseGroup:
    is_member = group.member_id is not None or group.member_epoch >= 0
    reader = Committer(group.member_epoch, group.member_id or "") if is_member else None
    wanted = None if group.topics is None else [(topic.name, topic.partition_indexes) for topic in group.topics]

    def shape(outcome: Offsets | ApiError) -> OffsetFetchResponseGroup:
        fetched = _fetched(outcome)
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            error_code=fetched.error,
            topics=[
                OffsetFetchResponseTopics(
                    name=name, partitions=[_fill(OffsetFetchResponsePartitions(), entry) for entry in entries]
                )
                for name, entries in fetched.offsets.items()
            ],
        )

    return context.node.groups.call(
        group.group_id,
        lambda shard, _respond, _now_ms: Decision(shard.fetch_offsets(group.group_id, wanted, require_stable, reader)),
        shape,
    )


def _fetched(outcome: Offsets | ApiError) -> _Fetched:
    return _Fetched({}, outcome.code) if isinstance(outcome, ApiError) else _Fetched(outcome)


def _as_version_0(entry: PartitionOffset) -> PartitionOffset:
    """Version 0, which asked ZooKeeper, says in the error that there is no offset."""
    return entry if entry.committed is not None else entry._replace(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _failed(wanted: Wanted, error: ErrorCode) -> Offsets:
    """Old versions have room for an error only beside each partition."""
    return {name: [PartitionOffset(index, None, error) for index in indexes] for name, indexes in wanted or ()}


def _fill(partition: Partition, entry: PartitionOffset) -> Partition:
    """What was never committed is answered with -1 and no error."""
    committed = entry.committed
    partition.partition_index = entry.partition
    partition.committed_offset = -1 if committed is None else committed.offset
    partition.committed_leader_epoch = -1 if committed is None else committed.leader_epoch
    partition.metadata = "" if committed is None else committed.metadata
    partition.error_code = entry.error
    return partition
