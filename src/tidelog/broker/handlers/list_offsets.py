"""ListOffsets: the first, last, newest-by-time offset of partitions, or the first at or after a time.

Version 0 is older than time indexes: it asks for up to N offsets before a time and gets segment boundaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.replication.partition import Partition
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_FIRST_VERSION: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 1 << 15
_CONSUMER: Final = -1
_OFFSET_NOT_AVAILABLE_FROM: Final = 5
_DEBUGGING_REPLICA: Final = -2

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch; -1 for what is not known."""


async def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Answer every partition for itself; one that a request names twice is refused both times (v1+)."""
    response = ListOffsetsResponse()
    twice: set[tuple[str, int]] = set()
    if context.api_version >= 1:
        twice = await _named_twice(request, context)
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        await context.pause()
        for partition in topic.partitions:
            is_twice = (topic.name, partition.partition_index) in twice
            answer.partitions.append(_answer(topic.name, partition, request, context, is_twice))
            await context.pause()
    return response


async def _named_twice(request: ListOffsetsRequest, context: Context) -> set[tuple[str, int]]:
    once: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        await context.pause()
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            (twice if key in once else once).add(key)
            await context.pause()
    return twice


def _answer(
    topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest, context: Context, is_twice: bool
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        context.check_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
        if is_twice:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{topic}-{asked.partition_index} stands in the request twice")
        timestamp = asked.timestamp
        if timestamp < 0 < context.api_version < _FIRST_VERSION.get(timestamp, _NEVER):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} needs a newer version of ListOffsets")
        partition = context.node.replica_manager.partition(topic, asked.partition_index)
        if request.replica_id != _DEBUGGING_REPLICA:
            partition.check_readable(asked.current_leader_epoch)
        if context.api_version == 0:
            now_ms = context.node.clock.wall_ms()
            found = partition.log.offsets_before(asked.timestamp, asked.max_num_offsets, now_ms)
            end_offset = partition.end_for_reader(request.replica_id != _CONSUMER, 0)
            response.old_style_offsets = [min(offset, end_offset) for offset in found]
            return response
        response.timestamp, response.offset, response.leader_epoch = _find(partition, timestamp, request)
    except ApiError as error:
        response.error_code = error.code
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < _OFFSET_NOT_AVAILABLE_FROM:
            response.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    except LogDirFailure as failure:
        context.node.replica_manager.fail_log_dir(failure)
        response.error_code = failure.code
    return response


def _find(partition: Partition, timestamp: int, request: ListOffsetsRequest) -> Found:
    log = partition.log
    end_offset = partition.end_for_reader(request.replica_id != _CONSUMER, request.isolation_level)
    if timestamp == LATEST:
        _check_settled(partition, request)
        return -1, end_offset, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return -1, start, log.leader_epochs.epoch_for_offset(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # nothing is in tiered storage, and nothing waits to be
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end_offset:
        _check_settled(partition, request)
        return -1, -1, -1
    return found.timestamp, found.offset, found.leader_epoch


def _check_settled(partition: Partition, request: ListOffsetsRequest) -> None:
    """Refuse a consumer as long as a new leader does not know how far the one before had committed (KIP-207).

    It would see the end of the log move backwards.
    """
    if request.replica_id == _CONSUMER and not partition.is_settled:
        raise ApiError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"the high watermark of {partition.topic}-{partition.index} lags behind its leader epoch",
        )
