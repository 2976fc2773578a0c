"""The producer state of a log, read from its batches.

The state comes from the newest snapshot that can be read, and the batches behind it are replayed: when a log is opened,
and when it is truncated.
"""

from collections.abc import Sequence

from tidelog.storage.producers.state import ProducerStateManager
from tidelog.storage.segment import Segment
from tidelog.storage.segment.batches import iterate_headers


def rebuild_producer_state(
    state: ProducerStateManager, segments: Sequence[Segment], log_start_offset: int, end_offset: int, now_ms: int
) -> None:
    """Rebuild the producer state of a log with these offsets and segments.

    Snapshots are taken at the last two segments, so that recovery after the next crash reads no more than those.
    """
    was_empty = state.is_empty() and state.map_end_offset >= end_offset
    state.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > state.map_end_offset and not was_empty:
        snapshot_at = {segment.base_offset for segment in segments[-2:]}
        for slot, segment in enumerate(segments):
            following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
            if following <= state.map_end_offset or segment.base_offset >= end_offset:
                continue
            start_offset = max(segment.base_offset, state.map_end_offset, log_start_offset)
            state.map_end_offset = start_offset
            if segment.base_offset in snapshot_at:
                state.take_snapshot()
            replay_segment(state, segment, start_offset, end_offset)
    state.map_end_offset = end_offset
    state.take_snapshot()


def replay_segment(state: ProducerStateManager, segment: Segment, start_offset: int, end_offset: int) -> None:
    """Replay the batches of a segment with offsets in [start_offset, end_offset)."""
    first = segment.locate(start_offset, segment.size_bytes)
    if first is None:
        return
    for position, header in iterate_headers(segment.log_file, first.position, segment.size_bytes):
        if header.last_offset >= end_offset:
            return
        completed = state.replay(header, segment.read_batch(position, header) if header.is_control else None)
        if completed is not None:
            state.complete(completed)
