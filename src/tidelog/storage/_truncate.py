"""Cutting a log off, and what follows for the state of its producers.

A follower truncates where its log parts from the leader's. The producer state is then loaded from the newest snapshot
below that point, and the batches between are replayed; the loader does the same when it opens a log.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.storage._retention import mark_deleted
from tidelog.storage.producers.state import ProducerStateManager
from tidelog.storage.segment import Segment
from tidelog.storage.segment.batches import iterate_headers

if TYPE_CHECKING:
    from tidelog.storage.log import Log


def truncate_to(log: "Log", offset: int, now_ms: int) -> bool:
    """Remove everything from `offset` on; whether there was anything."""
    assert offset >= 0, f"truncation of {log.name} to the negative offset {offset}"
    log.write_staged()
    if offset >= log.log_end_offset:
        # This broker may have led for a moment and noted its epoch without writing anything in it.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if log.segments[0].base_offset > offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return True
    try:
        keep = log.segments.slot_of(offset) + 1
        mark_deleted(log, log.remove_segments(keep, len(log.segments)))
        log.active_segment.truncate_to(offset, now_ms)
        log.leader_epochs.truncate_from_end(offset)
        start_offset = min(offset, log.log_start_offset)
        log.producer_state.map_end_offset = log.log_end_offset
        rebuild_producer_state(log.producer_state, list(log.segments), start_offset, offset, now_ms)
    except OSError as error:
        raise log.fail(error) from error
    log.set_end_offset(offset, start_offset)
    return True


def truncate_fully_and_start_at(log: "Log", offset: int, now_ms: int, log_start_offset: int | None = None) -> None:
    """Remove everything; the log goes on at `offset`."""
    log.write_staged()
    try:
        mark_deleted(log, log.remove_segments(0, len(log.segments)))
        log.add_segment(Segment.create(log.directory, offset, log.config, now_ms))
        log.leader_epochs.clear()
        log.producer_state.truncate_fully_and_start_at(offset)
    except OSError as error:
        raise log.fail(error) from error
    log.set_end_offset(offset, offset if log_start_offset is None else log_start_offset)
    log.update_high_watermark(offset)


def rebuild_producer_state(
    state: ProducerStateManager, segments: Sequence[Segment], log_start_offset: int, end_offset: int, now_ms: int
) -> None:
    """Make the producer state that of a log which spans these offsets and these segments.

    Snapshots are taken at the last two segments on the way, so that the next crash need not read more than those.
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
    """Take the batches of a segment that lie in [start_offset, end_offset) into account."""
    first = segment.locate(start_offset, segment.size_bytes)
    if first is None:
        return
    for position, header in iterate_headers(segment.log_file, first.position, segment.size_bytes):
        if header.last_offset >= end_offset:
            return
        completed = state.replay(header, segment.read_batch(position, header) if header.is_control else None)
        if completed is not None:
            state.complete(completed)
