"""Replaces segments by the cleaned one made from them. On the broker's loop, with renames only.

    .cleaned → .swap      a crash before this keeps the old segments, a crash after it the new one
    old → .deleted        they are out of the log; running fetches keep their descriptors
    .swap → no suffix     done

At the next start, loading finishes or undoes an interrupted swap. The new names must be on disk before the old files
are deleted: the caller syncs the directory, then deletes the files that `replace_segments` returns.
"""

import os
from collections.abc import Sequence

from tidelog.storage.cleaner.jobs import GroupCleaned
from tidelog.storage.log import Log
from tidelog.storage.names import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, segment_path
from tidelog.storage.segment import Segment


class StaleGroupError(Exception):
    """The log has changed since the worker read it, or the file is not the one that the worker wrote."""


def sources_of(log: Log, group: GroupCleaned, known: Sequence[Segment]) -> list[Segment]:
    """The segments that a group replaces, out of those `known` when the job began; StaleGroupError if one is gone."""
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
        raise StaleGroupError(f"{path} does not exist") from None
    if (status.st_ino, status.st_size) != (group.inode, group.size_bytes):
        raise StaleGroupError(f"{path} is not the file that the worker wrote")
    return Segment.open(
        log.directory, base_offset, log.config, now_ms, size_bytes=group.size_bytes, suffix=CLEANED_SUFFIX
    )


def replace_segments(log: Log, cleaned: Segment, sources: Sequence[Segment]) -> list[str]:
    """Replace `sources` by `cleaned`; returns the files to delete. LogDirFailure if a rename fails."""
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
    """Remove the `.cleaned` files of an interrupted worker from a partition's directory."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            os.unlink(os.path.join(directory, name))
