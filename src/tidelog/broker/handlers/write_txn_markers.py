"""WriteTxnMarkers: ends transactions in partitions that this broker leads, for a coordinator or an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.coordinators.replies import Eventual, Reply, gather
from tidelog.coordination import ProducerEpoch
from tidelog.security.acls import AclOperation, AclResourceType
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
    from tidelog.broker.serving.context import Context


Written = Eventual[WritableTxnMarkerPartitionResult]


async def handle(request: WriteTxnMarkersRequest, context: Context) -> Eventual[WriteTxnMarkersResponse]:
    """Write them all; answered when each is committed or refused."""
    if not context.is_allowed(AclOperation.ALTER, AclResourceType.CLUSTER, is_logged=False) and not context.is_allowed(
        AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER
    ):
        return WriteTxnMarkersResponse(markers=[_denied(marker) for marker in request.markers])
    written: list[Written] = []
    results = [await _write(marker, context, written) for marker in request.markers]
    return gather(written, lambda _: WriteTxnMarkersResponse(markers=results))


def _denied(marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )


async def _write(marker: WritableTxnMarker, context: Context, written: list[Written]) -> WritableTxnMarkerResult:
    """Stage a marker for each partition of one producer; results are filled when what was `written` is over."""
    producer = ProducerEpoch(marker.producer_id, marker.producer_epoch)
    result = WritableTxnMarkerResult(producer_id=marker.producer_id)
    topics: dict[str, dict[int, None]] = {}
    for topic in marker.topics:
        topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    await context.node.slices.pause()
    for name, indexes in topics.items():
        answer = WritableTxnMarkerTopicResult(name=name)
        result.topics.append(answer)
        for index in indexes:
            entry = WritableTxnMarkerPartitionResult(partition_index=index)
            answer.partitions.append(entry)
            reply = _filling(entry)
            written.append(reply)
            context.node.markers.write(
                name,
                index,
                producer,
                marker.coordinator_epoch,
                marker.transaction_result,
                marker.transaction_version,
                reply,
            )
            await context.node.slices.pause()
    return result


def _filling(entry: WritableTxnMarkerPartitionResult) -> Reply[WritableTxnMarkerPartitionResult]:
    """Puts the result of one marker into its place in the response."""

    def fill(code: ErrorCode) -> WritableTxnMarkerPartitionResult:
        entry.error_code = code
        return entry

    return Reply(fill)
