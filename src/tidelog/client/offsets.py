"""Offsets of partitions: found by time or by end, and moved forward by deleting the records before them."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.refusals import raise_if_refused
from tidelog.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic

# Stand-ins for a time in ListOffsets.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

# As an offset to delete up to: everything that is there.
HIGH_WATERMARK = -1


class FoundOffset(NamedTuple):
    """An offset and the time of its record; -1 each when there is none."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    cluster: ClusterClient, topic: str, times: Mapping[int, int], *, read_committed: bool = False
) -> dict[int, FoundOffset]:
    """For each partition in `times`: the first offset at or after that time, or what LATEST and its like ask for."""

    def attempt() -> dict[int, FoundOffset]:
        found: dict[int, FoundOffset] = {}
        for node, partitions in cluster.by_leader(topic, times).items():
            wanted = {partition: times[partition] for partition in partitions}
            found.update(_list_on(cluster, node, topic, wanted, read_committed))
        return found

    return dict(sorted(cluster.retrying(attempt, even_if_lost=True).items()))


def delete_records(cluster: ClusterClient, topic: str, before: Mapping[int, int]) -> dict[int, int]:
    """Delete what lies before the offsets in `before`; returns each partition's new first offset."""

    def attempt() -> dict[int, int]:
        starts: dict[int, int] = {}
        for node, partitions in cluster.by_leader(topic, before).items():
            starts.update(_delete_on(cluster, node, topic, {partition: before[partition] for partition in partitions}))
        return starts

    return dict(sorted(cluster.retrying(attempt, even_if_lost=True).items()))


def _list_on(
    cluster: ClusterClient, node: Node, topic: str, times: Mapping[int, int], read_committed: bool
) -> dict[int, FoundOffset]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=partition, timestamp=time) for partition, time in times.items()
                ],
            )
        ],
    )
    found: dict[int, FoundOffset] = {}
    for entry in cluster.on_node(node, request, ListOffsetsResponse).topics:
        for partition in entry.partitions:
            raise_if_refused(f"{topic}-{partition.partition_index}", partition.error_code)
            found[partition.partition_index] = FoundOffset(
                partition.offset, partition.timestamp, partition.leader_epoch
            )
    return found


def _delete_on(cluster: ClusterClient, node: Node, topic: str, before: Mapping[int, int]) -> dict[int, int]:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=partition, offset=offset)
                    for partition, offset in before.items()
                ],
            )
        ],
        timeout_ms=int(cluster.timeout_s * 1000),
    )
    starts: dict[int, int] = {}
    for entry in cluster.on_node(node, request, DeleteRecordsResponse).topics:
        for partition in entry.partitions:
            raise_if_refused(f"{topic}-{partition.partition_index}", partition.error_code)
            starts[partition.partition_index] = partition.low_watermark
    return starts
