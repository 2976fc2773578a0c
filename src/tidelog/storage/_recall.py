"""Batches of producers from before the last snapshot, found again in the log.

A snapshot keeps the last batch of each producer, as Kafka's does. But a producer may have five requests under way when
the broker stops, and sends all of them again to the next: those that had been written must be known for what they are,
or the producer is told that its sequences are out of order and gives up. So when the first batch comes that does not
continue its producer's sequence, the end of the log before the snapshot is read once, headers only, for all producers.

Called by `_append`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidelog.records.header import BatchHeader
from tidelog.storage.segment.batches import iterate_headers

if TYPE_CHECKING:
    from tidelog.storage.log import Log
    from tidelog.storage.segment import Segment

_RECALLED_BYTES: Final = 16 << 20
"""How much of the log is read: what many producers had under way, and yet a matter of milliseconds."""


def recall_batches(log: "Log") -> None:
    """Let the producer state know up to five batches of each producer again."""
    state = log.producer_state
    end_offset = max((entry.batches[0].first_offset for entry in state.producers.values() if entry.batches), default=0)
    try:
        state.recall(_batches_before(log, end_offset))
    except OSError as error:
        raise log.fail(error) from error


def _batches_before(log: "Log", end_offset: int) -> Iterator[BatchHeader]:
    """The headers of the last batches before `end_offset`, ascending."""
    spans: list[tuple[Segment, int, int]] = []
    bytes_left = _RECALLED_BYTES
    for slot in range(log.segments.slot_of(end_offset), -1, -1):
        segment = log.segments[slot]
        end = log.written_bytes(segment)
        if not spans and (batch := segment.locate(end_offset, end)) is not None:
            end = batch.position
        start = _indexed_position(segment, end - bytes_left)
        spans.append((segment, start, end))
        bytes_left -= end - start
        if bytes_left <= 0:
            break
    for segment, start, end in reversed(spans):
        for _, header in iterate_headers(segment.log_file, start, end):
            yield header


def _indexed_position(segment: "Segment", position: int) -> int:
    """Where a batch begins, at or after `position` if the index has one there; otherwise the segment's start."""
    offset = segment.offset_index.first_at_position(position) if position > 0 else None
    return 0 if offset is None else segment.offset_index.lookup(offset)[1]
