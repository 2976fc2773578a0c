"""Whether the indexes of a segment are plausible, by their sizes and their last entries alone.

`loader` checks every segment that it does not read anyway. An index that fails is rebuilt from the segment; damage in
the middle of an index with a plausible end is not detected, as in Kafka.
"""

import os
from struct import Struct

from tidelog.storage.errors import CorruptIndexError
from tidelog.storage.loading._partition_files import PartitionFiles
from tidelog.storage.segment import Segment
from tidelog.storage.segment.offset_index import OFFSET_ENTRY
from tidelog.storage.segment.time_index import TIME_ENTRY


def index_problem(segment: Segment, files: PartitionFiles, end_offset: int) -> str | None:
    """What is wrong with an index of `segment`, which ends before `end_offset`; None if it is plausible."""
    base_offset = segment.base_offset
    if segment.size_bytes == 0:
        return None
    offset_index = files.offset_indexes.get(base_offset)
    time_index = files.time_indexes.get(base_offset)
    if offset_index is None:
        return "the offset index is missing"
    if time_index is None:
        return "the time index is missing"
    offset_bytes, time_bytes = offset_index.stat().st_size, time_index.stat().st_size
    if offset_bytes % OFFSET_ENTRY.size or time_bytes % TIME_ENTRY.size:
        return f"the {offset_bytes} or {time_bytes} bytes of an index are not whole entries"
    if offset_bytes:
        relative, position = _entry(segment.offset_index.path, offset_bytes - OFFSET_ENTRY.size, OFFSET_ENTRY)
        # No entry is ever made for the first batch, so zeros are the rest of a file that was not trimmed.
        if relative < 0 or base_offset + relative >= end_offset or not 0 < position < segment.size_bytes:
            return f"the offset index ends with offset {base_offset + relative} at position {position}"
    if time_bytes:
        problem = _time_problem(segment, time_bytes, end_offset)
        if problem is not None:
            return problem
    return _transaction_problem(segment) if base_offset in files.transaction_indexes else None


def _time_problem(segment: Segment, time_bytes: int, end_offset: int) -> str | None:
    path = segment.time_index.path
    timestamp, relative = _entry(path, time_bytes - TIME_ENTRY.size, TIME_ENTRY)
    ascends = time_bytes == TIME_ENTRY.size or _entry(path, 0, TIME_ENTRY)[0] < timestamp
    if timestamp < 0 or relative < 0 or segment.base_offset + relative >= end_offset or not ascends:
        return f"the time index ends with timestamp {timestamp} at offset {segment.base_offset + relative}"
    return None


def _transaction_problem(segment: Segment) -> str | None:
    try:
        segment.transaction_index.sanity_check()
    except CorruptIndexError as error:
        return str(error)
    return None


def _entry(path: str, position: int, entry: Struct) -> tuple[int, int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(descriptor, entry.size, position)
    finally:
        os.close(descriptor)
    first, second = entry.unpack(data)
    return first, second
