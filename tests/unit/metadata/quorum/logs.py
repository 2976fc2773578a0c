"""Batches of a metadata log, as the leader of a quorum sends them, and a copy to follow it into."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.config import topic_config
from tidelog.config.loading import load_broker_config
from tidelog.metadata.quorum.frames import encode_value
from tidelog.metadata.quorum.log_copy import TOPIC_ID, MetadataLog
from tidelog.metadata.quorum.records import TopicRecord
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.timing.clock import ManualClock
from tidelog.wire.messages import fetch, fetch_snapshot
from tidelog.wire.schema import Message


def batch(base_offset: int, records: Sequence[Message], epoch: int = 1) -> bytes:
    """A batch of records in their first versions."""
    rows = [Record(base_offset + index, 5, None, encode_value(each, 0)) for index, each in enumerate(records)]
    return bytes(build_batch(rows, base_offset=base_offset, partition_leader_epoch=epoch))


def topics(base_offset: int, names: str, epoch: int = 1) -> bytes:
    """A batch that makes a topic for each letter."""
    return batch(base_offset, [TopicRecord(name=each, topic_id=each.encode() * 16) for each in names], epoch)


def open_copy(parent: Path) -> MetadataLog:
    return MetadataLog(str(parent), topic_config({}, load_broker_config({})), ManualClock())


def fetched(
    records: bytes | None = None,
    *,
    high_watermark: int = -1,
    error_code: int = 0,
    leader: tuple[int, int] = (3000, 1),
    diverging: tuple[int, int] = (-1, -1),
    snapshot: tuple[int, int] = (-1, -1),
    start_offset: int = 0,
    endpoints: dict[int, tuple[str, int]] | None = None,
) -> fetch.FetchResponse:
    """An answer to Fetch. `diverging` and `snapshot` are pairs of epoch and end offset."""
    partition = fetch.PartitionData(
        error_code=error_code,
        high_watermark=high_watermark,
        log_start_offset=start_offset,
        records=records,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        diverging_epoch=fetch.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        snapshot_id=fetch.SnapshotId(epoch=snapshot[0], end_offset=snapshot[1]),
    )
    found = {3000: ("c0", 9093), 3001: ("c1", 9094)} if endpoints is None else endpoints
    return fetch.FetchResponse(
        responses=[fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])],
        node_endpoints=[fetch.NodeEndpoint(node_id=node, host=host, port=port) for node, (host, port) in found.items()],
    )


def piece(data: bytes, position: int, size: int, *, error_code: int = 0) -> fetch_snapshot.FetchSnapshotResponse:
    """An answer to FetchSnapshot."""
    partition = fetch_snapshot.PartitionSnapshotResponse(
        error_code=error_code,
        size=size,
        position=position,
        unaligned_records=data,
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=3000, leader_epoch=1),
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[fetch_snapshot.TopicSnapshotResponse(name="__cluster_metadata", partitions=[partition])]
    )
