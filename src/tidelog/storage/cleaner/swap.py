"""A cleaned segment takes the place of those it was made from. On the broker's loop: renames, nothing else.

    .cleaned → .swap      from here on a crash leads to the new segment, before it to the old ones
    old → .deleted        they are out of the log; fetches under way keep their descriptors
    .swap → no suffix     done

Loading finishes or undoes at the next start whatever was interrupted. The names must reach the disk before
the old files are deleted for good: the caller syncs the directory, then hands over what `replace_segments` returns.
"""

import os
from collections.abc import Sequence

from tidelog.storage.cleaner.jobs import GroupCleaned
from tidelog.storage.log import Log
from tidelog.storage.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, segment_path
from tidelog.storage.segment import Segment


class StaleGroupError(Exception):
    """The log is not any more what the worker has read, or the file is not what the worker has written."""


def sources_of(log: Log, group: GroupCleaned, known: Sequence[Segment]) -> list[Segment]:
    """The segments that a group replaces, out of those `known` when the job began; StaleGroupError if any is gone."""
    wanted = set(group.base_offsets)
    sources = [segment for segment in known if segment.base_offset in wanted]
    first = log.segments.slot_of(group.base_offsets[0])
    there = [log.segments[first + number] for number in range(min(len(sources), len(log.segments) - first))]
    if len(sources) != len(wanted) or there != sources or log.active_segment in sources:
        raise StaleGroupError(f"segments of {log.name} have changed since the job began")
    return sources


def open_cleaned(log: Log, group: GroupCleaned, now_ms: int) -> Segment:
    """The segment that a worker has written. StaleGroupError when the file is another one."""
    base_offset = group.base_offsets[0]
    path = segment_path(log.directory, base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise StaleGroupError(f"{path} is gone") from None
    if (status.st_ino, status.st_size) != (group.inode, group.size_bytes):
        raise StaleGroupError(f"{path} is not the file that the worker wrote")
    return Segment.open(
        log.directory, base_offset, log.config, now_ms, size_bytes=group.size_bytes, suffix=CLEANED_SUFFIX
    )


def replace_segments(log: Log, cleaned: Segment, sources: Sequence[Segment]) -> list[str]:
    """Put `cleaned` in the place of `sources`; the files to be deleted. LogDirFailure if a name cannot be changed."""
    slot = log.segments.slot_of(sources[0].base_offset)
    try:
        cleaned.change_suffix(SWAP_SUFFIX)
        log.segments.replace(slot, slot + len(sources), cleaned)
        # A snapshot belongs to the segment that begins at its offset, and there still is one at the first.
        deleted = log.segments.mark_deleted(sources, kept_snapshot=cleaned.base_offset)
        cleaned.change_suffix("")
    except OSError as error:
        raise log.fail(error) from error
    log.flush_state.add_unsynced(log.directory)
    return deleted


def remove_cleaned(directory: str) -> None:
    """Remove what an interrupted worker has left in a partition's directory."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            os.unlink(os.path.join(directory, name))
