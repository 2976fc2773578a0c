"""ListDelayedRecords and AlterDelayedRecords, APIs of Tidelog: list, cancel and move records that wait."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.records.delayed import key_of, unpack_entry, value_bytes_of
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.own_messages import (
    AlterDelayedRecordsRequest,
    AlterDelayedRecordsResponse,
    AlteredDelayedPartition,
    DelayedPartitionListing,
    DelayedRecordListing,
    ListDelayedRecordsRequest,
    ListDelayedRecordsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.replication.delayed import DelayedPartition

LISTED_MAX: Final = 10_000
"""Most records of a partition in one response."""
_CHANGED_AT_ONCE: Final = 2000


async def list_records(request: ListDelayedRecordsRequest, context: Context) -> ListDelayedRecordsResponse:
    """The records that wait, the next due first; of one key if that is given."""
    response = ListDelayedRecordsResponse()
    for index in request.partitions:
        await context.pause()
        try:
            context.check_allowed(AclOperation.READ, AclResourceType.TOPIC, request.topic)
            response.partitions.append(await _list(request, index, context))
        except ApiError as error:
            response.partitions.append(
                DelayedPartitionListing(partition_index=index, error_code=error.code, error_message=error.message)
            )
    return response


async def _list(request: ListDelayedRecordsRequest, index: int, context: Context) -> DelayedPartitionListing:
    waiting = _find(request.topic, index, context)
    answer = DelayedPartitionListing(partition_index=index)
    if waiting is None:
        return answer
    answer.waiting = len(waiting.index)
    limit = min(request.limit, LISTED_MAX)
    if request.of_key:
        found = sorted([entry for piece in waiting.find(request.key) for entry in piece])[:limit]
    else:
        found = [entry for entry, _ in zip(waiting.index.ordered(), range(limit), strict=False)]
    read = waiting.reader()
    for packed in found:
        entry = unpack_entry(packed)
        tail = read(entry)
        if tail is not None:
            answer.records.append(
                DelayedRecordListing(
                    offset=entry.id,
                    deliver_at_ms=entry.deliver_at_ms,
                    key=key_of(tail),
                    value_bytes=value_bytes_of(tail),
                )
            )
        await context.pause()
    return answer


async def alter_records(request: AlterDelayedRecordsRequest, context: Context) -> AlterDelayedRecordsResponse:
    """Cancel records that wait, or give them another time; answered once every in-sync replica has the change."""
    response = AlterDelayedRecordsResponse()
    for index in request.partitions:
        try:
            operation = AclOperation.DELETE if request.deliver_at_ms < 0 else AclOperation.WRITE
            context.check_allowed(operation, AclResourceType.TOPIC, request.topic)
            changed = await _alter(request, index, context)
            response.partitions.append(AlteredDelayedPartition(partition_index=index, changed=changed))
        except ApiError as error:
            response.partitions.append(
                AlteredDelayedPartition(partition_index=index, error_code=error.code, error_message=error.message)
            )
    return response


async def _alter(request: AlterDelayedRecordsRequest, index: int, context: Context) -> int:
    node = context.node
    if not request.of_key and request.offset < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "name the key or the offset of the delayed records to change")
    waiting = _find(request.topic, index, context)
    if waiting is None:
        return 0
    longest_ms = waiting.partition.log.config.tidelog_delay_max_ms
    if request.deliver_at_ms > node.clock.wall_ms() + longest_ms:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{request.deliver_at_ms} is more than tidelog.delay.max.ms={longest_ms} ahead; "
            f"change that setting of {request.topic}",
        )
    chosen: list[bytes] = []
    for piece in _pieces(waiting, request):
        chosen += [entry for entry in piece if request.offset < 0 or unpack_entry(entry).id == request.offset]
        await node.slices.pause()
    changed = 0
    for start in range(0, len(chosen), _CHANGED_AT_ONCE):
        some = chosen[start : start + _CHANGED_AT_ONCE]
        append = partial(_append, request.deliver_at_ms)
        changed += len(await node.delayed.change(request.topic, index, partial(_still_waiting, some), append))
    return changed


def _pieces(waiting: DelayedPartition, request: AlterDelayedRecordsRequest) -> Iterator[list[bytes]]:
    return waiting.find(request.key) if request.of_key else waiting.index.in_pieces()


def _still_waiting(entries: list[bytes], waiting: DelayedPartition) -> list[bytes]:
    return waiting.still_waiting(entries)


def _append(deliver_at_ms: int, waiting: DelayedPartition, entries: list[bytes], now_ms: int) -> None:
    if deliver_at_ms < 0:
        waiting.cancel(entries, now_ms)
    else:
        waiting.reschedule(entries, deliver_at_ms, now_ms)


def _find(topic: str, index: int, context: Context) -> DelayedPartition | None:
    """What waits in a partition that this broker leads. Raises ApiError."""
    context.node.replica_manager.partition(topic, index).check_readable(-1)
    return context.node.delayed.find(topic, index)
