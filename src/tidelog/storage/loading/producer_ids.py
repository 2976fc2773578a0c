"""The largest producer id in the files of a log, so that no new producer gets the id of an old one.

Snapshots make this cheap: one is taken at the end of each segment and has every producer that had not expired then.
The batch headers of a segment without a snapshot after it are read.
"""

from tidelog.records.header import NO_PRODUCER_ID
from tidelog.storage.errors import CorruptSnapshotError
from tidelog.storage.log import Log
from tidelog.storage.producers.snapshot import read_snapshot
from tidelog.storage.segment import Segment
from tidelog.storage.segment.batches import iterate_headers
from tidelog.wire.errors import ApiError


def largest_active_producer_id(log: Log) -> int:
    """The largest id of the producers that the log has in memory; reads no file."""
    return max(log.producer_state.producers, default=NO_PRODUCER_ID)


def largest_producer_id(log: Log) -> int:
    """The largest producer id in memory, snapshots and batches of a log; -1 if there is none.

    OSError when a file cannot be read.
    """
    largest = largest_active_producer_id(log)
    state = log.producer_state
    readable = set()
    for offset in state.snapshot_offsets():
        try:
            entries = read_snapshot(state.snapshot_path(offset))
        except (CorruptSnapshotError, FileNotFoundError):
            continue
        readable.add(offset)
        largest = max(largest, max((entry.producer_id for entry in entries), default=NO_PRODUCER_ID))
    segments = list(log.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    for segment, end_offset in zip(segments, ends, strict=True):
        if end_offset not in readable:
            largest = max(largest, _largest_in(segment))
    return largest


def _largest_in(segment: Segment) -> int:
    largest = NO_PRODUCER_ID
    try:
        for _, header in iterate_headers(segment.log_file, 0, segment.size_bytes):
            largest = max(largest, header.producer_id)
    except ApiError:
        # A damaged segment is not readable after the damage; the part before it counts.
        return largest
    return largest
