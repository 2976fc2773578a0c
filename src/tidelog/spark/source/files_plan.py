"""From options to splits: which bytes of which files hold what is asked for. Called by `files` on the driver."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tidelog.records.batch import iterate_records
from tidelog.records.header import HEADER_BYTES, MAGIC, read_header_of_any_magic
from tidelog.records.legacy import iterate_legacy_records
from tidelog.spark.options import OptionError
from tidelog.spark.source.files_decode import SegmentSplit
from tidelog.spark.source.files_layout import PartitionFiles, Segment, find_partitions
from tidelog.spark.source.files_options import FileOptions
from tidelog.spark.source.files_scan import FileEnd, headers, opened, pread
from tidelog.spark.source.files_transactions import Stability, read_stability
from tidelog.spark.source.offsets import EARLIEST, LATEST
from tidelog.storage.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tidelog.storage.segment.offset_index import OFFSET_ENTRY
from tidelog.storage.segment.time_index import TIME_ENTRY


class Piece(NamedTuple):
    """A piece of a segment, and the offset that its first batch begins with."""

    position: int
    base_offset: int


def plan(options: FileOptions) -> list[SegmentSplit]:
    """The splits of everything that is asked for, partition by partition, in the order of the logs."""
    chosen = options.chosen(find_partitions(options.path))
    options.start.check_names(chosen)
    options.end.check_names(chosen)
    return [split for files in chosen for split in _splits_of(files, options)]


def _splits_of(files: PartitionFiles, options: FileOptions) -> Iterator[SegmentSplit]:
    stability = read_stability(files)
    end_offset = _end_offset(files, stability, options)
    first_offset = _first_offset(files, end_offset, options)
    if first_offset > end_offset:
        raise OptionError(f"{files.name} would be read from offset {first_offset} to {end_offset}: the range is empty")
    aborted = stability if options.is_read_committed else stability._replace(aborted=())
    for index, segment in enumerate(files.segments):
        following = files.segments[index + 1].base_offset if index + 1 < len(files.segments) else stability.end_offset
        if following > first_offset and segment.base_offset < end_offset and segment.size_bytes:
            yield from _cut(files, segment, (first_offset, min(end_offset, following)), aborted, options)


def _end_offset(files: PartitionFiles, stability: Stability, options: FileOptions) -> int:
    latest = stability.stable_offset if options.is_read_committed else stability.end_offset
    wanted = options.end.of(files)
    if options.end.is_time:
        found = first_offset_at(files, wanted)
        return latest if found is None else min(found, latest)
    if wanted == LATEST:
        return latest
    if wanted > latest and options.fail_on_data_loss:
        raise OptionError(
            f"option {options.end.option!r} ends {files.name} at {wanted}, and its files end at {latest}: "
            "set failOnDataLoss to false to read the existing records"
        )
    return min(wanted, latest)


def _first_offset(files: PartitionFiles, end_offset: int, options: FileOptions) -> int:
    wanted = options.start.of(files)
    if options.start.is_time:
        found = first_offset_at(files, wanted)
        if found is None and not options.is_late_start_allowed:
            raise OptionError(
                f"option {options.start.option!r} asks {files.name} for records from {wanted} on, but there are none: "
                "set startingOffsetsByTimestampStrategy to latest to skip this partition"
            )
        return end_offset if found is None else min(found, end_offset)
    if wanted == EARLIEST:
        return min(files.start_offset, end_offset)
    if wanted < files.start_offset and options.fail_on_data_loss:
        raise OptionError(
            f"option {options.start.option!r} starts {files.name} at {wanted}, and its files start at "
            f"{files.start_offset}: records between were deleted; set failOnDataLoss to false to read the others"
        )
    return max(wanted, files.start_offset)


def _cut(
    files: PartitionFiles, segment: Segment, offsets: tuple[int, int], stability: Stability, options: FileOptions
) -> Iterator[SegmentSplit]:
    """One split for a segment, or several for a large one."""
    pieces = pieces_of(segment, options.partition_bytes)
    for index, piece in enumerate(pieces):
        is_end = index + 1 == len(pieces)
        first_offset = max(offsets[0], piece.base_offset)
        end_offset = offsets[1] if is_end else min(offsets[1], pieces[index + 1].base_offset)
        if first_offset >= end_offset:
            continue
        yield SegmentSplit(
            path=segment.path,
            topic=files.topic,
            partition=files.partition,
            start_position=piece.position,
            end_position=segment.size_bytes if is_end else pieces[index + 1].position,
            may_be_torn=segment.is_last and is_end,
            first_offset=first_offset,
            end_offset=end_offset,
            aborted=stability.aborted_within(first_offset, end_offset),
            check_crcs=options.check_crcs,
        )


def pieces_of(segment: Segment, target_bytes: int) -> list[Piece]:
    """Where a segment may be cut, from its offset index. An entry that does not point at a batch is passed over."""
    pieces = [Piece(0, segment.base_offset)]
    if segment.size_bytes <= target_bytes:
        return pieces
    with opened(segment.path) as descriptor:
        for position in _indexed_positions(segment):
            if position - pieces[-1].position < target_bytes or position + HEADER_BYTES > segment.size_bytes:
                continue
            header = read_header_of_any_magic(pread(descriptor, HEADER_BYTES, position), 0)
            is_sound = header.magic == MAGIC and position + header.size_bytes <= segment.size_bytes
            # The offset of an older message does not give the offsets of the messages inside it.
            if is_sound and header.batch_length > 0 and header.base_offset > pieces[-1].base_offset:
                pieces.append(Piece(position, header.base_offset))
    return pieces


def _indexed_positions(segment: Segment) -> Iterator[int]:
    """Positions of batches, ascending. An index that is being written ends in zeros."""
    last = 0
    for _, position in OFFSET_ENTRY.iter_unpack(_whole_entries(segment.beside(OFFSET_INDEX_SUFFIX), OFFSET_ENTRY)):
        if position > last:
            last = position
            yield position


def _whole_entries(path: str, entry: Struct) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return b""
    return data[: len(data) // entry.size * entry.size]


def first_offset_at(files: PartitionFiles, timestamp_ms: int) -> int | None:
    """The first offset whose record is not older than a time, as a broker would find it; None if all are older."""
    for segment in files.segments:
        if not segment.is_last and _largest_timestamp(segment, default=timestamp_ms) < timestamp_ms:
            continue
        with opened(segment.path) as descriptor:
            for position, header in headers(segment.path, 0, FileEnd(segment.size_bytes, segment.is_last)):
                # The time on a wrapper of magic 1 is the latest inside it, as max_timestamp is in a batch.
                if header.max_timestamp >= timestamp_ms and header.next_offset > files.start_offset:
                    batch = pread(descriptor, header.size_bytes, position)
                    records = iterate_records(batch) if header.magic == MAGIC else iterate_legacy_records(batch)
                    for record in records:
                        if record.timestamp >= timestamp_ms and record.offset >= files.start_offset:
                            return record.offset
    return None


def _largest_timestamp(segment: Segment, default: int) -> int:
    """By its time index, whose last entry is the largest; `default` where there is none to be trusted."""
    entries = list(TIME_ENTRY.iter_unpack(_whole_entries(segment.beside(TIME_INDEX_SUFFIX), TIME_ENTRY)))
    return max((timestamp for timestamp, _ in entries), default=default)
