"""Which segments are written together into one, so that they do not shrink to crumbs with every cleaning.

Successive segments make a group while their files and indexes, as they are, would fit into one segment and their
offsets into the four bytes of an index entry.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tidelog.storage.cleaner.jobs import SourceSegment

_RELATIVE_OFFSET_MAX: Final = 2**31 - 1


class IndexSizes(NamedTuple):
    """The files beside a segment."""

    offset_bytes: int
    time_bytes: int


def group_segments(
    segments: Sequence[SourceSegment],
    end_offset: int,
    segment_bytes: int,
    segment_index_bytes: int,
    sizes_of: Callable[[SourceSegment], IndexSizes],
) -> list[list[SourceSegment]]:
    """`segments` in groups; the last of them ends before `end_offset`."""
    groups: list[list[SourceSegment]] = []
    log_bytes = offset_bytes = time_bytes = 0
    for slot, segment in enumerate(segments):
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
        sizes = sizes_of(segment)
        fits = bool(groups) and (
            log_bytes + segment.size_bytes <= segment_bytes
            and offset_bytes + sizes.offset_bytes <= segment_index_bytes
            and time_bytes + sizes.time_bytes <= segment_index_bytes
            # An empty segment has no offsets of its own; taking it along keeps such ones from piling up.
            and (segment.size_bytes == 0 or following - 1 - groups[-1][0].base_offset <= _RELATIVE_OFFSET_MAX)
        )
        if not fits:
            groups.append([])
            log_bytes = offset_bytes = time_bytes = 0
        groups[-1].append(segment)
        log_bytes += segment.size_bytes
        offset_bytes += sizes.offset_bytes
        time_bytes += sizes.time_bytes
    return groups
