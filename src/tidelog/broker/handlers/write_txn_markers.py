"""WriteTxnMarkers: a coordinator, or an operator, has transactions ended in partitions that this broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tidelog.broker.transaction_markers import write_marker
from tidelog.coordination import ProducerEpoch
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context


def handle(request: WriteTxnMarkersRequest, context: Context) -> Awaitable[WriteTxnMarkersResponse]:
    """Write them all; answered when each is committed or refused."""
    pending: list[asyncio.Future[ErrorCode]] = []
    results = [_write(marker, context, pending) for marker in request.markers]
    return _answer(results, pending)


def _write(
    marker: WritableTxnMarker, context: Context, pending: list[asyncio.Future[ErrorCode]]
) -> WritableTxnMarkerResult:
    """Stage the markers of one producer; its result is filled when what is `pending` is done."""
    producer = ProducerEpoch(marker.producer_id, marker.producer_epoch)
    result = WritableTxnMarkerResult(producer_id=marker.producer_id)
    loop = asyncio.get_running_loop()
    for topic in marker.topics:
        answer = WritableTxnMarkerTopicResult(name=topic.name)
        result.topics.append(answer)
        for index in topic.partition_indexes:
            entry = WritableTxnMarkerPartitionResult(partition_index=index)
            answer.partitions.append(entry)
            written: asyncio.Future[ErrorCode] = loop.create_future()
            written.add_done_callback(_filler(entry))
            pending.append(written)
            write_marker(
                context.node,
                topic.name,
                index,
                producer,
                marker.coordinator_epoch,
                marker.transaction_result,
                written.set_result,
            )
    return result


def _filler(entry: WritableTxnMarkerPartitionResult) -> Callable[[asyncio.Future[ErrorCode]], None]:
    def fill(written: asyncio.Future[ErrorCode]) -> None:
        entry.error_code = written.result()

    return fill


async def _answer(
    results: list[WritableTxnMarkerResult], pending: list[asyncio.Future[ErrorCode]]
) -> WriteTxnMarkersResponse:
    await asyncio.gather(*pending)
    return WriteTxnMarkersResponse(markers=results)
